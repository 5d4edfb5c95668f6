"""Arrays that we write, read by zarr-python 2 and 3 and tensorstore; arrays that they write,
read and changed by us. Value for value, over a matrix of formats, types, codecs, layouts."""
import json
import os
import subprocess

import numpy as np
import pytest

zarr = pytest.importorskip("zarr", reason="no environment zarr3")
ts = pytest.importorskip("tensorstore", reason="no environment zarr3")

from peers import (ZARR2, comma, load, needs_tool, needs_zarr2, pattern, same, save, tool)  # noqa: E402

pytestmark = [needs_tool(), pytest.mark.filterwarnings("ignore")]

NUMBERS = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
           "float16", "float32", "float64", "complex64", "complex128"]


def layout(name, dtype="uint16", shape=(13, 22), chunk=(3, 5), **options):
    return pytest.param({"dtype": dtype, "shape": shape, "chunk": chunk, **options}, id=name)


BOTH = [layout(d, dtype=d) for d in NUMBERS] + [
    layout("0-d", shape=(), chunk=()),
    layout("1-d", shape=(50,), chunk=(7,)),
    layout("3-d", shape=(5, 6, 7), chunk=(2, 3, 4)),
    layout("4-d", shape=(3, 4, 2, 5), chunk=(2, 2, 2, 2)),
    layout("zero length", shape=(0, 3), chunk=(2, 2)),
    layout("chunk beyond the shape", shape=(4, 5), chunk=(10, 10)),
    layout("one chunk", shape=(4, 5), chunk=(4, 5)),
    layout("dot", separator="."),
    layout("fill", fill=7),
    layout("in pieces", pieces=5),
    layout("zstd", codec="zstd:3"),
    layout("gzip", codec="gzip:6"),
    layout("blosc lz4 shuffle", codec="blosc:lz4:5:shuffle"),
    layout("blosc zstd bitshuffle", codec="blosc:zstd:3:bitshuffle"),
    layout("blosc none", codec="blosc:lz4:1:noshuffle"),
    layout("blosc float64 in pieces", dtype="float64", codec="blosc:lz4:5:shuffle", pieces=4),
    layout("strings", dtype="string", shape=(23,), chunk=(5,)),
    layout("strings zstd", dtype="string", shape=(23,), chunk=(5,), codec="zstd:1"),
    layout("strings fill", dtype="string", shape=(23,), chunk=(5,), text="none"),
]
V3 = [
    layout("no checksum", checksum=0),
    layout("shard end", shard=(6, 10)),
    layout("shard start", shard=(6, 10), start=1),
    layout("shard zstd end", shard=(6, 10), codec="zstd:1"),
    layout("shard zstd start in pieces", shard=(6, 10), codec="zstd:1", start=1, pieces=4),
    layout("shard blosc in pieces", shard=(9, 15), codec="blosc:lz4:5:shuffle", pieces=6),
    layout("shard no checksum", shard=(6, 10), checksum=0),
    layout("shard of one chunk", shard=(3, 5)),
    layout("shard 3-d", shape=(5, 6, 7), chunk=(1, 3, 4), shard=(2, 6, 8), start=1),
    layout("shard fill", shard=(6, 10), fill=7),
    layout("shard strings", dtype="string", shape=(23,), chunk=(3,), shard=(9,)),
    layout("shard strings start gzip", dtype="string", shape=(23,), chunk=(3,), shard=(9,),
           start=1, codec="gzip:1"),
]
V2 = [layout("zlib", codec="zlib:5"), layout("lz4", codec="lz4")]


