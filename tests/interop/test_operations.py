"""Operations of `apply` that make one item of many, against numpy: all number types, ranks 1 to 4,
odd shapes, regions that divide the array anyhow, chunks that lie across them."""
import itertools
import os
import subprocess

import numpy as np
import pytest
import zarr

from peers import BUILD, pattern

TIDEGATE = os.path.join(BUILD, "tidegate")
pytestmark = pytest.mark.skipif(not os.path.exists(TIDEGATE), reason=f"no tidegate in {BUILD}")

DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
          "float16", "float32", "float64"]
SHAPES = [(13,), (9, 22), (5, 7, 11), (2, 3, 9, 6)]


def apply(path, out, op, grid):
    done = subprocess.run([TIDEGATE, "apply", path, out, "--rois", grid, "--op", op, "--json"],
                          capture_output=True, text=True)
    assert done.returncode == 0, f"{op}: {done.stdout} {done.stderr}"
    return zarr.open_array(out, mode="r")[...]


def make(path, dtype, shape, special=True):
    a = pattern(dtype, shape)
    if not special and a.dtype.kind == "f":
        a[~np.isfinite(a)] = 7
    z = zarr.create_array(path, shape=shape, chunks=tuple(min(n, 6) for n in shape), dtype=dtype,
                          dimension_names=["t", "z", "y", "x"][-len(shape):], compressors=None)
    z[...] = a
    return a


def exact(a, dtype):
    """Python's integers, so that nothing overflows; floats as doubles, their sums in C order."""
    return [int(v) for v in a] if np.dtype(dtype).kind in "iub" else [float(v) for v in a]


def reduced(items, method, dtype):
    dt = np.dtype(dtype)
    values = exact(items, dtype)
    if method == "nearest":
        return values[0]
    if method == "mode":
        return max(sorted(set(values)), key=values.count)
    if method in ("max", "min"):
        with np.errstate(invalid="ignore"):
            return getattr(np, method)(items)
    total = 0
    for v in values:
        total += v
    if method == "mean" and dt.kind in "iub":
        q, r = divmod(total, len(values))
        up = 2 * r > len(values) or (2 * r == len(values) and q % 2 == 1)
        total = q + up
    elif method == "mean":
        total /= len(values)
    if dt.kind in "iu":
        return min(max(total, np.iinfo(dt).min), np.iinfo(dt).max)
    return total


def want_of(a, step, method):
    shape = tuple(-(-n // k) for n, k in zip(a.shape, step))
    out = np.zeros(shape, a.dtype)
    for index in itertools.product(*map(range, shape)):
        block = a[tuple(slice(i * k, i * k + k) for i, k in zip(index, step))].ravel()
        with np.errstate(over="ignore", invalid="ignore"):
            out[index] = reduced(block, method, a.dtype)
    return out


def check(got, want):
    """Bit by bit but for NaN, of which there are many."""
    assert got.dtype == want.dtype and got.shape == want.shape
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("method", ["max", "min", "mean", "sum"])
def test_project(tmp_path, shape, method):
    for i, dtype in enumerate(DTYPES):
        a = make(str(tmp_path / f"{dtype}.zarr"), dtype, shape)
        for axis in range(len(shape)):
            step = [n if d == axis else 1 for d, n in enumerate(shape)]
            # One region along the axis: what several would write together is the policy's.
            grid = "grid:" + ",".join(str(n if d == axis else 4) for d, n in enumerate(shape))
            got = apply(str(tmp_path / f"{dtype}.zarr"), str(tmp_path / f"{i}-{axis}.zarr"),
                        f"project:axis={axis},method={method}", grid)
            check(got, want_of(a, step, method))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("method", ["mean", "max", "min", "nearest", "mode"])
@pytest.mark.parametrize("k", [2, 3])
def test_downsample(tmp_path, shape, method, k):
    """Blocks at the end of an axis may be smaller, and regions are grown to whole blocks: a grid of
    whole blocks here, so that none overlap."""
    for i, dtype in enumerate(DTYPES):
        if method == "mode" and np.dtype(dtype).kind == "f":
            continue
        a = make(str(tmp_path / f"{dtype}.zarr"), dtype, shape)
        step = [k if n > k else 1 for n in shape]
        grid = "grid:" + ",".join(str(s * 2) for s in step)
        got = apply(str(tmp_path / f"{dtype}.zarr"), str(tmp_path / f"{i}.zarr"),
                    f"downsample:factor={','.join(map(str, step))},method={method}", grid)
        check(got, want_of(a, step, method))


def test_touched_regions_of_a_level(tmp_path):
    """Only blocks that regions touch become new, whole ones, though the regions cut them."""
    a = make(str(tmp_path / "a.zarr"), "uint16", (20, 20))
    level = str(tmp_path / "b.zarr")
    whole = apply(str(tmp_path / "a.zarr"), level, "downsample:factor=2", "grid:20,20")
    check(whole, want_of(a, (2, 2), "mean"))
    a[3:8, 5:11] ^= 255
    zarr.open_array(str(tmp_path / "a.zarr"), mode="r+")[...] = a
    csv = tmp_path / "r.csv"
    csv.write_text("y0,y1,x0,x1\n3,8,5,11\n")
    got = apply(str(tmp_path / "a.zarr"), level, "downsample:factor=2", str(csv))
    check(got, want_of(a, (2, 2), "mean"))


@pytest.mark.parametrize("op, says", [
    ("project", "axis"), ("project:axis=9", "axis"), ("project:axis=0,method=median", "method"),
    ("downsample", "factor"), ("downsample:factor=0", "factor"), ("downsample:factor=1.5", "factor"),
    ("downsample:factor=nan", "factor"), ("downsample:factor=99", "factor"),
    ("downsample:factor=2,2,2", "factor"), ("downsample:factor=2,method=mode", "mode"),
    ("project:axis=0,axis=1", "axis")])
def test_refused(tmp_path, op, says):
    make(str(tmp_path / "a.zarr"), "float32", (20, 20))
    done = subprocess.run([TIDEGATE, "apply", str(tmp_path / "a.zarr"), str(tmp_path / "b.zarr"),
                           "--rois", "grid:8,8", "--op", op], capture_output=True, text=True)
    assert done.returncode == 2 and says in done.stderr, (done.returncode, done.stderr)
    assert not (tmp_path / "b.zarr").exists()
