"""What the interop tests share: our tool, and arrays as raw files."""
import os
import struct
import subprocess

import numpy as np
import pytest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
BUILD = os.environ.get("TG_BUILD", os.path.join(ROOT, "build", "dev"))
TOOL = os.path.join(BUILD, "tests", "interop", "interop_tool")
ZARR2 = os.environ.get("TG_ZARR2_PYTHON", os.path.join(ROOT, "build", "venv", "zarr2", "bin", "python"))


def tool(*args):
    done = subprocess.run([TOOL, *map(str, args)], capture_output=True, text=True)
    assert done.returncode == 0, f"{args}: {done.stderr}"


def pattern(dtype, shape, seed=1):
    """Every byte in use, NaN and infinities among floats, a run of zeros."""
    rng = np.random.RandomState(seed)
    if dtype == "string":
        words = ["", "a", "grün", "日本語", "x" * 200, "\U0001f600"]
        return np.array([words[i] for i in rng.randint(0, len(words), shape)], dtype=object)
    dt, n = np.dtype(dtype), int(np.prod(shape, dtype=np.int64))
    if dt.kind == "b":
        a = rng.randint(0, 2, n).astype(dt)
    elif dt.kind in "iu":
        a = np.frombuffer(rng.bytes(n * dt.itemsize), dt).copy()
    elif dt.kind == "f":
        a = (rng.randn(n) * 100).astype(dt)
    else:
        a = (rng.randn(n) + 1j * rng.randn(n)).astype(dt)
    if dt.kind in "fc" and n > 6:
        a[1:5] = [np.nan, np.inf, -np.inf, -0.0]
    if n > 20:
        a[n // 3:n // 3 + n // 4] = 0
    return a.reshape(shape)


def save(path, values):
    with open(path, "wb") as f:
        if values.dtype == object:
            for s in values.ravel():
                b = s.encode()
                f.write(struct.pack("<I", len(b)) + b)
        else:
            f.write(np.ascontiguousarray(values).tobytes())
    return path


def load(path, dtype, shape):
    raw = open(path, "rb").read()
    if dtype != "string":
        return np.frombuffer(raw, dtype).reshape(shape)
    out, at = [], 0
    while at < len(raw):
        n = struct.unpack_from("<I", raw, at)[0]
        out.append(raw[at + 4:at + 4 + n].decode())
        at += 4 + n
    return np.array(out, dtype=object).reshape(shape)


def same(got, want):
    """Bit by bit: NaN payloads and -0.0 count."""
    got = np.asarray(got)
    if want.dtype == object:
        assert got.shape == want.shape and list(map(str, got.ravel())) == list(want.ravel())
        return
    assert got.dtype == want.dtype and got.shape == want.shape, (got.dtype, got.shape)
    assert np.ascontiguousarray(got).tobytes() == np.ascontiguousarray(want).tobytes()


def comma(shape):
    return ",".join(map(str, shape))


def needs_tool():
    return pytest.mark.skipif(not os.path.exists(TOOL), reason=f"no interop_tool in {BUILD}")


def needs_zarr2():
    return pytest.mark.skipif(not os.path.exists(ZARR2), reason="no environment zarr2")
