"""`apply --worker` with python/tidegate_worker.py: functions of numpy arrays, values as numpy has them."""
import json
import os
import shlex
import subprocess
import sys

import numpy as np
import pytest

zarr = pytest.importorskip("zarr", reason="no environment zarr3")

from peers import BUILD, pattern, same  # noqa: E402

COMMAND = os.path.join(BUILD, "tidegate")
MODULE = os.path.join(os.path.dirname(__file__), "..", "..", "python", "tidegate_worker.py")
pytestmark = [pytest.mark.skipif(not os.path.exists(COMMAND), reason=f"no tidegate in {BUILD}"),
              pytest.mark.filterwarnings("ignore")]

FUNCTIONS = '''
import os, sys
import numpy as np

def plus(block, call):
    return block[call.inner] + 2

def fills(block, call):
    call.output[...] = block[call.inner] * 2

def box(block, call):
    """The sum of 3x3, with what lies outside the array as 0."""
    at = np.pad(block, [(1 - min(b, 1), 1) for b in call.before])
    y, x = (max(b - 1, 0) if b else 0 for b in call.before)
    h, w = call.region
    return sum(at[y + i:y + i + h, x + k:x + k + w].astype("uint32") for i in range(3) for k in range(3))
box.dtype = "uint32"
box.halo = (1, 1)

def numbers(block, call):
    assert (call.rois, call.name, call.label, call.axes) == (2, f"r{call.roi}", 0, ["y", "x"]), vars(call)
    assert call.in_start == tuple(o - b for o, b in zip(call.out_start, call.before)) and call.scale == (1.0, 1.0), vars(call)
    assert call.block is block and call.output.shape == call.region == block[call.inner].shape
    return np.full(call.region, call.roi + 1, "uint8")

def writes(block, call):
    block[0, 0] = 1

def wide(block, call):
    return block[call.inner].astype("int64")

def narrow(block, call):
    return block[call.inner].astype("uint8")

def large(block, call):
    return block

def odd(block, call):
    if call.roi == 1:
        raise KeyError(call.name)
    return block[call.inner]

def dies(block, call):
    if call.roi == 1:
        os._exit(4)
    return block[call.inner]

def prints(block, call):
    print("{\\"call\\": 1}", flush=True)
    os.system("echo from a child; true")
    return block[call.inner]

def keeps(block, call, kept=[]):
    """Arrays of earlier calls are alive while the memory grows."""
    kept.append((block, call.output))
    return block[call.inner]
'''


def worker(function, python=sys.executable):
    return " ".join(map(shlex.quote, [python, os.path.abspath(MODULE), f"functions.py:{function}"]))


class Place:
    def __init__(self, folder, dtype="uint16", shape=(50, 70), chunks=(16, 16)):
        self.folder = folder
        (folder / "functions.py").write_text(FUNCTIONS)
        self.values = pattern(dtype, shape)
        a = zarr.create_array(str(folder / "in.zarr"), shape=shape, dtype=dtype, chunks=chunks,
                              dimension_names=["y", "x"][-len(shape):] if len(shape) < 3 else ["z", "y", "x"])
        a[...] = self.values

    def apply(self, command, *args, rois="grid:16", status=0, out="out.zarr"):
        done = subprocess.run([COMMAND, "apply", "in.zarr", out, "--rois", rois, "--worker", command, "--json", *args],
                              cwd=self.folder, capture_output=True, text=True, timeout=300, stdin=subprocess.DEVNULL)
        assert done.returncode == status, (args, done.returncode, done.stderr)
        return json.loads(done.stdout)

    def out(self):
        return zarr.open_array(str(self.folder / "out.zarr"), mode="r")[...]

    def boxes(self, *rois):
        (self.folder / "r.json").write_text(json.dumps({"axes": ["y", "x"], "unit": "px", "rois": [
            {"name": f"r{i}", "box": [r[:2], r[2:]]} for i, r in enumerate(rois)]}))
        return "r.json"


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


@pytest.mark.parametrize("function, want", [("plus", lambda v: v + 2), ("fills", lambda v: v * 2)])
def test_values(place, function, want):
    answer = place.apply(worker(function), "--jobs", "2", "--halo", "3")
    assert (answer["calls"], answer["failed"]) == (20, 0)
    same(place.out(), want(place.values))


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64", "float16", "float32", "float64", "complex64", "complex128"])
def test_types(tmp_path, dtype):
    place = Place(tmp_path, dtype)
    place.apply(worker("fills" if dtype not in ("bool",) else "keeps"))
    same(place.out(), place.values if dtype == "bool" else place.values * np.asarray(2, dtype))


