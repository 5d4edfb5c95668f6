"""What `tidegate record` writes, judged by ome-zarr-models and read by zarr-python: OME-NGFF
documents, pixels by the synthetic camera's formula, smaller levels, the frame table."""
import itertools
import os
import subprocess

import numpy as np
import pytest

zarr = pytest.importorskip("zarr", reason="no environment zarr3")
models = pytest.importorskip("ome_zarr_models", reason="no environment zarr3")

from peers import BUILD  # noqa: E402

COMMAND = os.path.join(BUILD, "tidegate")
pytestmark = pytest.mark.filterwarnings("ignore")
CONSTANT = np.uint64(0x9E3779B97F4A7C15)


def record(out, *options):
    done = subprocess.run([COMMAND, "record", str(out), *options, "--json"],
                          capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return zarr.open_group(str(out), mode="r")


def mix(z):
    with np.errstate(over="ignore"):
        z = np.asarray(z, np.uint64)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def test_frame(array, sequence, height, width, dtype):
    """tidegate/source.h, in numpy."""
    dtype = np.dtype(dtype)
    n = height * width * dtype.itemsize
    i = np.arange((n + 7) // 8, dtype=np.uint64)
    with np.errstate(over="ignore"):
        frame = mix(mix(np.uint64(array) + CONSTANT) + np.uint64(sequence))
        key = mix(frame + i // np.uint64(4096))
        words = mix(i % np.uint64(4096) + np.uint64(1)) ^ key
    masks = {"f2": 0xBFFFBFFFBFFFBFFF, "f4": 0xBFFFFFFFBFFFFFFF, "f8": 0xBFFFFFFFFFFFFFFF,
             "b1": 0x0101010101010101}
    words &= np.uint64(masks.get(dtype.str[1:], 2**64 - 1))
    return words.view(np.uint8)[:n].view(dtype).reshape(height, width)


test_frame.__test__ = False


def halve(plane, method):
    """nd/halve.h: blocks of 2 x 2, cut at odd edges, halves to even."""
    h, w = (plane.shape[0] + 1) // 2, (plane.shape[1] + 1) // 2
    out = np.empty((h, w), plane.dtype)
    for y, x in itertools.product(range(h), range(w)):
        block = plane[2 * y:2 * y + 2, 2 * x:2 * x + 2]
        if method == "decimate":
            out[y, x] = block[0, 0]
        elif method == "mean":
            total, n = sum(int(v) for v in block.ravel()), block.size
            q, r = divmod(total, n)
            out[y, x] = q + (2 * r > n or (2 * r == n and q % 2 == 1))
        else:
            out[y, x] = getattr(block, method)()
    return out


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 & -(crc & 1))
    return crc ^ 0xFFFFFFFF


def labels(group):
    """The models check omero in 0.4 only."""
    return [c["label"] for c in group.attrs.get("ome", group.attrs)["omero"]["channels"]]


FORMATS = [pytest.param("zarr3", "v05", id="0.5"), pytest.param("zarr2", "v04", id="0.4")]


def check_model(group, version):
    model = models.open_ome_zarr(group)
    assert f".{version}." in type(model).__module__
    return model


@pytest.mark.parametrize("fmt,version", FORMATS)
@pytest.mark.parametrize("method", ["mean", "min", "max", "decimate"])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint64"])
def test_image(tmp_path, fmt, version, method, dtype):
    group = record(tmp_path / "x.zarr", "--format", fmt, "--from", f"test:65x47:{dtype}",
                   "--frames", "3", "--pyramid", f"3:{method}", "--channel", "GFP",
                   "--scale", "0.5,0.25", "--unit", "micrometer")
    image = check_model(group, version)
    attributes = image.attributes.ome if version == "v05" else image.attributes
    scale = attributes.multiscales[0]
    assert [a.name for a in scale.axes] == ["t", "y", "x"]
    assert [a.type for a in scale.axes] == ["time", "space", "space"]
    assert [a.unit for a in scale.axes][1:] == ["micrometer"] * 2
    assert len(scale.datasets) == 4
    assert list(scale.datasets[0].coordinateTransformations[0].scale) == [1, 0.5, 0.25]
    assert list(scale.datasets[2].coordinateTransformations[0].scale) == [1, 2, 1]
    assert labels(group) == ["GFP"]
    for n in range(3):
        plane = test_frame(0, n, 47, 65, dtype)
        for level in range(4):
            np.testing.assert_array_equal(group[str(level)][n], plane)
            plane = halve(plane, method)


@pytest.mark.parametrize("fmt,version", FORMATS)
@pytest.mark.parametrize("dtype", ["bool", "float16", "float32", "float64", "uint32", "int8"])
def test_pixels_of_every_type(tmp_path, fmt, version, dtype):
    group = record(tmp_path / "x.zarr", "--format", fmt, "--from", f"test:300x61:{dtype}",
                   "--frames", "4")
    check_model(group, version)
    for n in range(4):
        got, want = group["0"][n], test_frame(0, n, 61, 300, dtype)
        assert got.tobytes() == want.tobytes()
        assert np.isfinite(got).all()


@pytest.mark.parametrize("fmt,version", FORMATS)
def test_outer_dimensions(tmp_path, fmt, version):
    group = record(tmp_path / "x.zarr", "--format", fmt, "--from", "test:16x8:uint16",
                   "--dims", "t=0,c=2,z=3", "--acquire", "t,z,c", "--frames", "12",
                   "--channel", "DAPI", "--channel", "GFP")
    image = check_model(group, version)
    attributes = image.attributes.ome if version == "v05" else image.attributes
    assert [a.type for a in attributes.multiscales[0].axes] == \
        ["time", "channel", "space", "space", "space"]
    assert labels(group) == ["DAPI", "GFP"]
    assert group["0"].shape == (2, 2, 3, 8, 16)
    arrival = itertools.product(range(2), range(3), range(2))
    for n, (t, z, c) in enumerate(arrival):
        np.testing.assert_array_equal(group["0"][t, c, z], test_frame(0, n, 8, 16, "uint16"))


@pytest.mark.parametrize("fmt", ["zarr3", "zarr2"])
@pytest.mark.parametrize("checksum", ["on", "off"])
def test_frame_table(tmp_path, fmt, checksum):
    group = record(tmp_path / "x.zarr", "--format", fmt, "--from", "test:33x21:uint16",
                   "--frames", "9", "--checksum", checksum, "--table", str(tmp_path / "t.csv"))
    table = group["frames"]
    assert ("crc32c" in table) == (checksum == "on")
    np.testing.assert_array_equal(table["sequence"][:], np.arange(9))
    np.testing.assert_array_equal(table["index"][:], np.arange(9))
    np.testing.assert_array_equal(table["status"][:], np.zeros(9))
    assert [table[c].dtype for c in ("sequence", "index", "time_device", "time_host", "status")] \
        == ["uint64", "int64", "int64", "int64", "uint8"]
    assert (np.diff(table["time_device"][:]) >= 0).all()
    if checksum == "on":
        want = [crc32c(test_frame(0, n, 21, 33, "uint16").tobytes()) for n in range(9)]
        np.testing.assert_array_equal(table["crc32c"][:], np.array(want, "uint32"))
    names = [c["name"] for c in table.attrs["frame_table"]["columns"]]
    assert set(names) == set(table.array_keys())
    lines = (tmp_path / "t.csv").read_text().split()
    assert len(lines) == 10 and set(lines[0].split(",")) == set(names)
    at = lines[0].split(",").index("time_host")
    assert [int(line.split(",")[at]) for line in lines[1:]] == list(table["time_host"][:])


@pytest.mark.parametrize("fmt,version", FORMATS)
def test_two_cameras(tmp_path, fmt, version):
    group = record(tmp_path / "x.zarr", "--format", fmt, "--frames", "3",
                   "--from", "left=test:16x8:uint8", "--from", "right=test:10x20:uint16")
    for array, (name, h, w, dtype) in enumerate([("left", 8, 16, "uint8"),
                                                 ("right", 20, 10, "uint16")]):
        check_model(group[name], version)
        for n in range(3):
            np.testing.assert_array_equal(group[name]["0"][n], test_frame(array, n, h, w, dtype))
