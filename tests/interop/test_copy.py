"""`tidegate copy`, its results read by zarr-python and tensorstore, value for value."""
import glob
import json
import os
import signal
import subprocess

import numpy as np
import pytest

zarr = pytest.importorskip("zarr", reason="no environment zarr3")
ts = pytest.importorskip("tensorstore", reason="no environment zarr3")

from peers import BUILD, comma, pattern, same  # noqa: E402

COMMAND = os.path.join(BUILD, "tidegate")
MEASURE = os.path.join(BUILD, "tests", "cli", "measure")
pytestmark = [pytest.mark.skipif(not os.path.exists(COMMAND), reason=f"no tidegate in {BUILD}"),
              pytest.mark.filterwarnings("ignore")]


def copy(*args, status=0):
    done = subprocess.run([COMMAND, "copy", "--json", *map(str, args)], capture_output=True, text=True, timeout=120)
    assert done.returncode == status, (args, done.returncode, done.stderr)
    return json.loads(done.stdout)


def make(path, values, format=3, chunk=(7, 9), shard=None, **more):
    a = zarr.create_array(str(path), shape=values.shape, dtype=values.dtype, chunks=chunk, shards=shard,
                          zarr_format=format, **more)
    a[...] = values
    return a


def check(path, want, format):
    """Both readers see the same."""
    got = zarr.open_array(str(path), mode="r")
    assert got.metadata.zarr_format == format
    same(got[...], want)
    driver = "zarr" if format == 2 else "zarr3"
    t = ts.open({"driver": driver, "kvstore": {"driver": "file", "path": str(path)}}).result()
    same(t.read().result(), want)
    return got


LAYOUTS = [
    ([], None), (["--chunk", "5,4"], (5, 4)), (["--chunk", "40,64"], (40, 64)), (["--chunk", "1,50"], (1, 50)),
    (["--codec", "blosc:lz4:5:shuffle"], (7, 9)), (["--codec", "none"], (7, 9)),
]


@pytest.mark.parametrize("verify", [[], ["--verify"]], ids=["", "verify"])
@pytest.mark.parametrize("layout", range(len(LAYOUTS)))
@pytest.mark.parametrize("to", [2, 3])
@pytest.mark.parametrize("source", ["2", "3", "3 sharded"])
def test_layouts(tmp_path, source, to, layout, verify):
    options, chunk = LAYOUTS[layout]
    shard = (14, 18) if "sharded" in source else None
    if shard and layout in (1, 2, 3):
        options = options + ["--shard", "none"]
    values = pattern("float32", (33, 50))
    a = make(tmp_path / "s.zarr", values, int(source[0]), shard=shard, fill_value=3)
    a.attrs["kept"] = {"deep": [1, None, "ü"]}
    said = copy(tmp_path / "s.zarr", tmp_path / "d.zarr", "--format", f"zarr{to}", *options, *verify)
    got = check(tmp_path / "d.zarr", values, to)
    assert got.chunks == (chunk or (7, 9)) and got.fill_value == 3
    assert got.attrs["kept"] == {"deep": [1, None, "ü"]}
    assert said["bytes_in"] > 0 and said["bytes_out"] > 0 and said["seconds"] >= 0 and said["arrays"] == 1
    assert not os.path.exists(tmp_path / "d.zarr.tidegate")


@pytest.mark.parametrize("memory", ["3MiB", "256MiB"])
@pytest.mark.parametrize("chunk,shard", [((3, 5), (6, 10)), ((7, 9), (21, 18)), ((7, 9), (35, 54)), ((1, 1), (50, 50))])
def test_reshard(tmp_path, chunk, shard, memory):
    values = pattern("uint16", (33, 50))
    make(tmp_path / "s.zarr", values, shard=(14, 18))
    copy(tmp_path / "s.zarr", tmp_path / "d.zarr", "--chunk", comma(chunk), "--shard", comma(shard), "--verify",
         "--memory", memory)
    got = check(tmp_path / "d.zarr", values, 3)
    assert got.chunks == chunk and got.shards == shard


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "uint8", "uint64", "float16", "float64", "complex64"])
@pytest.mark.parametrize("to", [2, 3])
def test_types_stay(tmp_path, dtype, to):
    values = pattern(dtype, (13, 22))
    make(tmp_path / "s.zarr", values, 5 - to, chunk=(3, 5))
    copy(tmp_path / "s.zarr", tmp_path / "d.zarr", "--format", f"zarr{to}", "--chunk", "4,4")
    check(tmp_path / "d.zarr", values, to)


