#!/usr/bin/env python3
"""Golden arrays made by other implementations: zarr-python 2 and 3, tensorstore.

Run by hand, once per peer, each in an environment of its own (the versions are
written into versions.txt); the result is committed and never made by us:

    python3 make.py zarr2 OUT      # zarr-python 2.18
    python3 make.py zarr3 OUT      # zarr-python 3.1
    python3 make.py tensorstore OUT
    python3 make.py pack OUT       # OUT/*/ -> OUT/golden.zip, cases.txt

Each case is an array OUT/PEER/NAME and its values: OUT/PEER/NAME.raw, native
little-endian items in C order (strings: u32 length and UTF-8 each). cases.txt has
a line per array: peer, name, dtype, shape, and how the values are known.
"""
import os
import shutil
import struct
import sys
import zipfile

import numpy as np

DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
          "float16", "float32", "float64", "complex64", "complex128"]


def pattern(dtype, shape, seed=1):
    """Values with every byte in use, some NaN and infinities, some runs of fill (0)."""
    n = int(np.prod(shape, dtype=np.int64))
    rng = np.random.RandomState(seed)
    dt = np.dtype(dtype)
    if dt.kind == "b":
        a = rng.randint(0, 2, n).astype(dt)
    elif dt.kind in "iu":
        a = np.frombuffer(rng.bytes(n * dt.itemsize), dt).copy()
    else:
        a = (rng.randn(n) * 100).astype(dt) if dt.kind == "f" else (
            rng.randn(n) + 1j * rng.randn(n)).astype(dt)
        if n > 6:
            a[1], a[2], a[3], a[4] = np.nan, np.inf, -np.inf, -0.0
    if n > 20:
        a[n // 3:n // 3 + n // 4] = 0
    return a.reshape(shape)


def save(out, name, values, dtype, cases, peer):
    """The values, whatever byte order the array has."""
    path = os.path.join(out, peer, name + ".raw")
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        if dtype == "string":
            for s in values.ravel():
                b = s.encode()
                f.write(struct.pack("<I", len(b)) + b)
        else:
            a = np.asarray(values)
            if a.dtype.kind == "V":
                f.write(np.ascontiguousarray(a).tobytes())
            else:
                f.write(np.ascontiguousarray(a.astype(a.dtype.newbyteorder("<"))).tobytes())
    shape = "x".join(str(n) for n in values.shape) or "-"
    cases.append(f"{peer} {name} {dtype} {shape}")


STRINGS = np.array(["", "a", "gr\u00fc\u00df", "\u65e5\u672c\u8a9e", "x" * 300, "", "\U0001f600", "end"], dtype=object)


def make_zarr2(out):
    import numcodecs
    import zarr
    cases, peer = [], "zarr2"

    def put(name, values, dtype=None, **kw):
        z = zarr.open_array(os.path.join(out, peer, name), mode="w", shape=values.shape,
                            dtype=values.dtype, **kw)
        z[...] = values
        save(out, name, values, dtype or values.dtype.name, cases, peer)

    for d in DTYPES:
        put(f"{d}", pattern(d, (7, 9)), chunks=(3, 4), compressor=None)
        if np.dtype(d).itemsize > 1:
            be = pattern(d, (11,)).astype(np.dtype(d).newbyteorder(">"))
            put(f"{d}_big", be, dtype=d, chunks=(4,), compressor=numcodecs.Zlib(1))
    v = pattern("uint16", (20, 17))
    for name, c in {"zlib": numcodecs.Zlib(5), "gzip": numcodecs.GZip(5),
                    "zstd": numcodecs.Zstd(3), "lz4": numcodecs.LZ4(),
                    "blosc_lz4_shuffle": numcodecs.Blosc("lz4", 5, 1),
                    "blosc_zstd_bit": numcodecs.Blosc("zstd", 3, 2),
                    "blosc_auto": numcodecs.Blosc("lz4", 5, -1),
                    "blosc_blosclz": numcodecs.Blosc("blosclz", 9, 0),
                    "blosc_zlib": numcodecs.Blosc("zlib", 1, 1),
                    "blosc_lz4hc": numcodecs.Blosc("lz4hc", 9, 1)}.items():
        put(f"codec_{name}", v, chunks=(8, 8), compressor=c)
    put("order_f", pattern("int32", (5, 6, 7)), chunks=(2, 3, 4), order="F", compressor=None)
    put("order_f_zstd", pattern("int32", (5, 6, 7)), chunks=(2, 3, 4), order="F",
        compressor=numcodecs.Zstd(1))
    put("nested", pattern("uint8", (5, 6)), chunks=(2, 2), dimension_separator="/",
        compressor=None)
    put("zero_d", np.array(42, dtype="int64"), compressor=None)
    put("zero_length", np.zeros((0, 3), "uint8"), chunks=(2, 2), compressor=None)
    put("one_chunk", pattern("uint8", (5, 6)), chunks=False, compressor=None)
    put("chunk_beyond", pattern("uint8", (5, 6)), chunks=(50, 60), compressor=None)
    put("fill_value", np.full((6,), 7, "uint16"), chunks=(2,), fill_value=7, compressor=None,
        write_empty_chunks=False)
    put("fill_null", pattern("uint16", (6,)), chunks=(2,), fill_value=None, compressor=None)
    put("raw_V3", np.frombuffer(b"abcdefghijkl", "V3"), dtype="r24", chunks=(2,),
        compressor=None, fill_value=b"xyz")
    s = zarr.open_array(os.path.join(out, peer, "strings"), mode="w", shape=STRINGS.shape,
                        chunks=(3,), dtype=object, object_codec=numcodecs.VLenUTF8())
    s[...] = STRINGS
    save(out, "strings", STRINGS, "string", cases, peer)
    g = zarr.open_group(os.path.join(out, peer, "tree"), mode="w")
    g.attrs["title"] = "golden"
    g.create_group("a/b").attrs["n"] = [1, 2.5, None, True]
    g.create_dataset("a/x", data=np.arange(4, dtype="u1"), chunks=(2,), compressor=None)
    zarr.consolidate_metadata(os.path.join(out, peer, "tree"))
    finish(out, peer, cases, f"zarr-python {zarr.__version__}, numcodecs {numcodecs.__version__}, "
                             f"numpy {np.__version__}")


def make_zarr3(out):
    import warnings

    import zarr
    from zarr.codecs import (BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec,
                             TransposeCodec, ZstdCodec)
    warnings.simplefilter("ignore")
    cases, peer = [], "zarr3"

    def put(name, values, dtype=None, **kw):
        kw.setdefault("fill_value", 0 if values.dtype.kind in "iufc" else None)
        if kw["fill_value"] is None:
            del kw["fill_value"]
        z = zarr.create_array(os.path.join(out, peer, name), shape=values.shape,
                              dtype=values.dtype, overwrite=True, **kw)
        z[...] = values
        save(out, name, values, dtype or values.dtype.name, cases, peer)

    for d in DTYPES:
        put(f"{d}", pattern(d, (7, 9)), chunks=(3, 4), compressors=None)
        if np.dtype(d).itemsize > 1:
            put(f"{d}_big", pattern(d, (11,)), chunks=(4,), compressors=None,
                serializer=BytesCodec(endian="big"))
    v = pattern("uint16", (20, 17))
    for name, c in {"zstd": ZstdCodec(level=3), "zstd_sum": ZstdCodec(level=1, checksum=True),
                    "gzip": GzipCodec(level=5), "crc32c": Crc32cCodec(),
                    "zstd_crc": [ZstdCodec(level=1), Crc32cCodec()],
                    "blosc_lz4": BloscCodec(cname="lz4", clevel=5, shuffle="shuffle", typesize=2),
                    "blosc_zstd_bit": BloscCodec(cname="zstd", clevel=3, shuffle="bitshuffle",
                                                 typesize=2),
                    "blosc_zlib": BloscCodec(cname="zlib", clevel=1, shuffle="noshuffle",
                                             typesize=2)}.items():
        put(f"codec_{name}", v, chunks=(8, 8), compressors=c)
    t = pattern("int32", (4, 5, 6))
    put("transpose_201", t, chunks=(2, 3, 4), compressors=None,
        filters=[TransposeCodec(order=(2, 0, 1))])
    put("transpose_zstd", t, chunks=(2, 3, 4), filters=[TransposeCodec(order=(2, 1, 0))],
        compressors=ZstdCodec(level=1))
    put("key_v2", pattern("uint8", (5, 6)), chunks=(2, 2), compressors=None,
        chunk_key_encoding={"name": "v2", "separator": "."})
    put("key_v2_slash", pattern("uint8", (5, 6)), chunks=(2, 2), compressors=None,
        chunk_key_encoding={"name": "v2", "separator": "/"})
    put("key_dot", pattern("uint8", (5, 6)), chunks=(2, 2), compressors=None,
        chunk_key_encoding={"name": "default", "separator": "."})
    put("zero_d", np.array(42, dtype="int64"), compressors=None)
    put("zero_length", np.zeros((0, 3), "uint8"), chunks=(2, 2), compressors=None)
    put("chunk_beyond", pattern("uint8", (5, 6)), chunks=(50, 60), compressors=None)
    put("fill_value", np.full((6,), 7, "uint16"), chunks=(2,), fill_value=7, compressors=None)
    put("fill_nan", np.full((6,), np.nan, "float32"), chunks=(2,), fill_value=float("nan"),
        compressors=None)
    put("fill_inf", np.full((6,), -np.inf, "float64"), chunks=(2,), fill_value=float("-inf"),
        compressors=None)
    put("names", pattern("uint8", (5, 6)), chunks=(2, 2), compressors=None,
        dimension_names=["y", None], attributes={"k": [1, 2.5, None, "\u00e9"]})

    sh = pattern("int16", (13, 22))
    sh[4:8, 8:16] = 0  # a whole shard and some inner chunks of fill
    for loc in ("start", "end"):
        for idx, ic in {"crc": [BytesCodec(), Crc32cCodec()], "nocrc": [BytesCodec()],
                        "big": [BytesCodec(endian="big"), Crc32cCodec()]}.items():
            for cname, cs in {"raw": [BytesCodec()],
                              "zstd": [BytesCodec(), ZstdCodec(level=1)]}.items():
                put(f"shard_{loc}_{idx}_{cname}", sh, chunks=(4, 8), compressors=None,
                    serializer=ShardingCodec(chunk_shape=(2, 4), codecs=cs, index_codecs=ic,
                                             index_location=loc))
    put("shard_transpose_inside", sh, chunks=(4, 8), compressors=None,
        serializer=ShardingCodec(chunk_shape=(2, 4), codecs=[TransposeCodec(order=(1, 0)),
                                                             BytesCodec()]))
    put("shard_transpose_before", sh, chunks=(4, 8), compressors=None,
        filters=[TransposeCodec(order=(1, 0))], serializer=ShardingCodec(chunk_shape=(4, 2)))
    for name, kw in {"strings": {}, "strings_zstd": {"compressors": ZstdCodec(level=1)}}.items():
        kw.setdefault("compressors", None)
        z = zarr.create_array(os.path.join(out, peer, name), shape=STRINGS.shape, chunks=(3,),
                              dtype=str, overwrite=True, **kw)
        z[...] = STRINGS.astype(str)
        save(out, name, STRINGS, "string", cases, peer)
    z = zarr.create_array(os.path.join(out, peer, "strings_shard"), shape=STRINGS.shape,
                          chunks=(2,), shards=(4,), dtype=str, overwrite=True)
    z[...] = STRINGS.astype(str)
    save(out, "strings_shard", STRINGS, "string", cases, peer)
    # Format 2 as this version writes it.
    for d in ("uint8", "float32"):
        put(f"v2_{d}", pattern(d, (7, 9)), chunks=(3, 4), zarr_format=2, compressors=None)
    import numcodecs
    put("v2_zstd", v, chunks=(8, 8), zarr_format=2, compressors=numcodecs.Zstd(1))
    put("v2_order_f", t, chunks=(2, 3, 4), zarr_format=2, compressors=None, order="F")
    z = zarr.create_array(os.path.join(out, peer, "v2_strings"), shape=STRINGS.shape, chunks=(3,),
                          dtype=str, overwrite=True, zarr_format=2)
    z[...] = STRINGS.astype(str)
    save(out, "v2_strings", STRINGS, "string", cases, peer)
    g = zarr.open_group(os.path.join(out, peer, "tree"), mode="w")
    g.attrs["title"] = "golden"
    g.create_group("a/b").attrs["n"] = [1, 2.5, None, True]
    g.create_array("a/x", shape=(4,), dtype="u1", chunks=(2,), compressors=None)[...] = range(4)
    zarr.consolidate_metadata(os.path.join(out, peer, "tree"))
    finish(out, peer, cases, f"zarr-python {zarr.__version__}, numcodecs {numcodecs.__version__}, "
                             f"numpy {np.__version__}")


def make_tensorstore(out):
    import tensorstore as ts
    cases, peer = [], "tensorstore"

    def put(name, values, driver, metadata):
        spec = {"driver": driver, "metadata": {"shape": list(values.shape), **metadata},
                "kvstore": {"driver": "file", "path": os.path.join(out, peer, name) + "/"},
                "create": True, "delete_existing": True}
        if driver == "zarr3":
            spec["metadata"]["data_type"] = values.dtype.name
        else:
            spec["metadata"]["dtype"] = values.dtype.str
        ts.open(spec).result()[...] = values
        save(out, name, values, values.dtype.name, cases, peer)

    def grid(*chunk):
        return {"name": "regular", "configuration": {"chunk_shape": list(chunk)}}

    def sharding(chunk, codecs, loc="end", index=None):
        return {"name": "sharding_indexed", "configuration": {
            "chunk_shape": chunk, "codecs": codecs, "index_location": loc,
            "index_codecs": index or [le, {"name": "crc32c"}]}}

    le = {"name": "bytes", "configuration": {"endian": "little"}}
    be = {"name": "bytes", "configuration": {"endian": "big"}}
    zstd = {"name": "zstd", "configuration": {"level": 3}}
    for d in DTYPES:
        put(f"v3_{d}", pattern(d, (7, 9)), "zarr3", {"chunk_grid": grid(3, 4), "codecs": [le]})
        put(f"v2_{d}", pattern(d, (7, 9)), "zarr", {"chunks": [3, 4], "compressor": None})
    v = pattern("uint16", (20, 17))
    put("v3_big", v, "zarr3", {"chunk_grid": grid(8, 8), "codecs": [be, {"name": "crc32c"}]})
    put("v3_zstd", v, "zarr3", {"chunk_grid": grid(8, 8), "codecs": [le, zstd]})
    put("v3_gzip", v, "zarr3", {"chunk_grid": grid(8, 8), "codecs": [
        le, {"name": "gzip", "configuration": {"level": 5}}]})
    put("v3_blosc", v, "zarr3", {"chunk_grid": grid(8, 8), "codecs": [
        le, {"name": "blosc", "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle",
                                                "typesize": 2, "blocksize": 0}}]})
    put("v3_transpose", pattern("int32", (4, 5, 6)), "zarr3", {"chunk_grid": grid(2, 3, 4), "codecs": [
        {"name": "transpose", "configuration": {"order": [2, 0, 1]}}, le]})
    sh = pattern("int16", (13, 22))
    sh[4:8, 8:16] = 0
    for loc in ("start", "end"):
        put(f"v3_shard_{loc}", sh, "zarr3", {"chunk_grid": grid(4, 8),
                                             "codecs": [sharding([2, 4], [le, zstd], loc)]})
    put("v3_shard_transposed", sh, "zarr3", {"chunk_grid": grid(4, 8), "codecs": [
        {"name": "transpose", "configuration": {"order": [1, 0]}}, sharding([4, 2], [le])]})
    put("v3_shard_zero_d", np.array(7, dtype="int16"), "zarr3",
        {"chunk_grid": grid(), "codecs": [sharding([], [le])]})
    for name, c in {"zlib": {"id": "zlib", "level": 1}, "zstd": {"id": "zstd", "level": 3},
                    "blosc": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": -1}}.items():
        put(f"v2_{name}", v, "zarr", {"chunks": [8, 8], "compressor": c})
    put("v2_order_f", pattern("int32", (5, 6, 7)), "zarr",
        {"chunks": [2, 3, 4], "order": "F", "compressor": None})
    put("v2_big", v.astype(">u2"), "zarr", {"chunks": [8, 8], "compressor": None})
    put("v2_nested", v, "zarr", {"chunks": [8, 8], "compressor": None, "dimension_separator": "/"})
    finish(out, peer, cases, f"tensorstore {version('tensorstore')}, numpy {np.__version__}")


def version(package):
    from importlib.metadata import version as v
    return v(package)


def finish(out, peer, cases, versions):
    with open(os.path.join(out, peer + ".cases"), "w") as f:
        f.write("\n".join(cases) + "\n")
    with open(os.path.join(out, peer + ".versions"), "w") as f:
        f.write(f"{peer}: {versions}\n")


def pack(out):
    peers = sorted(f[:-6] for f in os.listdir(out) if f.endswith(".cases"))
    for end, to in ((".cases", "cases.txt"), (".versions", "versions.txt")):
        with open(os.path.join(out, to), "w") as f:
            for p in peers:
                f.write(open(os.path.join(out, p + end)).read())
                os.remove(os.path.join(out, p + end))
    with zipfile.ZipFile(os.path.join(out, "golden.zip"), "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        for p in peers:
            for root, dirs, files in os.walk(os.path.join(out, p)):
                dirs.sort()
                for name in sorted(files):
                    path = os.path.join(root, name)
                    info = zipfile.ZipInfo(os.path.relpath(path, out), (1980, 1, 1, 0, 0, 0))
                    info.compress_type = zipfile.ZIP_DEFLATED
                    z.writestr(info, open(path, "rb").read())
            shutil.rmtree(os.path.join(out, p))


if __name__ == "__main__":
    what, where = sys.argv[1], sys.argv[2]
    os.makedirs(where, exist_ok=True)
    {"zarr2": make_zarr2, "zarr3": make_zarr3, "tensorstore": make_tensorstore,
     "pack": pack}[what](where)