def create(tmp, lay, fmt, suffix=""):
    """Our array at tmp/a.zarr, path g/x; the values it must have."""
    values = pattern(lay["dtype"], lay["shape"])
    options = [f"format={fmt}", f"dtype={lay['dtype']}", f"shape={comma(lay['shape'])}",
               f"chunk={comma(lay['chunk'])}"]
    for key in ("start", "codec", "separator", "pieces", "checksum", "text"):
        if key in lay:
            options.append(f"{key}={lay[key]}")
    if "shard" in lay:
        options.append(f"shard={comma(lay['shard'])}")
    if "fill" in lay:
        options.append("fill=" + save(os.path.join(tmp, "fill"),
                                      np.array(lay["fill"], lay["dtype"])))
    options.append('attributes={"k":[1,2.5,null,"\u00e9"]}')
    raw = save(os.path.join(tmp, "in.raw"), values)
    url = os.path.join(tmp, "a.zarr" + suffix)
    tool("create", url, "g/x", raw, *options)
    return url, values


def open_ts(path, driver):
    return ts.open({"driver": driver, "kvstore": {"driver": "file", "path": path + "/"}},
                   read=True, write=True).result()


@pytest.mark.parametrize("lay", BOTH + V3)
def test_format_3_is_read_by_others(tmp_path, lay):
    url, values = create(str(tmp_path), lay, 3)
    group = zarr.open_group(url, mode="r", zarr_format=3)
    z = group["g/x"]
    same(z[...], values)
    assert z.attrs["k"] == [1, 2.5, None, "é"]
    if lay["dtype"] != "string":  # tensorstore has no strings
        same(open_ts(os.path.join(url, "g/x"), "zarr3").read().result(), values)


@pytest.mark.parametrize("lay", BOTH + V2)
def test_format_2_is_read_by_zarr_3_and_tensorstore(tmp_path, lay):
    url, values = create(str(tmp_path), lay, 2)
    same(zarr.open_group(url, mode="r", zarr_format=2)["g/x"][...], values)
    if lay["dtype"] != "string" and lay.get("codec", "")[:3] != "lz4":  # it has no lz4, either
        same(open_ts(os.path.join(url, "g/x"), "zarr").read().result(), values)


READ_ALL = """
import json, sys, zarr
import numpy as np
for path, raw in json.load(sys.stdin):
    a = np.asarray(zarr.open_group(path, mode="r")["g/x"][...])
    if a.dtype == object:
        with open(raw, "wb") as f:
            for s in a.ravel():
                b = s.encode()
                f.write(len(b).to_bytes(4, "little") + b)
    else:
        open(raw, "wb").write(np.ascontiguousarray(a).tobytes())
"""


@needs_zarr2()
def test_format_2_is_read_by_zarr_2(tmp_path):
    work, wants = [], []
    for i, p in enumerate(BOTH + V2):
        folder = tmp_path / str(i)
        folder.mkdir()
        url, values = create(str(folder), p.values[0], 2)
        work.append((url, str(folder / "out.raw")))
        wants.append((p.values[0], values))
    done = subprocess.run([ZARR2, "-W", "ignore", "-c", READ_ALL], input=json.dumps(work), text=True,
                          capture_output=True)
    assert done.returncode == 0, done.stderr
    for (_, raw), (lay, values) in zip(work, wants):
        same(load(raw, lay["dtype"], lay["shape"]), values)
    assert len(wants) > 30


@pytest.mark.parametrize("lay", [p for p in BOTH + V3 if p.id in (
    "uint16", "zstd", "strings", "shard end", "shard start", "shard strings", "fill")])
def test_our_zip_is_read_by_zarr_3(tmp_path, lay):
    url, values = create(str(tmp_path), lay, 3, ".zip")
    with zarr.storage.ZipStore(url, mode="r") as store:
        same(zarr.open_group(store, mode="r")["g/x"][...], values)


# --- The other way -----------------------------------------------------------------------