@pytest.mark.parametrize("memory", ["768KiB", "256MiB"])
def test_cast(tmp_path, memory):
    values = np.arange(-600, 1050, dtype="int32").reshape(33, 50)
    make(tmp_path / "s.zarr", values)
    said = copy(tmp_path / "s.zarr", tmp_path / "d.zarr", "--dtype", "u8", "--chunk", "10,10", "--verify",
                "--memory", memory)
    want = np.clip(values, 0, 255).astype("uint8")
    check(tmp_path / "d.zarr", want, 3)
    if memory == "256MiB":  # each source chunk is converted once
        assert said["saturated"] == int((values != want).sum())
    copy(tmp_path / "d.zarr", tmp_path / "e.zarr", "--dtype", "float64", "--format", "zarr2")
    check(tmp_path / "e.zarr", want.astype("float64"), 2)


@pytest.mark.parametrize("region", [(slice(7, 21), slice(9, 50)), (slice(3, 30), slice(0, 1)), (slice(0, 33), slice(48, 50)),
                                    (slice(5, 5), slice(0, 50))])
def test_region(tmp_path, region):
    values = pattern("uint16", (33, 50))
    make(tmp_path / "s.zarr", values)
    words = ",".join(f"{s.start}:{s.stop}" for s in region)
    copy(tmp_path / "s.zarr", tmp_path / "d.zarr", "--region", words, "--verify")
    check(tmp_path / "d.zarr", values[region], 3)


