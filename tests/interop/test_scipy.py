"""Every built-in operation of `apply` that makes an array against scipy.ndimage, scikit-image, numpy
and Fractal's formula: all number types, odd shapes, 1 to 4 dimensions, regions that divide the array
anyhow. Integers: equal, rounded half to even once at the end, saturating. Floats: to the last bits.
test_operations.py has project and downsample, test_measure.py measure and stats."""
import json
import os
import subprocess

import numpy as np
import pytest
import zarr

from ops_env import PYTHON, evaluate
from peers import BUILD, pattern

TIDEGATE = os.path.join(BUILD, "tidegate")
pytestmark = [
    pytest.mark.skipif(not os.path.exists(TIDEGATE), reason=f"no tidegate in {BUILD}"),
    pytest.mark.skipif(not os.path.exists(PYTHON), reason="no environment ops"),
]
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
DTYPES = ["bool", *INTEGERS, "float16", "float32", "float64"]
SHAPES = [(23,), (13, 17), (5, 7, 11), (3, 4, 7, 6)]


def save(path, a, chunk=5, names=True):
    z = zarr.create_array(str(path), shape=a.shape, chunks=tuple(min(n, chunk) for n in a.shape),
                          dtype=a.dtype, compressors=None,
                          dimension_names=["q", "z", "y", "x"][-a.ndim:] if names else None)
    z[...] = a


def apply(a, out, op, grid, *more):
    done = subprocess.run([TIDEGATE, "apply", str(a), str(out), "--op", op, "--rois", grid, "--json",
                           *map(str, more)], capture_output=True, text=True)
    assert done.returncode == 0, f"{op}: {done.stdout} {done.stderr}"
    return zarr.open_array(str(out), mode="r")[...], json.loads(done.stdout)


def fit(values, dtype):
    """Doubles (or Python's integers) as ours become items; how many did not fit."""
    dt = np.dtype(dtype)
    if dt.kind == "b":
        return values != 0, 0
    if dt.kind == "f":
        with np.errstate(over="ignore", invalid="ignore"):
            return values.astype(dt), 0
    low, high = int(np.iinfo(dt).min), int(np.iinfo(dt).max)
    flat = np.asarray(values, dtype=object).ravel()
    out, over = [], 0
    for v in flat:
        if isinstance(v, float) or isinstance(v, np.floating):
            v = float(v)
            r = 0 if np.isnan(v) else v if np.isinf(v) else round(v)
            over += bool(np.isnan(v))
        else:
            r = int(v)
        over += r < low or r > high
        out.append(low if r < low else high if r > high else int(r))
    return np.array(out, dtype=dt).reshape(np.shape(values)), over


def ordinary(dtype, shape, seed=5):
    """Numbers without NaN and infinities, over the whole range of small types."""
    a = pattern(dtype, shape, seed)
    if a.dtype.kind == "f":
        a[~np.isfinite(a)] = 2.5
    return a


def near(got, want, dtype):
    if np.dtype(dtype).kind in "iub":
        np.testing.assert_array_equal(got, want)
    else:
        eps = {2: 2e-3, 4: 3e-7, 8: 1e-13}[np.dtype(dtype).itemsize]
        np.testing.assert_allclose(got.astype("f8"), want.astype("f8"), rtol=eps, atol=eps * 400)


# --- Item by item ----------------------------------------------------------------------------------

def exact(a):
    return a.astype(object) if a.dtype.kind in "iu" else a.astype("f8")


ITEMWISE = {
    "add:value=7": lambda a: exact(a) + 7,
    "add:value=-100": lambda a: exact(a) - 100,
    "add:value=0.5": lambda a: a.astype("f8") + 0.5,
    "mul:value=3": lambda a: exact(a) * 3,
    "mul:value=0.375": lambda a: a.astype("f8") * 0.375,
    "clip:min=3,max=90": lambda a: np.clip(exact(a), 3, 90),
    "copy": exact,
}


