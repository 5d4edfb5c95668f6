"""Black-box cases of `apply` that no other test holds (docs/apply-cases.md), with zarr-python beside it."""
import itertools
import json
import os
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

zarr = pytest.importorskip("zarr", reason="no environment zarr3")

from peers import BUILD  # noqa: E402
from test_worker import MODULE  # noqa: E402

COMMAND = os.path.join(BUILD, "tidegate")
MEASURE = os.path.join(BUILD, "tests/cli/measure")
SOAK = "TG_SOAK" in os.environ
LIMIT = 240  # seconds until something has hung
pytestmark = [pytest.mark.skipif(not os.path.exists(COMMAND), reason=f"no tidegate in {BUILD}"),
              pytest.mark.filterwarnings("ignore")]


class Place:
    """A folder, and tidegate in it."""

    def __init__(self, folder):
        self.folder = folder

    def __truediv__(self, name):
        return self.folder / name

    def start(self, *args, **kinds):
        return subprocess.Popen([COMMAND, *map(str, args)], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, **kinds)

    def run(self, *args, status=0, **kinds):
        process = self.start(*args, "--json", **kinds)
        out, err = process.communicate(timeout=LIMIT)
        assert process.returncode == status, f"{args}: exit {process.returncode}, want {status}: {out} {err[-600:]}"
        return json.loads(out)

    def apply(self, *args, **kinds):
        return self.run("apply", *args, **kinds)

    def array(self, name, values, chunks, shards=None, **options):
        values = np.asarray(values)
        a = zarr.create_array(str(self / name), shape=values.shape, dtype=values.dtype, chunks=chunks, shards=shards,
                              overwrite=True, dimension_names=["t", "z", "y", "x"][-values.ndim:], **options)
        a[...] = values
        return a

    def read(self, name):
        return zarr.open_array(str(self / name), mode="r")[...]

    def boxes(self, name, boxes, axes="tzyx"):
        """A list of regions: a tuple of (start, end) an axis."""
        text = {"axes": list(axes[-len(boxes[0]):]), "unit": "px", "rois": [
            {"name": f"r{i}", "box": [list(map(int, b)) for b in box]} for i, box in enumerate(boxes)]}
        (self / name).write_text(json.dumps(text))
        return name

    def table(self, name, y, x, h, w):
        """The same of very many, y and x alone, as CSV."""
        lines = (f"{a},{a + b},{c},{c + d}\n" for a, b, c, d in zip(y.tolist(), h.tolist(), x.tolist(), w.tolist()))
        (self / name).write_text("y0,y1,x0,x1\n" + "".join(lines))
        return name

    def worker(self, text):
        """A Python function `f(block, call)` in processes of its own."""
        (self / "functions.py").write_text("import numpy as np\n" + text)
        return " ".join(map(shlex.quote, [sys.executable, os.path.abspath(MODULE), "functions.py:f"]))

    def measured(self, *args):
        done = subprocess.run([MEASURE, "rss", COMMAND, *map(str, args), "--json"], cwd=self.folder, capture_output=True, text=True,
                              timeout=LIMIT, stdin=subprocess.DEVNULL)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout), int((self / "rss").read_text())


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def overlapping(y, x, h, w):
    """Pairs of boxes that share a pixel, counted by a sweep over y."""
    order = np.argsort(y, kind="stable")
    y, x, h, w = (v[order].astype(np.int64) for v in (y, x, h, w))
    ends = np.searchsorted(y, y + h, "left")
    pairs = 0
    for first in range(0, len(y), 2000):
        a = np.arange(first, min(first + 2000, len(y)))
        n = ends[a] - a - 1
        one = np.repeat(a, n)
        other = one + 1 + np.arange(len(one)) - np.repeat(np.cumsum(n) - n, n)
        pairs += int(np.count_nonzero((x[one] < x[other] + w[other]) & (x[other] < x[one] + w[one])))
    return pairs


