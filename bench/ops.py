"""Filters of `apply` beside scipy.ndimage, both on one thread, in interleaved rounds of one run: prints one
JSON object. Run it with the Python of build/venv/ops (numpy, scipy), on a machine that does nothing else.

A row is a filter on one array: the median CPU seconds of the whole command (start, reading and writing
included), of scipy's function on the array in memory with the same type in and out, and, for the filters
that both can do in doubles (which is what ours do), of scipy with output=float64. `ratio` is scipy's
seconds by ours; `ratio_net` takes from ours what `--op copy` of the same array takes.
usage: bench/ops.py [TIDEGATE] [FOLDER] [--size N] [--rounds N] [--only REGEX]"""
import argparse
import itertools
import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time

import numpy as np
import scipy
import scipy.ndimage as ndi

FILTERS = {
    **{f"gaussian:sigma={s}": lambda a, o, s=s: ndi.gaussian_filter(a, s, output=o) for s in (1, 2, 4)},
    **{f"median:size={n}": lambda a, o, n=n: ndi.median_filter(a, n) for n in (3, 5, 9)},
    "min:size=5": lambda a, o: ndi.minimum_filter(a, 5),
    "max:size=15": lambda a, o: ndi.maximum_filter(a, 15),
    "mean:size=5": lambda a, o: ndi.uniform_filter(a, 5, output=o),
    "mean:size=15": lambda a, o: ndi.uniform_filter(a, 15, output=o),
}
IN_DOUBLES = re.compile("gaussian|mean")
SLOW = re.compile("median:size=9") # of scipy in 3-D: minutes


def write(path, a):
    """A Zarr 3 array of chunks of up to 512 items an axis, uncompressed."""
    shutil.rmtree(path, ignore_errors=True)
    chunk = [min(n, 512) for n in a.shape]
    for at in itertools.product(*(range(n // c) for n, c in zip(a.shape, chunk))):
        key = os.path.join(path, "c", *map(str, at))
        os.makedirs(os.path.dirname(key), exist_ok=True)
        a[tuple(slice(i * c, (i + 1) * c) for i, c in zip(at, chunk))].tofile(key)
    meta = {"zarr_format": 3, "node_type": "array", "shape": a.shape, "data_type": str(a.dtype),
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": 0, "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}
    with open(os.path.join(path, "zarr.json"), "w") as f:
        json.dump(meta, f)


def image(dtype, shape):
    """Smooth hills with noise, over the range of the type: what a microscope gives, more or less."""
    r = np.random.default_rng(1)
    hills = ndi.gaussian_filter(r.standard_normal(shape), 6)
    a = (hills - hills.min()) / (hills.max() - hills.min()) * 0.8 + r.random(shape) * 0.2
    return a.astype(dtype) if np.dtype(dtype).kind == "f" else (a * np.iinfo(dtype).max).astype(dtype)


class Bench:
    def __init__(self, tidegate, work):
        self.tidegate, self.work = tidegate, work

    def ours(self, a, op):
        out = os.path.join(self.work, "out.zarr")
        shutil.rmtree(out, ignore_errors=True)
        p = subprocess.Popen([self.tidegate, "apply", os.path.join(self.work, "in.zarr"), out, "--op", op, "--rois",
                              f"grid:{max(a.shape)}", "--threads", "1", "--memory", "4GiB"], stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(p.pid, 0)
        assert status == 0, f"{op}: exit status {status}"
        return used.ru_utime + used.ru_stime

    @staticmethod
    def theirs(f, a, output):
        before = time.process_time()
        f(a, output)
        return time.process_time() - before

    def row(self, op, f, a, rounds):
        got = {"copy_seconds": [], "seconds": [], "scipy_seconds": [], "scipy_doubles_seconds": []}
        for _ in range(rounds):
            got["copy_seconds"].append(self.ours(a, "copy"))
            got["seconds"].append(self.ours(a, op))
            got["scipy_seconds"].append(self.theirs(f, a, a.dtype))
            if IN_DOUBLES.match(op):
                got["scipy_doubles_seconds"].append(self.theirs(f, a, np.float64))
        row = {"operation": op, "dtype": str(a.dtype), "shape": list(a.shape)}
        row.update({k: round(statistics.median(v), 5) for k, v in got.items() if v})
        net = max(row["seconds"] - row["copy_seconds"], 1e-4)
        row["ratio"] = round(row["scipy_seconds"] / row["seconds"], 2)
        row["ratio_net"] = round(row["scipy_seconds"] / net, 2)
        if "scipy_doubles_seconds" in row:
            row["ratio_doubles"] = round(row["scipy_doubles_seconds"] / row["seconds"], 2)
        row["ns_per_item"] = round(net / a.size * 1e9, 2)
        row["rounds"] = got
        return row


p = argparse.ArgumentParser()
p.add_argument("tidegate", nargs="?", default="build/release/tidegate")
p.add_argument("folder", nargs="?", default="/dev/shm")
p.add_argument("--size", type=int, default=2048, help="of the image, a multiple of 512 or less than it")
p.add_argument("--rounds", type=int, default=5)
p.add_argument("--only", default="", help="what OPERATION DTYPE RANK-D must match, as 'median.*uint8 2-D'")
args = p.parse_args()
arrays = [(t, (args.size, args.size)) for t in ("uint8", "uint16", "float32")]
arrays.append(("uint16", (args.size // 32, args.size // 8, args.size // 8)))
result = {"bench": "ops", "scipy": scipy.__version__, "numpy": np.__version__, "rows": []}
with tempfile.TemporaryDirectory(dir=args.folder) as work:
    for dtype, shape in arrays:
        rank = f"{len(shape)}-D"
        chosen = {op: f for op, f in FILTERS.items() if re.search(args.only, f"{op} {dtype} {rank}")
                  and not (len(shape) > 2 and SLOW.match(op))}
        a = image(dtype, shape) if chosen else None
        if chosen:
            write(os.path.join(work, "in.zarr"), a)
        for op, f in chosen.items():
            result["rows"].append(Bench(args.tidegate, work).row(op, f, a, args.rounds))
print(json.dumps(result, indent=1))