@pytest.mark.parametrize("dtype", DTYPES)
def test_itemwise(tmp_path, dtype):
    for i, shape in enumerate(SHAPES):
        a = ordinary(dtype, shape)
        save(tmp_path / f"{i}.zarr", a)
        for k, (op, f) in enumerate(ITEMWISE.items()):
            if "." in op and a.dtype.kind in "iu" and a.dtype.itemsize == 8:
                continue # long double here, double there
            want, over = fit(f(a), dtype)
            got, report = apply(tmp_path / f"{i}.zarr", tmp_path / f"{i}-{k}.zarr", op,
                                "grid:" + ",".join(["4"] * len(shape)))
            near(got, want, dtype)
            assert got.dtype == want.dtype and report["saturated"] == over, (op, shape)


@pytest.mark.parametrize("dtype", DTYPES)
def test_cast(tmp_path, dtype):
    a = pattern(dtype, (13, 17)) # NaN and infinities, too
    save(tmp_path / "a.zarr", a)
    for to in DTYPES:
        want, over = fit(exact(a), to)
        got, report = apply(tmp_path / "a.zarr", tmp_path / f"{to}.zarr", f"cast:dtype={to}", "grid:4,9")
        np.testing.assert_array_equal(got, want)
        assert report["saturated"] == over, to


@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint16", "int32", "float32", "float64"])
def test_rescale(tmp_path, dtype):
    a = ordinary(dtype, (20, 21))
    save(tmp_path / "a.zarr", a)
    jobs = {"": "ski.exposure.rescale_intensity(a)",
            ":in_range=-20,60": "ski.exposure.rescale_intensity(a, (-20, 60))",
            ":in_range=3,60,out_range=5,100": "ski.exposure.rescale_intensity(a, (3, 60), (5, 100))"}
    if a.dtype.kind == "u":
        del jobs[":in_range=-20,60"]
    want = evaluate(tmp_path, {"a": a}, jobs)
    for i, op in enumerate(jobs):
        got, _ = apply(tmp_path / "a.zarr", tmp_path / f"{i}.zarr", "rescale" + op, "grid:20,21")
        if a.dtype.kind == "f":
            near(got, want[op], dtype)
        else: # the reference cuts off what we round
            assert np.abs(got.astype("f8") - want[op].astype("f8")).max() <= 1


# --- Thresholds ------------------------------------------------------------------------------------

@pytest.mark.parametrize("shape", SHAPES[:3], ids=str)
def test_thresholds(tmp_path, shape):
    arrays = {t: ordinary(t, shape) for t in DTYPES if t != "bool"}
    jobs = {}
    for t in arrays:
        jobs[f"{t} threshold:value=11.5"] = f"{t} > 11.5"
        jobs[f"{t} percentile:q=37.5"] = f"{t} > np.percentile({t}.astype('f8'), 37.5)"
        # Wide integers are binned by the reference as floats are; half floats by single ones.
        if np.dtype(t).itemsize <= 2 and t != "float16" or t in ("float32", "float64"):
            jobs[f"{t} otsu"] = f"{t} > ski.filters.threshold_otsu({t})"
    want = evaluate(tmp_path, arrays, jobs)
    for t, a in arrays.items():
        save(tmp_path / f"{t}.zarr", a)
    for i, key in enumerate(jobs):
        t, op = key.split(" ")
        got, _ = apply(tmp_path / f"{t}.zarr", tmp_path / f"{i}.zarr", op,
                       "grid:" + ",".join(map(str, shape)))
        assert got.dtype == np.uint8
        np.testing.assert_array_equal(got, want[key], err_msg=key)
    got, _ = apply(tmp_path / "uint8.zarr", tmp_path / "above.zarr", "threshold:value=9,above=255",
                   "grid:" + ",".join(["3"] * len(shape)))
    np.testing.assert_array_equal(got, np.where(arrays["uint8"] > 9, 255, 0))