class Plan:
    """The file of a plan, by docs/formats/plan.md."""
    SECTIONS = ("BOX LABEL NAME NAMES ANCHOR LINK_FIRST LINK UNIT UNIT_FIRST UNIT_REGION UNIT_WRITERS UNIT_COVER PIECE_AT PIECE_N PIECE "
                "SOURCE READERS READ_FIRST READ ISSUED PART_UNIT PART_ISSUED BEFORE AFTER_FIRST AFTER RING POINT XY").split()
    UNIT = np.dtype([("place", "<u8"), ("weight", "<u8"), ("readers", "<u4"), ("part", "<u4"), ("flags", "<u4"), ("zero", "<u4")])

    def __init__(self, path):
        self.bytes = path.read_bytes()
        assert self.bytes[:8] == b"TGRPLAN\n"
        n_json, n_sections = struct.unpack_from("<II", self.bytes, 24)
        assert n_sections == len(self.SECTIONS)
        self.table = np.frombuffer(self.bytes, "<u8", 2 * n_sections, 64).reshape(-1, 2)
        self.facts = json.loads(self.bytes[64 + 16 * n_sections:][:n_json])
        self.counts = self.facts["counts"]

    def section(self, name, dtype):
        offset, size = map(int, self.table[self.SECTIONS.index(name)])
        return np.frombuffer(self.bytes[offset:offset + size], dtype)


def inner_chunks(path, n):
    """The encoded bytes of each inner chunk of a shard, by the index at its end; None: there is none."""
    shard = path.read_bytes()
    index = np.frombuffer(shard[-(16 * n + 4):-4], "<u8").reshape(n, 2)
    return [None if at == 2**64 - 1 else shard[int(at):int(at + size)] for at, size in index]


# --- Calls and exactness ----------------------------------------------------------------------------


def test_4_regions_that_overlap_in_place(place):
    """4: 128 regions of two pixels, a pixel apart, in place: 128 calls, and each sees what was there before."""
    values = np.arange(129, dtype="uint16") * 3
    place.array("a.zarr", values, (16,))
    answer = place.apply("a.zarr", "--in-place", "--rois", "grid:2/1", "--policy", "last", "--op", "add:value=2")
    assert (answer["rois"], answer["calls"], answer["failed"]) == (128, 128, 0)
    np.testing.assert_array_equal(place.read("a.zarr"), values + 2)


@pytest.mark.parametrize("policy", ["sum", "last"])
def test_31_very_many_regions_in_one_chunk(place, policy):
    """31: 100,000 regions of 10 x 3 in one chunk: exact, it is read once and written once."""
    n = 100000
    rng = np.random.RandomState(5)
    y, x = rng.randint(0, 247, n), rng.randint(0, 1015, n)
    place.array("a.zarr", np.arange(256 * 1024, dtype="uint32").reshape(256, 1024) % 1000, (256, 1024))
    rois = place.table("r.csv", y, x, np.full(n, 3), np.full(n, 10))
    answer = place.apply("a.zarr", "b.zarr", "--rois", rois, "--policy", policy, "--op", "add:value=1")
    assert (answer["calls"], answer["units_read"], answer["units_written"]) == (n, 1, 1), answer
    times = np.zeros((256, 1024), "uint32")
    for i, k in itertools.product(range(3), range(10)):
        np.add.at(times, (y + i, x + k), 1)
    values = place.read("a.zarr") + 1
    np.testing.assert_array_equal(place.read("b.zarr"), values * times if policy == "sum" else np.where(times > 0, values, 0))


ROI_NUMBERS = "def f(block, call):\n    return np.full(call.region, call.roi + 1, 'uint8')\n"


@pytest.mark.parametrize("boxes", [[(2, 6), (6, 10)], [(2, 7), (5, 10)], [(5, 10), (2, 7)]])
def test_26_the_same_winner_in_each_chunk(place, boxes):
    """26: regions over the borders of chunks, each of one value, by two processes: where they overlap the list decides, in
    every chunk alike."""
    want = np.zeros(12, "uint8")
    for i, (a, b) in enumerate(boxes):
        want[a:b] = i + 1
    place.array("a.zarr", np.zeros(12, "uint8"), (4,))
    rois = place.boxes("r.json", [(b,) for b in boxes])
    ask = ["--rois", rois, "--policy", "last", "--worker", place.worker(ROI_NUMBERS)]
    for turn in range(50 if SOAK else 3):
        place.run("plan", "a.zarr", f"b{turn}.zarr", "--out", "p", "--parts", 2, *ask)
        both = [place.start("run", "p", "--part", f"{i}/2") for i in range(2)]
        for process in both:
            _, err = process.communicate(timeout=LIMIT)
            assert process.returncode == 0, err
        np.testing.assert_array_equal(place.read(f"b{turn}.zarr"), want)


