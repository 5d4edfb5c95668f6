"""What an annotation leaves for others: pixels x ions as AnnData, read by the anndata package and by zarr-python,
against the stack of images and the table."""
import csv
import os
import shutil
import subprocess

import numpy as np
import pytest
import zarr

from peers import BUILD, ROOT
from test_tables import PYTHON, peer

TIDEGATE = os.path.join(BUILD, "tidegate")
OWN = os.path.join(ROOT, "tests", "data", "ims", "synthetic-own")

pytestmark = pytest.mark.skipif(not os.path.exists(TIDEGATE), reason=f"no tidegate in {BUILD}")


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    folder = tmp_path_factory.mktemp("annotate")
    for ending in ("imzML", "ibd"):
        shutil.copy(os.path.join(OWN, f"synthetic.{ending}"), folder / f"own.{ending}")
    done = subprocess.run([TIDEGATE, "annotate", folder / "own.imzML", folder / "out", "--db", os.path.join(OWN, "db.csv"),
                           "--adducts", "+H,+Na,+K", "--fdr", "0.2", "--progress", "none", "--json"], capture_output=True,
                          text=True, timeout=300)
    assert done.returncode == 0, done.stdout
    return folder / "out"


def test_zarr_python_reads_the_matrix(out):
    """X, by columns, is the stack at the sampled pixels; obs, var and obsm say what rows and columns are."""
    root = zarr.open_group(out / "anndata.zarr", mode="r")
    stack = zarr.open_array(out / "ion_images.zarr" / "0", mode="r")[:]
    names = list(zarr.open_group(out / "ion_images.zarr", mode="r").attrs["tidegate_ions"])
    assert root.attrs["encoding-type"] == "anndata" and root["X"].attrs["encoding-type"] == "csc_matrix"
    x, y = root["obs/x"][:], root["obs/y"][:]
    want = np.where(np.isnan(stack), 0, stack)[:, y, x].T
    assert list(root["X"].attrs["shape"]) == list(want.shape) and want.shape == (1693, len(names))
    indptr, indices, data = (root[f"X/{k}"][:] for k in ("indptr", "indices", "data"))
    got = np.zeros_like(want)
    for i in range(len(names)):
        rows = indices[indptr[i]:indptr[i + 1]]
        assert (np.diff(rows) > 0).all()
        got[rows, i] = data[indptr[i]:indptr[i + 1]]
    assert np.array_equal(got, want) and (data != 0).all()
    assert list(root["var/ion"][:]) == names
    assert np.array_equal(root["obsm/spatial"][:], np.stack([x, y], 1).astype("f8"))
    best = {}
    for row in csv.DictReader(open(out / "annotations.csv")):
        best[row["ion"]] = min([row, best.get(row["ion"], row)], key=lambda r: float(r["fdr"]))
    assert sorted(best) == sorted(names)
    for column in ("mz", "fdr", "msm", "chaos", "spatial", "spectral"):
        assert np.array_equal(root[f"var/{column}"][:], [float(best[n][column]) for n in names]), column


@pytest.mark.skipif(not os.path.exists(PYTHON), reason="no environment tables")
def test_anndata_reads_the_matrix(out):
    peer("check_annotation", out)