# --- Filters ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_filters(tmp_path, shape):
    """Regions with the halo that the operation asks for: the same as the whole array at once."""
    # The reference takes 64-bit integers through doubles: numbers that they hold.
    arrays = {t: ordinary(t, shape) >> 12 if t in ("int64", "uint64") else ordinary(t, shape)
              for t in DTYPES if t != "float16"}
    sizes = [(3,) * len(shape), (4, 3, 2, 5)[:len(shape)], (1, 7, 3, 2)[-len(shape):]]
    jobs = {}
    for t in arrays:
        wide = f"a_{t}.astype('f8')"
        for s in sizes:
            text = ",".join(map(str, s))
            jobs[f"{t} median:size={text}"] = f"ndi.median_filter(a_{t}, {s})" if t != "bool" else \
                f"ndi.median_filter(a_{t}.astype('u1'), {s}).astype(bool)"
            jobs[f"{t} min:size={text}"] = f"ndi.minimum_filter(a_{t}, {s})"
            jobs[f"{t} max:size={text}"] = f"ndi.maximum_filter(a_{t}, {s})"
            if "64" not in t or t == "float64":
                jobs[f"{t} mean:size={text}"] = f"ndi.uniform_filter({wide}, {s})"
        if "64" not in t or t == "float64":
            jobs[f"{t} gaussian:sigma=1.3"] = f"ndi.gaussian_filter({wide}, 1.3)"
            jobs[f"{t} gaussian:sigma=0.8,truncate=2.5"] = f"ndi.gaussian_filter({wide}, 0.8, truncate=2.5)"
    want = evaluate(tmp_path, {f"a_{t}": a for t, a in arrays.items()}, jobs)
    for t, a in arrays.items():
        save(tmp_path / f"{t}.zarr", a)
    for i, key in enumerate(jobs):
        t, op = key.split(" ")
        if op.startswith(("mean", "gaussian")) and t == "bool":
            continue
        got, _ = apply(tmp_path / f"{t}.zarr", tmp_path / f"{i}.zarr", op,
                       "grid:" + ",".join(["6"] * len(shape)))
        if op.startswith(("mean", "gaussian")) and np.dtype(t).kind in "iu":
            # One rounding of a double that may differ in its last bits from the reference's.
            value = want[key]
            tie = np.abs(value - np.floor(value) - 0.5) < 1e-6 * (1 + np.abs(value))
            np.testing.assert_array_equal(got[~tie], fit(value, t)[0][~tie], err_msg=key)
            assert np.abs(got.astype("f8") - value).max() <= 0.5 + 1e-5 * np.abs(value).max()
        elif op.startswith(("mean", "gaussian")):
            near(got, want[key], t)
        else:
            np.testing.assert_array_equal(got, want[key].astype(t), err_msg=key)


def test_large_regions(tmp_path):
    """Done in strips, which do not show."""
    for t in ("uint16", "float64"):
        a = ordinary(t, (700, 450))
        jobs = {"gaussian:sigma=2": "ndi.gaussian_filter(a.astype('f8'), 2)",
                "median:size=3": "ndi.median_filter(a, 3)", "median:size=4,5": "ndi.median_filter(a, (4, 5))",
                "min:size=5": "ndi.minimum_filter(a, 5)", "max:size=4": "ndi.maximum_filter(a, 4)"}
        want = evaluate(tmp_path, {"a": a}, jobs)
        save(tmp_path / f"{t}.zarr", a, 300)
        for i, op in enumerate(jobs):
            got, _ = apply(tmp_path / f"{t}.zarr", tmp_path / f"{t}-{i}.zarr", op, "grid:700,450")
            if op.startswith("gaussian") and t == "uint16":
                assert np.abs(got.astype("f8") - want[op]).max() <= 0.5 + 1e-6
            else:
                near(got, want[op].astype(t), t)


