"""Policy labels over tiles against scipy.ndimage.label over the whole image: the same parts, numbers 1..N
without a gap; the same bytes for any number of threads and any memory. scipy lives in the environment of
the tables' peers."""
import os
import subprocess

import numpy as np
import pytest
import zarr

from peers import BUILD

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCIPY = os.environ.get("TG_TABLES_PYTHON", os.path.join(ROOT, "build", "venv", "tables", "bin", "python"))
TIDEGATE = os.path.join(BUILD, "tidegate")
pytestmark = [pytest.mark.skipif(not os.path.exists(TIDEGATE), reason=f"no tidegate in {BUILD}"),
              pytest.mark.skipif(not os.path.exists(SCIPY), reason="no Python with scipy")]

LABEL = """
import sys
import numpy as np
from scipy import ndimage
a = np.load(sys.argv[1])
s = ndimage.generate_binary_structure(a.ndim, int(sys.argv[3]))
np.save(sys.argv[2], ndimage.label(a, s)[0])
"""


def whole(tmp, a, connectivity):
    np.save(tmp / "a.npy", a)
    subprocess.run([SCIPY, "-c", LABEL, tmp / "a.npy", tmp / "l.npy", str(connectivity)], check=True)
    return np.load(tmp / "l.npy")


def tiles(tmp, connectivity, *more):
    done = subprocess.run([TIDEGATE, "apply", tmp / "in.zarr", tmp / "out.zarr", "--policy", "labels", "--op",
                           f"label:connectivity={connectivity}", "--json", *more], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return zarr.open_array(tmp / "out.zarr", mode="r")[...]


def same_parts(got, want):
    assert ((got == 0) == (want == 0)).all()
    pairs = np.unique(np.stack([got.ravel(), want.ravel()]), axis=1)
    n = int(want.max())
    assert pairs.shape[1] == n + (want == 0).any()
    assert sorted(set(got.ravel()) - {0}) == list(range(1, n + 1))


CASES = [((300, 411), (64, 50), "grid:64", 1, 0.5), ((300, 411), (33, 70), "grid:50/41", 2, 0.4),
         ((40, 61, 83), (16, 16, 16), "grid:20", 1, 0.3), ((40, 61, 83), (7, 30, 30), "grid:25/20", 3, 0.1),
         ((5000,), (128,), "grid:99", 1, 0.8)]


@pytest.mark.parametrize("shape,chunks,rois,connectivity,density", CASES)
def test_whole_image(tmp_path, shape, chunks, rois, connectivity, density):
    rng = np.random.default_rng(7)
    a = (rng.random(shape) < density).astype(np.uint8)
    zarr.create_array(tmp_path / "in.zarr", shape=shape, chunks=chunks, dtype="u1",
                      dimension_names=["z", "y", "x"][-len(shape):])[...] = a
    first = tiles(tmp_path, connectivity, "--rois", rois)
    same_parts(first, whole(tmp_path, a, connectivity))
    for more in (["--threads", "1"], ["--threads", "4", "--memory", "12MiB"]):
        subprocess.run(["rm", "-r", tmp_path / "out.zarr"], check=True)
        again = tiles(tmp_path, connectivity, "--rois", rois, *more)
        assert (again == first).all()


def test_one_long_object(tmp_path):
    """A snake through all tiles, whose parts meet only at its ends."""
    a = np.zeros((256, 256), np.uint8)
    a[::2] = 1
    a[1::4, -1] = 1
    a[3::4, 0] = 1
    zarr.create_array(tmp_path / "in.zarr", shape=a.shape, chunks=(16, 16), dtype="u1",
                      dimension_names=["y", "x"])[...] = a
    assert (tiles(tmp_path, 1, "--rois", "grid:8") == a).all()


def test_channels_are_apart(tmp_path):
    """Objects of two channels that lie over each other are two."""
    a = np.ones((2, 30, 30), np.uint8)
    zarr.create_array(tmp_path / "in.zarr", shape=a.shape, chunks=(1, 16, 16), dtype="u1",
                      dimension_names=["c", "y", "x"])[...] = a
    got = tiles(tmp_path, 1, "--rois", "grid:10")
    assert (got[0] == got[0, 0, 0]).all() and (got[1] == got[1, 0, 0]).all()
    assert sorted(np.unique(got)) == [1, 2]
