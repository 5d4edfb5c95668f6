"""Filters of `apply` beside scipy, both on one thread, in one run: prints one JSON object. Run it with the
Python of build/venv/ops (numpy, scipy), on a machine that does nothing else.
usage: bench/ops.py [TIDEGATE] [FOLDER] [SIZE] [ROUNDS]"""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np
import scipy.ndimage as ndi

tidegate = sys.argv[1] if len(sys.argv) > 1 else "build/release/tidegate"
folder = sys.argv[2] if len(sys.argv) > 2 else "/dev/shm"
size = int(sys.argv[3]) if len(sys.argv) > 3 else 2048
rounds = int(sys.argv[4]) if len(sys.argv) > 4 else 3
OPS = {
    "gaussian:sigma=2": lambda a: ndi.gaussian_filter(a, 2),
    "gaussian:sigma=2 (doubles)": lambda a: ndi.gaussian_filter(a.astype("f8"), 2),
    "median:size=3": lambda a: ndi.median_filter(a, 3),
    "median:size=5": lambda a: ndi.median_filter(a, 5),
    "min:size=5": lambda a: ndi.minimum_filter(a, 5),
    "mean:size=5": lambda a: ndi.uniform_filter(a, 5),
}


def write(path, a):
    """A Zarr 3 array of one chunk, uncompressed."""
    os.makedirs(os.path.join(path, "c", "0"))
    a.tofile(os.path.join(path, "c", "0", "0"))
    meta = {"zarr_format": 3, "node_type": "array", "shape": a.shape, "data_type": str(a.dtype),
            "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": a.shape}},
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": 0, "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}
    with open(os.path.join(path, "zarr.json"), "w") as f:
        json.dump(meta, f)


def ours(work, op):
    """CPU seconds of the whole command, start, reading and writing included."""
    out = os.path.join(work, "out.zarr")
    shutil.rmtree(out, ignore_errors=True)
    before = os.times()
    subprocess.run([tidegate, "apply", os.path.join(work, "in.zarr"), out, "--op", op.split(" ")[0],
                    "--rois", f"grid:{size}", "--threads", "1", "--memory", "4GiB"], check=True,
                   stdout=subprocess.DEVNULL)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def theirs(f, a):
    before = time.process_time()
    f(a)
    return time.process_time() - before


a = np.random.RandomState(1).randint(0, 65536, (size, size)).astype("uint16")
work = tempfile.mkdtemp(dir=folder)
result = {"size": size, "dtype": "uint16", "operations": {}}
try:
    write(os.path.join(work, "in.zarr"), a)
    for op, f in OPS.items():
        pairs = [(ours(work, op), theirs(f, a)) for _ in range(rounds)] # interleaved
        mine, peer = min(p[0] for p in pairs), min(p[1] for p in pairs)
        result["operations"][op] = {"seconds": mine, "scipy_seconds": peer, "ratio": peer / mine,
                                    "mib_per_s": a.nbytes / 2**20 / mine}
finally:
    shutil.rmtree(work)
print(json.dumps(result, indent=1))