def test_small_arrays_and_large_windows(tmp_path):
    """Reflection more than once around an array that the window exceeds."""
    for shape in [(1,), (2,), (1, 3), (2, 2, 2)]:
        a = ordinary("uint16", shape)
        jobs = {"median:size=7": "ndi.median_filter(a, 7)", "min:size=9": "ndi.minimum_filter(a, 9)",
                "max:size=6": "ndi.maximum_filter(a, 6)"}
        want = evaluate(tmp_path, {"a": a}, jobs)
        name = "x".join(map(str, shape))
        save(tmp_path / f"{name}.zarr", a, names=False)
        for i, op in enumerate(jobs):
            got, _ = apply(tmp_path / f"{name}.zarr", tmp_path / f"{name}-{i}.zarr", op,
                           "grid:" + ",".join(["1"] * len(shape)))
            np.testing.assert_array_equal(got, want[op], err_msg=f"{shape} {op}")


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_label(tmp_path, shape):
    """One region is the whole array here: numbers over regions are the policy's."""
    a = (np.random.RandomState(2).rand(*shape) < 0.45).astype("uint8") * 7
    jobs = {f"label:connectivity={c}":
            f"ndi.label(a, ndi.generate_binary_structure({len(shape)}, {c}))[0]"
            for c in range(1, len(shape) + 1)}
    want = evaluate(tmp_path, {"a": a}, jobs)
    save(tmp_path / "a.zarr", a)
    for i, op in enumerate(jobs):
        got, _ = apply(tmp_path / "a.zarr", tmp_path / f"{i}.zarr", op,
                       "grid:" + ",".join(map(str, shape)))
        np.testing.assert_array_equal(got, want[op])


# --- Paste, fill, illumination ---------------------------------------------------------------------

@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_paste(tmp_path, shape):
    shift = (2, -3, 1, -1)[:len(shape)]
    arrays = {t: ordinary(t, shape) for t in DTYPES}
    want = evaluate(tmp_path, {f"a_{t}": a for t, a in arrays.items()},
                    {t: f"ndi.shift(a_{t}.astype('f8'), {shift}, order=0, cval=1)" for t in DTYPES
                     if "64" not in t or t == "float64"})
    for t in want: # the reference goes through doubles
        save(tmp_path / f"{t}.zarr", arrays[t])
        got, _ = apply(tmp_path / f"{t}.zarr", tmp_path / f"{t}-out.zarr",
                       f"paste:shift={','.join(map(str, shift))},cval=1",
                       "grid:" + ",".join(["4"] * len(shape)))
        np.testing.assert_array_equal(got, want[t].astype(t), err_msg=t)


def test_fill(tmp_path):
    a, labels = ordinary("uint16", (3, 14, 15)), np.zeros((14, 15), "int32")
    labels[2:9, 3:8], labels[6:12, 8:14] = 4, 9
    save(tmp_path / "a.zarr", a)
    save(tmp_path / "l.zarr", labels)
    boxes = tmp_path / "r.csv"
    boxes.write_text("name,label,y0,y1,x0,x1\na,4,0,14,0,8\nb,9,0,14,8,15\n")
    named = np.concatenate([(labels == 4)[:, :8], (labels == 9)[:, 8:]], axis=1)
    some = labels != 0
    for i, (op, mask) in enumerate([("", np.ones_like(some)), (f",labels={tmp_path}/l.zarr", named),
                                    (f",labels={tmp_path}/l.zarr,where=outside", ~named)]):
        got, _ = apply(tmp_path / "a.zarr", tmp_path / f"{i}.zarr", "fill:value=77" + op, boxes)
        np.testing.assert_array_equal(got, np.where(mask, 77, a))
    got, report = apply(tmp_path / "a.zarr", tmp_path / "some.zarr",
                        f"fill:value=5,labels={tmp_path}/l.zarr", "grid:3,5,4")
    np.testing.assert_array_equal(got, np.where(some, 5, a))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32"])