@pytest.mark.parametrize("way", [(2, 3), (3, 2), (3, 3)])
def test_hierarchy(tmp_path, way):
    values, words = pattern("int16", (4, 13, 22)), pattern("string", (23,))
    root = zarr.create_group(str(tmp_path / "s.zarr"), zarr_format=way[0], attributes={"a": 1, "b": {"c": [1.5, "ü"]}})
    inner = root.create_group("deep/er")
    inner.attrs["inner"] = True
    a = inner.create_array("image", shape=values.shape, dtype="int16", chunks=(1, 5, 6))
    a[...] = values
    line = root.create_array("line", shape=(9,), dtype="float64", chunks=(4,))
    line[...] = np.arange(9.0)
    if way[0] == 3:
        s = root.create_array("words", shape=(23,), dtype=str, chunks=(5,))
        s[...] = words
    copy(tmp_path / "s.zarr", tmp_path / "d.zarr", "--format", f"zarr{way[1]}", "--chunk", "2,7,7", "--dtype", "int32",
         "--verify")
    got = zarr.open_group(str(tmp_path / "d.zarr"), mode="r")
    assert got.metadata.zarr_format == way[1]
    assert dict(got.attrs) == {"a": 1, "b": {"c": [1.5, "ü"]}}
    assert dict(got["deep/er"].attrs) == {"inner": True}
    check(tmp_path / "d.zarr" / "deep" / "er" / "image", values.astype("int32"), way[1])
    assert got["deep/er/image"].chunks == (2, 7, 7)
    check(tmp_path / "d.zarr" / "line", np.arange(9.0), way[1])
    if way[0] == 3:
        same(got["words"][...], words)
    done = subprocess.run([COMMAND, "verify", tmp_path / "d.zarr"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("options", [[], ["--chunk", "2,2"], ["--shard", "4,6", "--chunk", "2,2", "--verify"],
                                     ["--format", "zarr2", "--dtype", "int8"]])
@pytest.mark.parametrize("shape", [(0, 3), (5, 0)])
def test_nothing_in_it(tmp_path, shape, options):
    make(tmp_path / "s.zarr", np.zeros(shape, "uint16"), chunk=(4, 4))
    copy(tmp_path / "s.zarr", tmp_path / "d.zarr", *options)
    assert zarr.open_array(str(tmp_path / "d.zarr"), mode="r").shape == shape


@pytest.mark.parametrize("to", [2, 3])
def test_one_item(tmp_path, to):
    a = zarr.create_array(str(tmp_path / "s.zarr"), shape=(), dtype="float32", zarr_format=5 - to)
    a[...] = 2.5
    copy(tmp_path / "s.zarr", tmp_path / "d.zarr", "--format", f"zarr{to}", "--dtype", "float64", "--verify")
    check(tmp_path / "d.zarr", np.array(2.5), to)


def test_zip(tmp_path):
    values = pattern("uint16", (33, 50))
    make(tmp_path / "s.zarr", values, shard=(14, 18))
    copy(tmp_path / "s.zarr", tmp_path / "d.zip", "--codec", "gzip:1", "--verify")
    with zarr.storage.ZipStore(str(tmp_path / "d.zip"), mode="r") as z:
        same(zarr.open_array(z, mode="r")[...], values)
    copy(tmp_path / "d.zip", tmp_path / "e.zarr", "--format", "zarr2")
    check(tmp_path / "e.zarr", values, 2)
    assert sorted(os.listdir(tmp_path)) == ["d.zip", "e.zarr", "s.zarr"]


@pytest.mark.parametrize("options", [[], ["--chunk", "5,5"]], ids=["encoded", "decoded"])
def test_damaged_chunk(tmp_path, options):
    values = pattern("uint16", (33, 50))
    make(tmp_path / "s.zarr", values, compressors=[zarr.codecs.Crc32cCodec()])
    victim = tmp_path / "s.zarr" / "c" / "2" / "3"
    data = bytearray(victim.read_bytes())
    data[11] ^= 4
    victim.write_bytes(data)
    said = copy(tmp_path / "s.zarr", tmp_path / "d.zarr", *options, status=1)
    assert "c/2/3" in said["error"]["message"] or said["error"]["key"] == "c/2/3", said
    assert not os.path.exists(tmp_path / "d.zarr" / "zarr.json")  # nothing is claimed
    # Mended, the same call goes on.
    data[11] ^= 4
    victim.write_bytes(data)
    again = copy(tmp_path / "s.zarr", tmp_path / "d.zarr", *options)
    assert again["units_resumed"] == said["units"] and (options or said["units"] > 0)
    check(tmp_path / "d.zarr", values, 3)
    assert not os.path.exists(tmp_path / "d.zarr.tidegate")


def test_stopped_and_taken_up(tmp_path):
    """A signal: 75, nothing claimed, and the same call goes on. (A copy that was quicker has ended with 0.)"""
    values = np.random.default_rng(3).integers(0, 4096, (64, 128, 128)).astype("uint16")
    make(tmp_path / "s.zarr", values, chunk=(1, 16, 16), compressors=None)
    args = [COMMAND, "copy", "--json", "--progress", "json", tmp_path / "s.zarr", tmp_path / "d.zarr", "--codec", "zstd:19"]
    run = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    run.stderr.readline()  # it works, and so has its handler
    run.send_signal(signal.SIGTERM)
    run.communicate(timeout=120)
    assert run.returncode in (0, 75)
    if run.returncode == 75:
        assert not os.path.exists(tmp_path / "d.zarr" / "zarr.json")
        copy(tmp_path / "s.zarr", tmp_path / "d.zarr", "--codec", "zstd:19")
    check(tmp_path / "d.zarr", values, 3)
    assert not os.path.exists(tmp_path / "d.zarr.tidegate")


def test_unfinished_copy_of_something_else(tmp_path):
    values = pattern("uint16", (33, 50))
    make(tmp_path / "s.zarr", values, compressors=[zarr.codecs.Crc32cCodec()])
    make(tmp_path / "t.zarr", values[::-1].copy())
    victim = tmp_path / "s.zarr" / "c" / "2" / "3"
    victim.write_bytes(b"not a chunk")
    copy(tmp_path / "s.zarr", tmp_path / "d.zarr", status=1)
    said = copy(tmp_path / "t.zarr", tmp_path / "d.zarr", status=2)
    assert "unfinished copy" in said["error"]["message"]
    copy(tmp_path / "t.zarr", tmp_path / "d.zarr", "--overwrite")
    check(tmp_path / "d.zarr", values[::-1], 3)
    assert not os.path.exists(tmp_path / "d.zarr.tidegate")


def test_refused_by_name(tmp_path):
    a = zarr.create_array(str(tmp_path / "s.zarr"), shape=(4,), dtype="<U5", chunks=(2,), zarr_format=2)
    a[...] = ["a", "b", "c", "d"]
    said = copy(tmp_path / "s.zarr", tmp_path / "d.zarr", status=2)
    assert "U5" in said["error"]["message"]
    assert glob.glob(str(tmp_path / "d.zarr*")) == []


@pytest.mark.skipif(not os.path.exists(MEASURE), reason="no measure")
@pytest.mark.skipif("asan" in BUILD or "tsan" in BUILD, reason="a sanitizer's own memory would be measured")
def test_memory(tmp_path):
    """Peak memory from outside, at a budget far below the array."""
    values = np.random.default_rng(5).integers(0, 4096, (64, 512, 512)).astype("uint16")  # 32 MiB
    make(tmp_path / "s.zarr", values, chunk=(1, 512, 512), compressors=None)
    for name, options in [("d", ["--chunk", "64,64,64"]), ("e", ["--shard", "16,512,512", "--codec", "zstd:1"])]:
        out = tmp_path / f"{name}.zarr"
        done = subprocess.run([MEASURE, tmp_path / "peak", COMMAND, "copy", "--memory", "8MiB", "--threads", "2", "--json", tmp_path / "s.zarr",
                               out, *options], capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        assert int((tmp_path / "peak").read_text()) <= (8 + 16) << 20
        same(zarr.open_array(str(out), mode="r")[...], values)