def test_44_millions_of_pairs(place):
    """44 (and 7): each of nine million pairs that overlap is found, whatever the order of the list; refused where it has to be."""
    side = 1000 if SOAK else 300
    at = np.random.RandomState(3).permutation(side * side)
    y, x = at // side * 10, at % side * 10
    h, w = np.full(at.size, 25), np.full(at.size, 20)
    # 2 rows below and above, 1 column to either side.
    pairs = sum((side - i) * (side - abs(k)) for i, k in itertools.product((0, 1, 2), (-1, 0, 1)) if (i, k) > (0, 0))
    place.run("create", "a.zarr", "--shape", f"{side * 10 + 20},{side * 10 + 20}", "--dtype", "u8", "--chunk", "500,500", "--dims", "y,x")
    rois = place.table("r.csv", y, x, h, w)
    answer = place.run("plan", "a.zarr", "b.zarr", "--out", "p", "--rois", rois, "--op", "copy", "--memory", "1GiB", status=2)
    assert f"{pairs} pairs" in answer["error"]["message"], (pairs, answer)


def test_7_pairs_are_counted(place):
    """7: 71,000 boxes of many sizes: policy error tells how many pairs overlap, policy last has planned for each."""
    rng = np.random.RandomState(11)
    n = 71000
    y, x, h, w = rng.randint(0, 3200, n), rng.randint(0, 3200, n), rng.randint(1, 43, n), rng.randint(1, 43, n)
    pairs = overlapping(y, x, h, w)
    assert 400000 < pairs < 450000, pairs
    place.run("create", "a.zarr", "--shape", "3300,3300", "--dtype", "u8", "--chunk", "500,500", "--dims", "y,x")
    rois = place.table("r.csv", y, x, h, w)
    answer = place.run("plan", "a.zarr", "b.zarr", "--out", "p", "--rois", rois, "--op", "copy", status=2)
    assert f"{pairs} pairs" in answer["error"]["message"], (pairs, answer)
    place.run("plan", "a.zarr", "b.zarr", "--out", "p", "--rois", rois, "--op", "copy", "--policy", "last", "--parts", 1)
    counts = Plan(place / "p").counts
    assert (counts["pairs"], counts["pairs_capped"], counts["regions"]) == (pairs, 0, n), counts


@pytest.mark.parametrize("side", [265, 837] if SOAK else [265])
def test_20_each_unit_once(place, side):
    """20: a plan of very many units has each of them once, and each is one part's."""
    place.run("create", "a.zarr", "--shape", f"{side * 4},{side * 4}", "--dtype", "u8", "--chunk", "4,4", "--dims", "y,x")
    place.run("plan", "a.zarr", "b.zarr", "--out", "p", "--parts", 7, "--rois", "grid:32/24", "--policy", "max", "--op", "copy",
              "--memory", "1GiB")
    plan = Plan(place / "p")
    units = plan.section("UNIT", Plan.UNIT)
    np.testing.assert_array_equal(np.sort(units["place"]), np.arange(side * side))
    firsts = plan.section("PART_UNIT", "<u4")
    assert len(firsts) == 8 and firsts[0] == 0 and firsts[-1] == side * side
    np.testing.assert_array_equal(units["part"], np.repeat(np.arange(7), np.diff(firsts)))


# --- Files: what is touched, and what is not --------------------------------------------------------