@pytest.mark.parametrize("dark", [False, True])
def test_illumination(tmp_path, dtype, dark):
    """As Fractal does it: integers cut off, not rounded; what is too large is the largest."""
    a = ordinary(dtype, (2, 3, 16, 20))
    rng = np.random.RandomState(1)
    flat = rng.randint(20, 200, (8, 10)).astype("uint16")
    flat[0, 0] = 1
    profile = rng.randint(0, 40, (8, 10)).astype("uint16")
    save(tmp_path / "a.zarr", a)
    save(tmp_path / "flat.zarr", flat)
    save(tmp_path / "dark.zarr", profile)
    v = a.astype("int64")
    if dark:
        v = np.maximum(v - np.tile(profile, (2, 2)), 0)
    v = np.where(v <= 11, 0, v - 11)
    want = v / np.tile(flat / np.max(flat), (2, 2))
    most = np.iinfo(dtype).max
    over = int((np.trunc(want) > most).sum())
    want = np.minimum(want, most).astype(dtype)
    op = f"illumination:flat={tmp_path}/flat.zarr,background=11"
    got, report = apply(tmp_path / "a.zarr", tmp_path / "o.zarr",
                        op + (f",dark={tmp_path}/dark.zarr" if dark else ""), "grid:8,10")
    np.testing.assert_array_equal(got, want)
    assert report["saturated"] == over > 0


@pytest.mark.parametrize("op, code, says", [
    ("illumination", 2, "flat"), ("illumination:flat=none.zarr", 1, "none.zarr"),
    ("illumination:flat=a.zarr,dark=line.zarr", 2, "dark"), ("illumination:flat=zero.zarr", 2, "above 0"),
    ("illumination:flat=small.zarr", 1, "profile"), ("fill:value=1,where=outside", 2, "labels"),
    ("fill:value=1,labels=float.zarr", 2, "whole numbers"), ("fill:value=1,labels=small.zarr", 2, "items"),
    ("fill:value=x", 2, "value"), ("fill:value=1,labels=small.zarr,where=here", 2, "where")])
def test_refused(tmp_path, op, code, says):
    save(tmp_path / "a.zarr", ordinary("uint8", (8, 8)) | 1)
    save(tmp_path / "small.zarr", np.ones((3, 4), "uint8"))
    save(tmp_path / "zero.zarr", np.zeros((8, 8), "uint8"))
    save(tmp_path / "line.zarr", np.zeros((8,), "uint8"))
    save(tmp_path / "float.zarr", np.zeros((8, 8), "float32"))
    done = subprocess.run([TIDEGATE, "apply", "a.zarr", "o.zarr", "--rois", "grid:8", "--op", op],
                          capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == code and says in done.stderr, (done.returncode, done.stderr)
    assert code == 1 or not (tmp_path / "o.zarr").exists()


# --- Beyond the array ------------------------------------------------------------------------------

# Names are numpy.pad's; scipy's "reflect" is numpy's "symmetric".
PADS = {"constant": "mode='constant'", "constant:9": "mode='constant', cval=9",
        "fill": "mode='constant', cval=0", "edge": "mode='nearest'", "reflect": "mode='mirror'",
        "symmetric": "mode='reflect'"}
WINDOWS = {"median:size=5": "ndi.median_filter({a}, 5, {m})", "max:size=3": "ndi.maximum_filter({a}, 3, {m})",
           "min:size=5": "ndi.minimum_filter({a}, 5, {m})",
           "gaussian:sigma=1.1": "ndi.gaussian_filter({a}.astype('f8'), 1.1, {m})"}


def test_pad(tmp_path):
    arrays = {t: ordinary(t, (13, 17), 8) for t in ("int16", "float32")}
    jobs = {f"{t} {op} {pad}": form.format(a=t, m=mode)
            for t in arrays for op, form in WINDOWS.items() for pad, mode in PADS.items()}
    want = evaluate(str(tmp_path), arrays, jobs)
    for t, a in arrays.items():
        save(tmp_path / t, a)
    for n, name in enumerate(jobs):
        t, op, pad = name.split()
        got, _ = apply(tmp_path / t, tmp_path / f"o{n}", op, "grid:6", "--pad", pad)
        value = fit(want[name], t)[0] if t == "int16" else want[name]
        near(got, value, t)
        made = zarr.open_array(str(tmp_path / f"o{n}"), mode="r").attrs["tidegate"]
        assert made["pad"] == pad
