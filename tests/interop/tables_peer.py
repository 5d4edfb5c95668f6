"""Run in the environment `tables` by test_tables.py: what anndata and ngio make of our files, and
files of theirs. Prints nothing and ends with 0 if all is as it should be."""
import sys
import warnings

import numpy as np

warnings.filterwarnings("ignore")


def check_anndata(path, kind):
    """What tables_tool.c wrote."""
    import anndata

    a = anndata.read_zarr(path)
    want = np.array([[0 if (7 * i + j) % 3 == 0 else i + j / 8 for j in range(7)]
                     for i in range(10)], "f4")
    if kind == "none":
        assert a.X is None and a.shape == (10, 7)
    else:
        x = a.X if kind == "dense" else a.X.toarray()
        assert x.dtype == np.float32 and np.array_equal(x, want)
        if kind != "dense":
            assert a.X.format == kind and a.X.nnz == np.count_nonzero(want)
            assert np.array_equal((a.X @ np.ones((7, 1), "f4"))[:, 0], want.sum(1))
        assert np.array_equal(np.asarray(a[2:5, "ioné3"].X.todense() if kind != "dense"
                                         else a[2:5, "ioné3"].X).ravel(), want[2:5, 3])
    for frame, prefix, n in ((a.obs, "cell", 10), (a.var, "ion", 7)):
        assert list(frame.columns) == ["f", "id", "word", "yes"]
        assert list(frame.index) == [f"{prefix}é{i}" for i in range(n)]
        assert list(frame["word"]) == list(frame.index)
        assert list(frame["f"]) == [i / 4 for i in range(n)]
        assert frame["id"].dtype == np.int64 and list(frame["id"]) == [100 - i for i in range(n)]
        assert frame["yes"].dtype == bool and list(frame["yes"]) == [i % 2 == 0 for i in range(n)]


def check_annotation(out):
    """What `tidegate annotate` wrote, as scanpy and squidpy would take it."""
    import anndata
    import zarr

    a = anndata.read_zarr(f"{out}/anndata.zarr")
    stack = zarr.open_array(f"{out}/ion_images.zarr/0", mode="r")[:]
    x, y = a.obs["x"].to_numpy(), a.obs["y"].to_numpy()
    want = np.where(np.isnan(stack), 0, stack)[:, y, x].T
    assert a.shape == want.shape and a.X.dtype == np.float32 and a.X.format == "csc"
    assert np.array_equal(a.X.toarray(), want) and np.array_equal(a.X.tocsr()[5].toarray()[0], want[5])
    assert list(a.obs.columns) == ["x", "y", "tic"] and a.obs.index[1] == f"{x[1]}_{y[1]}"
    assert np.array_equal(a.obsm["spatial"], np.stack([x, y], 1))
    assert list(a.var.columns) == ["formula", "modifier", "mz", "fdr", "msm", "chaos", "spatial", "spectral"]
    assert (a.var["fdr"] <= 0.2).all() and a.var.index.is_unique
    some = a[a.obs["x"] < 5, a.var["modifier"] == "+Na"]
    assert some.shape[0] == (x < 5).sum() and some.shape[1] > 10


ROIS = {"A": ((0.0, 3.0), (1.5, 8.25), (0.0, 16.0)), "B": ((1.0, 1.0), (0.0, 2.0), (7.0, 9.0))}
MASKS = {3: ((0.0, 1.0), (0.0, 8.0), (1.0, 2.0)), 70000: ((0.0, 3.0), (2.0, 4.0), (5.0, 2.5))}


def _image(path, version, axes="zyx"):
    from ngio import create_empty_ome_zarr

    return create_empty_ome_zarr(path, shape=(8, 3, 64, 64)[-len(axes):], pixelsize=0.5,
                                 z_spacing=1.0, axes_names=axes, ngff_version=version,
                                 overwrite=True)


def _roi(name, box, label=None):
    from ngio import Roi

    return Roi.from_values(name=name, slices=dict(zip("zyx", box)), space="world", label=label)


def make_tables(path, version):
    """An image with ROI tables of each kind and backend, as ngio writes them."""
    from ngio.tables import MaskingRoiTable, RoiTable

    image = _image(path, version)
    for backend in ("anndata", "csv", "json"):
        image.add_table(f"roi_{backend}", RoiTable([_roi(n, b) for n, b in ROIS.items()]),
                        backend=backend)
        image.add_table(f"mask_{backend}",
                        MaskingRoiTable([_roi(str(k), b, k) for k, b in MASKS.items()],
                                        reference_label="nuclei"), backend=backend)


def make_legacy(path, version):
    """As fractal-tasks-core wrote them before ngio: float32 X, other columns in obs."""
    import anndata
    import pandas as pd
    import zarr

    anndata.settings.zarr_write_format = 2 if version == "0.4" else 3
    _image(path, version, "tzyx")
    columns = [f"{p}{a}_micrometer" for p in ("", "len_") for a in "xyz"]
    x = np.array([[b[i][j] for j in (0, 1) for i in (2, 1, 0)] for b in ROIS.values()], "f4")
    obs = pd.DataFrame({"row": pd.Categorical(["r1", "r1"]), "label": pd.array([5, None], "Int64"),
                        "len_t_second": [2.0, 3.0]}, index=list(ROIS))
    obs["t_second"] = pd.Categorical([4.0, 1.0])
    a = anndata.AnnData(X=x, obs=obs, var=pd.DataFrame(index=columns))
    a.write_zarr(f"{path}/tables/FOV_ROI_table")
    group = zarr.open_group(f"{path}/tables/FOV_ROI_table", mode="r+")
    group.attrs.update({"fractal_table_version": "1", "type": "roi_table"})


def check_tables(path, backends):
    """Tables that tidegate wrote from boxes (make_boxes() of test_tables.py), read by ngio."""
    from ngio import open_ome_zarr_container

    image = open_ome_zarr_container(path)
    for backend in backends.split(","):
        assert f"t_{backend}" in image.list_tables() and f"m_{backend}" in image.list_tables()
        rois = image.get_table(f"t_{backend}").rois()
        assert [r.name for r in rois] == ["a", "b, c"], rois
        assert [r.label for r in rois] == [7, 9]
        for r, (z, y, x) in zip(rois, [((0, 3), (0, 32), (16, 16)), ((0, 3), (5, 5), (15, 5))]):
            for axis, want in zip("zyx", (z, y, x)):
                s = r.get(axis)
                assert (s.start, s.length) == want, (backend, r)
        masks = image.get_masking_roi_table(f"m_{backend}")
        assert masks.reference_label == "nuclei"
        assert sorted(r.label for r in masks.rois()) == [2, 300]
        box = {r.label: r for r in masks.rois()}[300]
        assert (box.get("x").start, box.get("x").length) == (5.0, 1.5)
        assert (box.get("y").start, box.get("y").length) == (2.0, 0.5)


def make_labels(path, version):
    image = _image(path, version)
    labels = image.derive_label("nuclei")
    pixels = np.zeros((3, 64, 64), "u4")
    pixels[0, 4, 10:13] = 300
    pixels[1:, 60:, 60:] = 2
    labels.set_array(pixels)


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