def test_type_and_halo_of_the_function(place):
    place.apply(worker("box"), rois="grid:13")
    v = np.pad(place.values.astype("uint32"), 1)
    want = sum(v[i:i + 50, k:k + 70] for i in range(3) for k in range(3))
    same(place.out(), want)


def test_what_a_call_says(place):
    place.apply(worker("numbers"), "--halo", "4", "--dtype", "uint8", rois=place.boxes([0, 20, 0, 20], [20, 50, 30, 70]))
    want = np.zeros((50, 70), "uint8")
    want[:20, :20] = 1
    want[20:, 30:] = 2
    same(place.out(), want)


def test_three_dimensions(tmp_path):
    place = Place(tmp_path, shape=(3, 40, 50), chunks=(2, 16, 16))
    place.apply(worker("plus"), "--halo", "1,2,3", rois="grid:16")
    same(place.out(), place.values + 2)


@pytest.mark.parametrize("function, words", [
    ("writes", "the function says: ValueError: assignment destination is read-only"),
    ("wide", "the function says: TypeError: the function makes int64, want uint16 (--dtype says which)"),
    ("large", "the function says: ValueError: the function makes an array of shape (19, 19), want (16, 16)"),
])
def test_wrong_results(place, function, words):
    answer = place.apply(worker(function), "--halo", "3", "--jobs", "1", status=1)
    assert words in answer["error"]["message"], answer


def test_narrower_type_fits(place):
    place.apply(worker("narrow"))
    same(place.out(), place.values & 255)


@pytest.mark.parametrize("function, words", [("odd", "the function says: KeyError: 'r1'"),
                                             ("dies", "the worker ended with status 4")])
def test_failing_region(place, function, words):
    rois = place.boxes([0, 10, 0, 10], [10, 20, 10, 20], [20, 30, 20, 30])
    answer = place.apply(worker(function), "--jobs", "1", rois=rois, status=1)
    assert "region 1 ('r1'): " + words in answer["error"]["message"], answer
    answer = place.apply(worker(function), "--jobs", "1", "--on-error", "skip", rois=rois, status=3)
    assert answer["failed"] == 1
    want = np.zeros_like(place.values)
    for k in (0, 20):
        want[k:k + 10, k:k + 10] = place.values[k:k + 10, k:k + 10]
    same(place.out(), want)


def test_prints_and_children(place):
    place.apply(worker("prints"), rois="grid:32")
    same(place.out(), place.values)


def test_memory_grows_while_arrays_are_kept(place):
    """Regions of many sizes in one worker, each larger than the one before."""
    rois = place.boxes(*[[0, k, 0, k] for k in range(1, 50)])
    place.apply(worker("keeps"), "--jobs", "1", "--policy", "last", rois=rois)
    want = np.zeros_like(place.values)
    want[:49, :49] = place.values[:49, :49]
    same(place.out(), want)


@pytest.mark.parametrize("function, words", [
    ("none", "AttributeError: module 'functions' has no attribute 'none'"),
])
def test_no_such_function(place, function, words):
    answer = place.apply(worker(function), status=2)
    assert words in answer["error"]["message"], answer
    assert not (place.folder / "out.zarr").exists()


def test_by_hand():
    done = subprocess.run([sys.executable, MODULE, f"{MODULE}:main"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "to be run by `tidegate apply --worker`" in done.stderr, done


def test_program_of_its_own(place):
    (place.folder / "program.py").write_text(
        "import sys\n"
        f"sys.path.insert(0, {os.path.dirname(os.path.abspath(MODULE))!r})\n"
        "import numpy as np, tidegate_worker\n"
        "table = np.arange(65536)[::-1]\n"
        "tidegate_worker.serve(lambda block, call: table[block[call.inner]].astype('uint16'))\n")
    place.apply(f"{shlex.quote(sys.executable)} program.py")
    same(place.out(), np.uint16(65535) - place.values)


@pytest.mark.skipif("asan" in BUILD or "tsan" in BUILD, reason="a sanitizer's own memory would be measured")
def test_memory_of_both_sides_counts(tmp_path):
    """8 MiB of input and as much output for each of two calls, and what the engine needs beside them."""
    place = Place(tmp_path, shape=(2048, 8192), chunks=(512, 512))
    answer = place.apply(worker("plus"), "--memory", "96MiB", "--jobs", "2", "--threads", "2", rois="grid:2048")
    same(place.out(), place.values + 2)
    assert answer["rss_bytes_peak"] <= (96 + 16) << 20, answer
    answer = place.apply(worker("plus"), "--memory", "24MiB", rois="grid:2048", status=2, out="no.zarr")
    assert "--memory" in answer["error"]["message"] or "memory" in answer["error"]["message"], answer