def their_array(path, lay, fmt, values):
    from zarr.codecs import BloscCodec, GzipCodec, ZstdCodec
    kw = {"compressors": None, "fill_value": lay.get("fill", 0 if lay["dtype"] != "string" else "")}
    name = lay.get("codec", "none").split(":")[0]
    if fmt == 3:
        kw["compressors"] = {"none": None, "zstd": ZstdCodec(level=3), "gzip": GzipCodec(level=5),
                             "blosc": BloscCodec(cname="lz4", clevel=5, shuffle="shuffle",
                                                 typesize=values.dtype.itemsize)}[name]
        if "shard" in lay:
            kw["shards"] = lay["shard"]
        if "separator" in lay:
            kw["chunk_key_encoding"] = {"name": "default", "separator": lay["separator"]}
    else:
        import numcodecs
        kw["compressors"] = {"none": None, "zstd": numcodecs.Zstd(3), "gzip": numcodecs.GZip(5),
                             "blosc": numcodecs.Blosc("lz4"), "zlib": numcodecs.Zlib(1),
                             "lz4": numcodecs.LZ4()}[name]
    if lay["dtype"] == "bool":
        kw["fill_value"] = False
    z = zarr.create_array(path, shape=lay["shape"], chunks=lay["chunk"], zarr_format=fmt,
                          dtype=str if lay["dtype"] == "string" else lay["dtype"], **kw)
    z[...] = values.astype(str) if lay["dtype"] == "string" else values
    return z


def box(shape):
    """A box that touches chunks in part."""
    start = tuple(n // 3 for n in shape)
    return start, tuple(max(1, n // 2) if n > 0 else 0 for n in shape)


@pytest.mark.parametrize("fmt", [2, 3])
@pytest.mark.parametrize("lay", BOTH + V3 + V2)
def test_zarr_3_is_read_and_changed_by_us(tmp_path, lay, fmt):
    only_3 = "shard" in lay or "start" in lay or "checksum" in lay
    if (fmt == 2 and only_3) or (fmt == 3 and lay.get("codec", "")[:4] in ("zlib", "lz4")):
        return
    path, raw = str(tmp_path / "t.zarr"), str(tmp_path / "out.raw")
    values = pattern(lay["dtype"], lay["shape"])
    their_array(path, lay, fmt, values)
    tool("read", path, "", raw)
    same(load(raw, lay["dtype"], lay["shape"]), values)
    if 0 in lay["shape"]:
        return
    start, count = box(lay["shape"])
    part = pattern(lay["dtype"], count, seed=2)
    tool("write", path, "", save(str(tmp_path / "part.raw"), part), comma(start), comma(count))
    values[tuple(slice(s, s + n) for s, n in zip(start, count))] = part
    same(zarr.open_array(path, mode="r")[...], values)
    tool("read", path, "", raw, comma(start), comma(count))
    same(load(raw, lay["dtype"], count), part)


@pytest.mark.parametrize("location", ["start", "end"])
@pytest.mark.parametrize("codecs", ["raw", "zstd", "transpose"])
def test_tensorstore_shards_are_read_and_changed_by_us(tmp_path, location, codecs):
    le = {"name": "bytes", "configuration": {"endian": "little"}}
    inner = {"raw": [le], "zstd": [le, {"name": "zstd", "configuration": {"level": 1}}],
             "transpose": [{"name": "transpose", "configuration": {"order": [1, 0]}}, le]}[codecs]
    path, raw = str(tmp_path / "t.zarr"), str(tmp_path / "out.raw")
    values = pattern("int32", (13, 22))
    t = ts.open({"driver": "zarr3", "create": True,
                 "kvstore": {"driver": "file", "path": path + "/"},
                 "metadata": {"shape": [13, 22], "data_type": "int32", "chunk_grid": {
                     "name": "regular", "configuration": {"chunk_shape": [6, 10]}},
                     "codecs": [{"name": "sharding_indexed", "configuration": {
                         "chunk_shape": [3, 5], "codecs": inner, "index_location": location,
                         "index_codecs": [le, {"name": "crc32c"}]}}]}}).result()
    t[...] = values
    tool("read", path, "", raw)
    same(load(raw, "int32", (13, 22)), values)
    start, count = box((13, 22))
    part = pattern("int32", count, seed=2)
    tool("write", path, "", save(str(tmp_path / "part.raw"), part), comma(start), comma(count))
    values[start[0]:start[0] + count[0], start[1]:start[1] + count[1]] = part
    same(open_ts(path, "zarr3").read().result(), values)
    same(zarr.open_array(path, mode="r")[...], values)
