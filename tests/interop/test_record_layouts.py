"""Every layout that `tidegate record` writes, read whole by zarr-python and by tensorstore, pixel for pixel
by the synthetic camera's formula."""
import itertools
import json
import os
import subprocess

import numpy as np
import pytest

zarr = pytest.importorskip("zarr", reason="no environment zarr3")
ts = pytest.importorskip("tensorstore", reason="no environment zarr3")

from peers import BUILD  # noqa: E402
from test_ngff_interop import test_frame as frame_of  # noqa: E402

COMMAND = os.path.join(BUILD, "tidegate")
pytestmark = pytest.mark.filterwarnings("ignore")


def record(out, *options, dtype="uint16", height=37, width=50, frames=23):
    source = f"test:{width}x{height}:{dtype}"
    done = subprocess.run([COMMAND, "record", str(out), "--from", source, "--frames", str(frames), "--json", *options],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(done.stdout)["published"] == frames
    return np.stack([frame_of(0, i, height, width, dtype) for i in range(frames)])


def by_zarr_python(path):
    store = zarr.storage.ZipStore(str(path), mode="r") if str(path).endswith(".zip") else str(path)
    return zarr.open_group(store, mode="r")["0"][...]


def by_tensorstore(path, driver):
    kvstore = {"driver": "file", "path": str(path / "0")}
    if str(path).endswith(".zip"):
        kvstore = {"driver": "zip", "base": {"driver": "file", "path": str(path)}, "path": "0/"}
    return ts.open({"driver": driver, "kvstore": kvstore}).result().read().result()


ONE = ["--chunk-frames", "1"]  # small frames are gathered in chunks of 1 MiB otherwise
LAYOUTS = {
    "default": [],
    "shards of 7 frames": ["--shard", "7frames", *ONE],
    "no shards": ["--shard", "none"],
    "live": ["--live", "--shard", "7frames", *ONE],
    "4 frames a chunk": ["--chunk-frames", "4", "--shard", "8frames"],
    "4 frames a chunk, no shards": ["--chunk-frames", "4", "--shard", "none"],
    "tiles": ["--tile", "16,32", "--shard", "5frames", *ONE],
    "tiles, no shards": ["--tile", "16,32", "--shard", "none"],
    "no checksum": ["--checksum", "off", "--shard", "7frames", *ONE],
    "frame axis last": ["--frame-axis", "last", "--shard", "none"],
    "frame axis last, shards": ["--frame-axis", "last", "--shard", "6frames", *ONE],
    "frame axis last, 3 frames a chunk": ["--frame-axis", "last", "--chunk-frames", "3", "--shard", "none"],
    "zstd": ["--codec", "zstd:3", "--shard", "7frames", *ONE],
    "zstd, tiles": ["--codec", "zstd:1", "--tile", "16,32", "--shard", "5frames", *ONE],
    "gzip": ["--codec", "gzip:5", "--shard", "none"],
    "blosc lz4": ["--codec", "blosc:lz4:5:shuffle", "--shard", "7frames", *ONE],
    "blosc zstd bitshuffle": ["--codec", "blosc:zstd:3:bitshuffle", "--shard", "none"],
    "buffered": ["--direct", "off", "--shard", "7frames", *ONE],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_zarr3_directory(tmp_path, layout):
    want = record(tmp_path / "x.zarr", *LAYOUTS[layout])
    if "frame axis last" in layout:
        want = np.moveaxis(want, 0, -1)
    np.testing.assert_array_equal(by_zarr_python(tmp_path / "x.zarr"), want)
    np.testing.assert_array_equal(by_tensorstore(tmp_path / "x.zarr", "zarr3"), want)


@pytest.mark.parametrize("codec", ["none", "zstd:3", "gzip:5", "blosc:lz4:5:shuffle"])
@pytest.mark.parametrize("axis", ["first", "last"])
def test_zarr2_directory(tmp_path, codec, axis):
    want = record(tmp_path / "x.zarr", "--format", "zarr2", "--codec", codec, "--frame-axis", axis)
    want = want if axis == "first" else np.moveaxis(want, 0, -1)
    np.testing.assert_array_equal(by_zarr_python(tmp_path / "x.zarr"), want)
    np.testing.assert_array_equal(by_tensorstore(tmp_path / "x.zarr", "zarr"), want)


@pytest.mark.parametrize("fmt", ["zarr3", "zarr2"])
@pytest.mark.parametrize("codec", ["none", "zstd:3"])
def test_zip(tmp_path, fmt, codec):
    want = record(tmp_path / "x.zip", "--format", fmt, "--codec", codec)
    np.testing.assert_array_equal(by_zarr_python(tmp_path / "x.zip"), want)
    driver = "zarr3" if fmt == "zarr3" else "zarr"
    np.testing.assert_array_equal(by_tensorstore(tmp_path / "x.zip", driver), want)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "uint32", "int64", "uint64", "float32", "float64"])
def test_types(tmp_path, dtype):
    want = record(tmp_path / "x.zarr", "--shard", "7frames", *ONE, dtype=dtype)
    np.testing.assert_array_equal(by_zarr_python(tmp_path / "x.zarr"), want)
    np.testing.assert_array_equal(by_tensorstore(tmp_path / "x.zarr", "zarr3"), want)


@pytest.mark.parametrize("arrival", list(itertools.permutations("tcz")))
def test_order_of_arrival(tmp_path, arrival):
    """T23: every order of arrival puts each plane where a transposition puts it. The source is told how many frames."""
    extents = {"t": 3, "c": 2, "z": 4}
    options = ["--dims", "t=3,c=2,z=4", "--acquire", ",".join(arrival), "--shard", "none"]
    frames = record(tmp_path / "x.zarr", *options, height=5, width=6, frames=24)
    planes = frames.reshape(*(extents[a] for a in arrival), 5, 6)
    want = planes.transpose(*(arrival.index(a) for a in "tcz"), 3, 4)
    np.testing.assert_array_equal(by_zarr_python(tmp_path / "x.zarr"), want)
    np.testing.assert_array_equal(by_tensorstore(tmp_path / "x.zarr", "zarr3"), want)


@pytest.mark.parametrize("frames", [1, 7, 8, 15])
def test_ends_of_shards(tmp_path, frames):
    """T8: the last shard is short, exactly full, or holds one frame."""
    want = record(tmp_path / "x.zarr", "--shard", "7frames", *ONE, frames=frames)
    np.testing.assert_array_equal(by_zarr_python(tmp_path / "x.zarr"), want)
    np.testing.assert_array_equal(by_tensorstore(tmp_path / "x.zarr", "zarr3"), want)


def test_append_goes_on(tmp_path):
    path = tmp_path / "x.zarr"
    record(path, "--shard", "7frames", *ONE, frames=10)
    done = subprocess.run([COMMAND, "record", str(path), "--from", "test:50x37:uint16", "--frames", "5", "--append",
                           "--shard", "7frames", *ONE, "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    got = by_zarr_python(path)
    assert got.shape[0] == 15
    np.testing.assert_array_equal(got[:10], np.stack([frame_of(0, i, 37, 50, "uint16") for i in range(10)]))
    np.testing.assert_array_equal(by_tensorstore(path, "zarr3"), got)