def test_22_an_array_that_grew(place):
    """22: t is extended by no multiple of the chunk; the new part is written by several processes: old tail and new head stay."""
    old = np.random.RandomState(1).randint(1, 60000, (10, 40, 50)).astype("uint16")
    out = place.array("b.zarr", old, (4, 16, 16))
    out.resize((17, 40, 50))
    place.array("a.zarr", np.concatenate([old + 1, np.full((7, 40, 50), 300, "uint16")]), (4, 16, 16))
    rois = place.boxes("r.json", [((t, t + 1), (k, k + 20), (0, 50)) for t in range(10, 17) for k in (0, 20)], "zyx")
    place.run("plan", "a.zarr", "b.zarr", "--out", "p", "--parts", 3, "--rois", rois, "--op", "add:value=5")
    for process in [place.start("run", "p", "--part", f"{i}/3") for i in range(3)]:
        _, err = process.communicate(timeout=LIMIT)
        assert process.returncode == 0, err
    got = place.read("b.zarr")
    np.testing.assert_array_equal(got[:10], old)
    assert (got[10:] == 305).all()


def traced(place, *args):
    """What is opened and renamed below b.zarr by a run, by strace."""
    assert shutil.which("strace"), "strace is not installed"
    done = subprocess.run(["strace", "-f", "-qq", "-y", "-e", "trace=open,openat,rename,renameat,renameat2", "-o", "trace", COMMAND,
                           *map(str, args), "--json"], cwd=place.folder, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = [line for line in (place / "trace").read_text().splitlines() if "= -1" not in line]
    reads = [line for line in lines if "open" in line and "b.zarr" in line and '"c/' in line and "O_DIRECTORY" not in line]
    renames = [line for line in lines if "rename" in line and '"c/' in line]
    return json.loads(done.stdout), reads, renames


@pytest.mark.parametrize("there", [False, True])
@pytest.mark.parametrize("shape", [(64, 64), (50, 61)])
def test_25_34_covered_shards_are_not_read(place, there, shape):
    """25, 34: regions that cover shards together, at the array's edge all that lies in it: no shard is opened, each is written
    once; one that another tool has torn is replaced."""
    values = np.random.RandomState(2).randint(0, 60000, shape).astype("uint16")
    place.array("a.zarr", values, (16, 16))
    out = place.array("b.zarr", np.full(shape, 7, "uint16"), (8, 8), (32, 32))
    shards = sorted((place / "b.zarr/c").glob("*/*"))
    assert len(shards) == 4
    for shard in shards:
        if there:
            shard.write_bytes(shard.read_bytes()[:-30])
        else:
            shard.unlink()
    answer, reads, renames = traced(place, "apply", "a.zarr", "b.zarr", "--rois", "grid:20", "--op", "add:value=1", "--jobs", 2)
    assert not reads, reads
    assert len(renames) == 4 and len(set(renames)) == 4, renames
    assert answer["units_written"] == 4, answer
    np.testing.assert_array_equal(out[...], values + 1)


def test_34_a_torn_shard_that_is_not_covered(place):
    """34: where a pixel within the array is not written a torn shard is an error that names it, and it stays as it is."""
    place.array("a.zarr", np.ones((50, 61), "uint16"), (16, 16))
    place.array("b.zarr", np.full((50, 61), 7, "uint16"), (8, 8), (32, 32))
    torn = place / "b.zarr/c/1/1"
    torn.write_bytes(torn.read_bytes()[:-30])
    before = torn.read_bytes()
    rois = place.boxes("r.json", [((32, 50), (32, 60))])
    answer = place.apply("a.zarr", "b.zarr", "--rois", rois, "--op", "copy", status=1)
    assert "c/1/1" in answer["error"]["message"] + str(answer["error"]["key"]), answer
    assert torn.read_bytes() == before


def test_35_gaps_in_a_shard(place):
    """35: t = 0, 3, 4 of a shard of eight: separate boxes, what lies between stays byte for byte, and the memory is less than
    two shards."""
    side = 1024
    rng = np.random.RandomState(4)
    place.array("a.zarr", rng.randint(0, 60000, (8, side, side)).astype("uint16"), (1, 256, 256))
    place.array("b.zarr", rng.randint(0, 60000, (8, side, side)).astype("uint16"), (1, 256, 256), (8, side, side))
    old, per = inner_chunks(place / "b.zarr/c/0/0/0", 128), 16
    want = place.read("b.zarr")
    rois = place.boxes("r.json", [((t, t + 1), (0, side), (0, side)) for t in (0, 3, 4)], "zyx")
    answer = place.apply("a.zarr", "b.zarr", "--rois", rois, "--op", "add:value=1", "--jobs", 1, "--memory", "256MiB")
    assert (answer["calls"], answer["units_written"]) == (3, 1), answer
    assert answer["memory_bytes_peak"] < 2 * 8 * side * side * 2, answer
    want[[0, 3, 4]] = place.read("a.zarr")[[0, 3, 4]] + 1
    np.testing.assert_array_equal(place.read("b.zarr"), want)
    new = inner_chunks(place / "b.zarr/c/0/0/0", 128)
    for t in (1, 2, 5, 6, 7):
        assert new[t * per:(t + 1) * per] == old[t * per:(t + 1) * per], t


def test_46_47_chunks_that_are_not_there(place):
    """46, 47: parts of chunks that do not exist, after others that do, by one worker: background is the fill value."""
    place.array("a.zarr", np.arange(64 * 64, dtype="uint16").reshape(64, 64), (16, 16))
    out = place.array("b.zarr", np.full((64, 64), 9, "uint16"), (16, 16), fill_value=77)
    want = np.full((64, 64), 77, "uint16")
    for i, k in itertools.product(range(4), range(4)):
        if (i + k) % 2:
            (place / f"b.zarr/c/{i}/{k}").unlink()
        else:
            want[16 * i:16 * i + 16, 16 * k:16 * k + 16] = 9
    boxes = [((16 * i + 3, 16 * i + 11), (16 * k + 5, 16 * k + 30 if k < 3 else 64)) for i in range(4) for k in range(4)]
    for box in boxes:
        at = tuple(slice(*b) for b in box)
        want[at] = place.read("a.zarr")[at] + 2
    place.apply("a.zarr", "b.zarr", "--rois", place.boxes("r.json", boxes), "--policy", "last", "--op", "add:value=2", "--threads", 1,
                "--jobs", 1)
    np.testing.assert_array_equal(out[...], want)


def test_49_untouched_inner_chunks(place):
    """49: 24^3 into a compressed shard of 128^3: all other inner chunks keep their encoded bytes."""
    rng = np.random.RandomState(8)
    values = rng.randint(0, 9, (128, 128, 128)).astype("uint16")
    place.array("b.zarr", values, (32, 32, 32), (128, 128, 128), compressors=zarr.codecs.ZstdCodec(level=9))
    old = inner_chunks(place / "b.zarr/c/0/0/0", 64)
    rois = place.boxes("r.json", [((20, 44), (36, 60), (70, 94))], "zyx")
    place.apply("b.zarr", "--in-place", "--rois", rois, "--op", "add:value=100")
    new = inner_chunks(place / "b.zarr/c/0/0/0", 64)
    changed = [i for i in range(64) if new[i] != old[i]]
    assert changed == [0 * 16 + 1 * 4 + 2, 1 * 16 + 1 * 4 + 2], changed
    values[20:44, 36:60, 70:94] += 100
    np.testing.assert_array_equal(place.read("b.zarr"), values)


def test_38_a_finished_store_elsewhere(place):
    """38: a finished store is copied away and the same is run there: nothing is skipped, in place it is done once more."""
    place.array("a.zarr", np.arange(40 * 40, dtype="uint16").reshape(40, 40), (16, 16))
    ask = ["--rois", "grid:16", "--op", "add:value=3"]
    for name in ("first", "second"):
        answer = place.apply("a.zarr", "--in-place", *ask)
        assert (answer["calls"], answer["resumed"]) == (9, False), answer
        answer = place.apply("a.zarr", "b.zarr", *ask)
        assert (answer["calls"], answer["resumed"]) == (9, False), answer
        shutil.copytree(place.folder, place.folder.parent / name)
        place = Place(place.folder.parent / name)
    np.testing.assert_array_equal(place.read("a.zarr"), np.arange(40 * 40).reshape(40, 40) + 6)
    np.testing.assert_array_equal(place.read("b.zarr"), np.arange(40 * 40).reshape(40, 40) + 9)


# --- Images, tables, labels -------------------------------------------------------------------------


def label_image(place, values, chunks=(32, 32)):
    """im.zarr with an image and labels/cells."""
    place.run("record", "im.zarr", "--from", f"test:{values.shape[1]}x{values.shape[0]}:u8", "--frames", 1, "--scale", "0.5", "--unit",
              "micrometer")
    root = zarr.open_group(str(place / "im.zarr"))
    a = root.create_group("labels").create_group("cells").create_array("0", shape=values.shape, dtype=values.dtype, chunks=chunks,
                                                                       dimension_names=["y", "x"])
    a[...] = values
    root["labels"].attrs["ome"] = {"version": "0.5", "labels": ["cells"]}
    root["labels/cells"].attrs["ome"] = {"version": "0.5", "multiscales": [{
        "axes": [{"name": n, "type": "space", "unit": "micrometer"} for n in "yx"],
        "datasets": [{"path": "0", "coordinateTransformations": [{"type": "scale", "scale": [0.5, 0.5]}]}]}], "image-label": {}}


def bounding_boxes(values):
    return {int(v): [[int(i.min()), int(i.max()) + 1] for i in np.nonzero(values == v)] for v in np.unique(values) if v}


def test_11_boxes_of_labels(place):
    """11: labels found per field of view, then read as regions: boxes lie in the whole image, and the key is the label."""
    image = np.zeros((90, 110), "uint8")
    rng = np.random.RandomState(6)
    for y, x in rng.randint(2, 80, (40, 2)):
        image[y:y + rng.randint(1, 9), x:x + rng.randint(1, 9)] = 200
    place.array("seg.zarr", image, (32, 32))
    place.apply("seg.zarr", "lab.zarr", "--rois", "grid:30", "--policy", "labels", "--op", "label")
    labels = place.read("lab.zarr") * 7  # numbers are not places in a list
    label_image(place, labels)
    want = bounding_boxes(labels)
    assert len(want) > 10
    got = place.run("rois", "labels:labels/cells", "--image", "im.zarr", "--pixels")["regions"]
    assert {r["label"]: [[int(v) for v in b] for b in r["box"][-2:]] for r in got} == want
    place.run("rois", "labels:labels/cells", "--image", "im.zarr", "--to", "table:cells")
    got = place.run("rois", "table:cells", "--image", "im.zarr", "--pixels")["regions"]
    assert {r["label"]: [[int(v) for v in b] for b in r["box"][-2:]] for r in got} == want


def test_10_each_object_in_one_row(place):
    """10: objects whose boxes overlap: each is in one row of the measurements, of the whole of it."""
    labels = np.zeros((60, 60), "uint32")
    labels[5:50, 5:9] = 3
    labels[46:50, 5:50] = 3  # an L, and in its arm
    labels[10:20, 20:30] = 8
    labels[30:45, 12:40] = 11
    label_image(place, labels)
    place.apply("im.zarr", "--rois", "grid:25", "--op", "measure:labels=labels/cells", "--table", "m.csv")
    rows = [line.split(",") for line in (place / "m.csv").read_text().splitlines()]
    at = {name: rows[0].index(name) for name in ("label", "area")}
    got = [(int(r[at["label"]]), int(float(r[at["area"]]))) for r in rows[1:]]
    assert got == [(int(v), int((labels == v).sum())) for v in (3, 8, 11)]


def test_13_a_reader_beside_writers(place):
    """13: an image is changed in place a hundred times, and its tables written anew, while others read: whoever looks finds the
    list of tables with all that is in it, and each table whole."""
    label_image(place, np.ones((64, 64), "uint32"))
    boxes = place.boxes("r.json", [((0, 32), (0, 64)), ((32, 64), (0, 64))])
    for name in ("one", "two"):
        place.run("rois", boxes, "--image", "im.zarr", "--to", f"table:{name}")
    wrong, looks, ended = [], [0], threading.Event()

    def look():
        while not ended.is_set():
            try:
                root = zarr.open_group(str(place / "im.zarr"), mode="r")
                names = root["tables"].attrs["tables"]
                assert names == ["one", "two"], names
                for name in names:
                    assert root[f"tables/{name}/X"].shape == (2, 6)
                    assert root[f"tables/{name}/X"][...].any()
                assert root["0"][...].shape == (1, 64, 64)
                looks[0] += 1
            except Exception as error:  # noqa: BLE001: any of them is a finding
                wrong.append(repr(error))
                return

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    for turn in range(100 if SOAK else 20):
        place.apply("im.zarr/0", "--in-place", "--rois", "table:one", "--op", "add:value=1")
        place.run("rois", boxes, "--image", "im.zarr", "--to", "table:two", "--overwrite")
    until = time.monotonic() + LIMIT
    while looks[0] < 20 and not wrong and time.monotonic() < until:
        time.sleep(0.01)
    ended.set()
    for thread in threads:
        thread.join()
    assert not wrong, wrong
    assert looks[0] >= 20


# --- Processes --------------------------------------------------------------------------------------


def test_28_a_parent_with_threads(place):
    """28: Python functions in workers, started from the threads of a busy Python process: none hangs."""
    values = np.arange(64 * 64, dtype="uint16").reshape(64, 64)
    place.array("a.zarr", values, (16, 16))
    worker = place.worker("def f(block, call):\n    return block[call.inner] + np.uint16(2)\n")
    ended, failed = threading.Event(), []

    def busy():
        while not ended.is_set():
            sum(range(1000))

    def go(number):
        try:
            place.apply("a.zarr", f"b{number}.zarr", "--rois", "grid:32", "--worker", worker, "--jobs", 2)
            np.testing.assert_array_equal(place.read(f"b{number}.zarr"), values + 2)
        except Exception as error:  # noqa: BLE001: told below
            failed.append(repr(error))

    threads = [threading.Thread(target=busy) for _ in range(4)]
    runs = [threading.Thread(target=go, args=(i,)) for i in range(4)]
    for thread in threads + runs:
        thread.start()
    for thread in runs:
        thread.join(LIMIT)
    ended.set()
    for thread in threads:
        thread.join()
    assert not failed and not any(thread.is_alive() for thread in runs), failed


def test_29_opened_while_it_is_made(place):
    """29: sixteen processes open an array while one makes it: there is none yet, or it is the one that was asked for."""
    for turn in range(50 if SOAK else 3):
        name = f"a{turn}.zarr/deep/0"
        code = ("import json, subprocess, sys, time\n"
                f"until = time.monotonic() + {LIMIT}\n"
                "while time.monotonic() < until:\n"
                f"    done = subprocess.run([{COMMAND!r}, 'info', {name!r}, '--json'], capture_output=True, text=True)\n"
                "    answer = json.loads(done.stdout)\n"
                "    if done.returncode == 0:\n"
                "        sys.exit(0 if answer['shape'] == [64, 512, 512] else 3)\n"
                "    if answer['error']['code'] != 'not found':\n"
                "        sys.exit(str(answer))\n"
                "sys.exit(4)\n")
        readers = [subprocess.Popen([sys.executable, "-S", "-c", code], cwd=place.folder, stderr=subprocess.PIPE, text=True)
                   for _ in range(16)]
        place.run("create", name, "--shape", "64,512,512", "--dtype", "u16", "--chunk", "1,512,512")
        for process in readers:
            _, err = process.communicate(timeout=LIMIT)
            assert process.returncode == 0, (process.returncode, err)


def run_parts(place, parts, *skip):
    for i in range(parts):
        if i not in skip:
            place.run("run", "p", "--part", f"{i}/{parts}")


def test_50_parts_with_nothing_to_do(place):
    """50: parts with many regions, with few, with none: each ends, and so does the job."""
    place.array("a.zarr", np.zeros((64, 64), "uint8"), (16, 16))
    rois = place.boxes("r.json", [((0, 5), (0, 5)), ((1, 6), (1, 6)), ((60, 64), (60, 64))])
    place.run("plan", "a.zarr", "b.zarr", "--out", "p", "--parts", 9, "--rois", rois, "--policy", "last", "--op", "add:value=1")
    issued = np.diff(Plan(place / "p").section("PART_ISSUED", "<u4"))
    assert issued.sum() == 3 and (issued == 0).any() and issued.max() > 1, issued
    run_parts(place, 9)
    assert place.run("status", "p")["finished"]
    want = np.zeros((64, 64), "uint8")
    for a, b in ((0, 5), (1, 6), (60, 64)):
        want[a:b, a:b] = 1
    np.testing.assert_array_equal(place.read("b.zarr"), want)


def test_52_three_of_many_parts_are_missing(place):
    """52: two hundred parts of which three were killed: `status` lists these, `finish` says "try again"; when they are run it ends."""
    parts, dead = (200, [17, 100, 199]) if SOAK else (10, [3, 5, 9])
    place.array("a.zarr", np.arange(160 * 80, dtype="uint16").reshape(160, 80), (8, 8))
    place.run("plan", "a.zarr", "b.zarr", "--out", "p", "--parts", parts, "--rois", "grid:12/8", "--policy", "max", "--op", "add:value=1")
    run_parts(place, parts, *dead)
    for i in dead:
        process = place.start("run", "p", "--part", f"{i}/{parts}", env=dict(os.environ, TG_CRASH_AT="3"))
        process.communicate(timeout=LIMIT)
        assert process.returncode == -signal.SIGKILL
    assert place.run("status", "p")["missing"] == dead
    assert place.run("finish", "p", status=75)["missing"] == dead
    for i in dead:
        place.run("run", "p", "--part", f"{i}/{parts}")
    assert place.run("finish", "p")["was_done"]
    np.testing.assert_array_equal(place.read("b.zarr"), place.read("a.zarr") + 1)


@pytest.mark.parametrize("error", ["ENOLCK", "ENOSYS"])
def test_53_a_file_system_without_locks(place, error):
    """53: where every lock of the kernel is refused parts work: they need none. Where hard links, which own a run, are refused as
    if there were no room for locks, a run says so at once and has done nothing; where there are none it does without."""
    values = np.arange(40 * 40, dtype="uint16").reshape(40, 40)
    place.array("a.zarr", values, (16, 16))

    def injected(calls, *args):
        calls = f"trace={calls}", f"inject={calls}:error={error}"
        return subprocess.run(["strace", "-f", "-qq", "-o", "/dev/null", "-e", calls[0], "-e", calls[1], COMMAND, *args],
                              cwd=place.folder, capture_output=True, text=True, timeout=LIMIT, stdin=subprocess.DEVNULL)

    place.run("plan", "a.zarr", "b.zarr", "--out", "p", "--parts", 2, "--rois", "grid:20/10", "--policy", "max", "--op", "add:value=1")
    for i in range(2):
        done = injected("fcntl,flock", "run", "p", "--part", f"{i}/2")
        assert done.returncode == 0, done.stderr
    assert place.run("status", "p")["finished"]
    np.testing.assert_array_equal(place.read("b.zarr"), values + 1)
    done = injected("linkat,link", "apply", "a.zarr", "c.zarr", "--rois", "grid:20", "--op", "add:value=1")
    if error == "ENOSYS":
        assert done.returncode == 0, done.stderr
        np.testing.assert_array_equal(place.read("c.zarr"), values + 1)
    else:
        assert done.returncode in (1, 2) and "lock" in done.stderr, done
        assert not (place / "c.zarr/c").exists()


def test_56_writes_that_were_dropped(place):
    """56: units that a part has written are not there when all is merged: `finish` names them, exit 1, and nothing is called done."""
    place.array("a.zarr", np.arange(64 * 64, dtype="uint16").reshape(64, 64), (16, 16))
    place.run("plan", "a.zarr", "b.zarr", "--out", "p", "--parts", 3, "--rois", "grid:16", "--op", "add:value=1")
    run_parts(place, 3, 2)
    gone = sorted((place / "b.zarr/c").glob("*/*"))[:2]
    kept = [path.read_bytes() for path in gone]
    gone[0].unlink()
    gone[1].write_bytes(kept[1][:-1])
    answer = place.run("run", "p", "--part", "2/3", status=1)
    for path in gone:
        assert str(path.relative_to(place / "b.zarr")) in answer["error"]["message"], answer
    answer = place.run("finish", "p", status=1)
    assert not place.run("status", "p")["finished"]
    for path, data in zip(gone, kept):
        path.write_bytes(data)
    assert place.run("finish", "p")["merged"]
    np.testing.assert_array_equal(place.read("b.zarr"), place.read("a.zarr") + 1)
