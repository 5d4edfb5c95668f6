"""Plates that `tidegate record --plate` writes, whole: read by zarr-python and by tensorstore, value for value, judged
by ome-zarr-models and by `tidegate validate`, with pyramids and the frame table, killed, recovered and appended to."""
import itertools
import json
import os
import subprocess

import numpy as np
import pytest

zarr = pytest.importorskip("zarr", reason="no environment zarr3")
models = pytest.importorskip("ome_zarr_models", reason="no environment zarr3")
ts = pytest.importorskip("tensorstore", reason="no environment zarr3")

from peers import BUILD  # noqa: E402
from test_ngff_interop import halve, test_frame as frame_of  # noqa: E402

COMMAND = os.path.join(BUILD, "tidegate")
pytestmark = pytest.mark.filterwarnings("ignore")
HEIGHT, WIDTH = 19, 26
WELLS, FIELDS, FRAMES = ["A/1", "C/2", "B/1"], 2, 5
PLATE = {"name": "screen 7", "rows": ["A", "B", "C"], "columns": 2, "wells": WELLS, "fields": FIELDS, "frames": FRAMES,
         "acquisition": "first light"}
ORDERS = list(itertools.permutations(["well", "field", "frame"]))
N = len(WELLS) * FIELDS * FRAMES


def run(*arguments, status=0):
    done = subprocess.run([COMMAND, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == status, done.stdout + done.stderr
    return json.loads(done.stdout) if "--json" in arguments else done


def record(out, plate, *options, frames=N, dtype="uint16", status=0):
    file = out.parent / "plate.json"
    file.write_text(json.dumps(plate))
    return run("record", out, "--from", f"test:{WIDTH}x{HEIGHT}:{dtype}", "--plate", file, "--frames", frames, "--json",
               *options, status=status)


def places(plate, frames=None):
    """(well, field, frame) of each frame that arrives: the loops of `order`, the slowest first."""
    order = plate.get("order", ["well", "field", "frame"])
    extents = {"well": len(plate["wells"]), "field": plate["fields"], "frame": plate["frames"] or 10**6}
    loops = itertools.product(*(range(extents[x]) for x in order))
    found = [tuple(at[order.index(x)] for x in ("well", "field", "frame")) for at in itertools.islice(loops, frames)]
    return found


def open_root(path):
    store = zarr.storage.ZipStore(str(path), mode="r") if str(path).endswith(".zip") else str(path)
    return zarr.open_group(store, mode="r")


def by_tensorstore(path, array, driver="zarr3"):
    kvstore = {"driver": "file", "path": str(path / array)}
    if str(path).endswith(".zip"):
        kvstore = {"driver": "zip", "base": {"driver": "file", "path": str(path)}, "path": array + "/"}
    return ts.open({"driver": driver, "kvstore": kvstore}).result().read().result()


def check_pixels(path, plate, frames=N, dtype="uint16", levels=0, method="mean", driver="zarr3", first=0):
    """Every field has the frames that came for it, in order, in all levels; nothing else is there."""
    root = open_root(path)
    for w, f in itertools.product(range(len(plate["wells"])), range(plate["fields"])):
        mine = [first + n for n, (a, b, _) in enumerate(places(plate, frames)) if (a, b) == (w, f)]
        want = [frame_of(0, n, HEIGHT, WIDTH, dtype) for n in mine]
        for level in range(levels + 1):
            array = f"{plate['wells'][w]}/{f}/{level}"
            got = root[array][...]
            assert got.shape[0] == len(mine)
            if mine:
                np.testing.assert_array_equal(got, np.stack(want))
            np.testing.assert_array_equal(by_tensorstore(path, array, driver), got)
            want = [halve(plane, method) for plane in want]


def check_table(path, plate, frames=N):
    table = open_root(path)["frames"]
    want = np.array(places(plate, frames))
    np.testing.assert_array_equal(table["sequence"][:], np.arange(frames))
    for column, name in enumerate(["well", "field", "index"]):
        np.testing.assert_array_equal(table[name][:], want[:, column])
    assert table["well"].dtype == table["field"].dtype == "int32"


def check_models(path, plate, version="v05"):
    """Every member that the specification has, by a reader of others; and by our own judge."""
    root = open_root(path)
    model = models.open_ome_zarr(root)
    assert f".{version}.hcs" in type(model).__module__
    ome = model.attributes.ome if version == "v05" else model.attributes
    assert ome.plate.name == plate["name"]
    assert [r.name for r in ome.plate.rows] == plate["rows"]
    assert [c.name for c in ome.plate.columns] == [str(i + 1) for i in range(plate["columns"])]
    assert [w.path for w in ome.plate.wells] == plate["wells"]
    for well in ome.plate.wells:
        row, column = well.path.split("/")
        assert (ome.plate.rows[well.rowIndex].name, ome.plate.columns[well.columnIndex].name) == (row, column)
    assert ome.plate.field_count == plate["fields"]
    [acquisition] = ome.plate.acquisitions
    assert (acquisition.id, acquisition.name, acquisition.maximumfieldcount) == (0, plate["acquisition"], plate["fields"])
    for path_of_well in plate["wells"]:
        well = models.open_ome_zarr(root[path_of_well])
        assert f".{version}.well" in type(well).__module__
        images = (well.attributes.ome if version == "v05" else well.attributes).well.images
        assert [(i.path, i.acquisition) for i in images] == [(str(f), 0) for f in range(plate["fields"])]
        for f in range(plate["fields"]):
            image = models.open_ome_zarr(root[f"{path_of_well}/{f}"])
            assert f".{version}.image" in type(image).__module__
            scale = (image.attributes.ome if version == "v05" else image.attributes).multiscales[0]
            assert scale.name == f"{path_of_well}/{f}"
    assert run("validate", path, "--json") == {"valid": True, "message": "", "kind": "plate",
                                               "version": "0.5" if version == "v05" else "0.4"}


@pytest.mark.parametrize("order", ORDERS, ids=lambda o: "-".join(o))
def test_every_order(tmp_path, order):
    plate, path = PLATE | {"order": order}, tmp_path / "x.zarr"
    said = record(path, plate, "--chunk-frames", "1")
    assert (said["published"], said["shape"]) == (N, [FRAMES, HEIGHT, WIDTH])
    check_pixels(path, plate)
    check_table(path, plate)
    check_models(path, plate)
    assert run("verify", path, "--json")["bad"] == 0


LAYOUTS = {
    "default": [],
    "shards of 2 frames": ["--chunk-frames", "1", "--shard", "2frames"],
    "shards of 4 frames in chunks of 2": ["--chunk-frames", "2", "--shard", "4frames"],
    "no shards": ["--chunk-frames", "1", "--shard", "none"],
    "3 frames a chunk, no shards": ["--chunk-frames", "3", "--shard", "none"],
    "live": ["--live", "--chunk-frames", "1"],
    "zstd, tiles": ["--codec", "zstd:1", "--tile", "16,16", "--chunk-frames", "1"],
    "no checksum": ["--checksum", "off"],
}


@pytest.mark.parametrize("frames", [N, 13])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout(tmp_path, layout, frames):
    """Field by field, to the end and to the middle of one."""
    path = tmp_path / "x.zarr"
    record(path, PLATE, *LAYOUTS[layout], frames=frames)
    check_pixels(path, PLATE, frames)
    check_table(path, PLATE, frames)


@pytest.mark.parametrize("method", ["mean", "min", "max", "decimate"])
@pytest.mark.parametrize("order", [ORDERS[0], ORDERS[4]], ids=["fields", "rounds"])
def test_pyramid(tmp_path, method, order):
    plate, path = PLATE | {"order": order}, tmp_path / "x.zarr"
    record(path, plate, "--pyramid", f"2:{method}", "--scale", "0.5,0.25", "--unit", "micrometer", "--channel", "GFP")
    check_pixels(path, plate, levels=2, method=method)
    check_models(path, plate)
    image = models.open_ome_zarr(open_root(path)["B/1/1"]).attributes.ome
    assert [d.path for d in image.multiscales[0].datasets] == ["0", "1", "2"]
    assert list(image.multiscales[0].datasets[1].coordinateTransformations[0].scale) == [1, 1, 0.5]
    assert [a.unit for a in image.multiscales[0].axes][1:] == ["micrometer"] * 2


@pytest.mark.parametrize("order", [ORDERS[0], ORDERS[5]], ids=["fields", "rounds"])
def test_zarr2(tmp_path, order):
    plate, path = PLATE | {"order": order}, tmp_path / "x.zarr"
    record(path, plate, "--format", "zarr2", "--pyramid", "1:max")
    check_pixels(path, plate, levels=1, method="max", driver="zarr")
    check_table(path, plate)
    check_models(path, plate, "v04")


@pytest.mark.parametrize("order", [ORDERS[0], ORDERS[5]], ids=["fields", "rounds"])
@pytest.mark.parametrize("fmt", ["zarr3", "zarr2"])
def test_zip(tmp_path, fmt, order):
    plate, path = PLATE | {"order": order}, tmp_path / "x.zip"
    record(path, plate, "--format", fmt, frames=N - 4)
    check_pixels(path, plate, N - 4, driver="zarr3" if fmt == "zarr3" else "zarr")
    check_table(path, plate, N - 4)
    check_models(path, plate, "v05" if fmt == "zarr3" else "v04")


def test_axes_of_a_field(tmp_path):
    """Channel and height within each field, in another order of arrival than that of storage."""
    plate, path = PLATE | {"frames": 12}, tmp_path / "x.zarr"
    options = ["--dims", "t=2,c=2,z=3", "--acquire", "t,z,c", "--channel", "a", "--channel", "b"]
    said = record(path, plate, *options, frames=72)
    assert said["shape"] == [2, 2, 3, HEIGHT, WIDTH]
    root = open_root(path)
    for n, ((w, f, _), (t, z, c)) in enumerate(zip(places(plate, 72), itertools.cycle(
            itertools.product(range(2), range(3), range(2))))):
        np.testing.assert_array_equal(root[f"{WELLS[w]}/{f}/0"][t, c, z], frame_of(0, n, HEIGHT, WIDTH, "uint16"))
    check_models(path, plate)
    table = root["frames"]
    np.testing.assert_array_equal(table["index"][:12], [0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11])


def test_rounds_without_end(tmp_path):
    """Frames first in the order: as many rounds as come, and the last one is not whole."""
    plate = PLATE | {"frames": 0, "order": ["frame", "well", "field"]}
    path = tmp_path / "x.zarr"
    said = record(path, plate, frames=20)
    assert said["shape"][0] == 4
    check_pixels(path, plate, 20)
    check_table(path, plate, 20)


def test_below_a_group(tmp_path):
    """A plate that is named lies in a group of that name."""
    path = tmp_path / "x.zarr"
    (tmp_path / "p.json").write_text(json.dumps(PLATE))
    run("record", path, "--from", f"run/p1=test:{WIDTH}x{HEIGHT}:uint16", "--plate", tmp_path / "p.json", "--frames", N,
        "--json", "--table", tmp_path / "t.csv")
    check_pixels(path / "run" / "p1", PLATE)
    check_models(path / "run" / "p1", PLATE)
    lines = [line.split(",") for line in (tmp_path / "t.csv").read_text().split()]
    at = [lines[0].index(name) for name in ("well", "field", "index")]
    assert [tuple(int(line[i]) for i in at) for line in lines[1:]] == places(PLATE)


@pytest.mark.parametrize("layout", ["default", "shards of 4 frames in chunks of 2", "3 frames a chunk, no shards", "live"])
@pytest.mark.parametrize("cut", [4, 11, 15])
def test_append(tmp_path, layout, cut):
    """In the middle of a chunk, of a field, at the end of one; sequence numbers start anew, and go on."""
    path = tmp_path / "x.zarr"
    record(path, PLATE, *LAYOUTS[layout], frames=cut)
    record(path, PLATE, *LAYOUTS[layout], "--append", frames=N - cut)
    root = open_root(path)
    for n, (w, f, k) in enumerate(places(PLATE)):
        want = frame_of(0, n if n < cut else n - cut, HEIGHT, WIDTH, "uint16")
        np.testing.assert_array_equal(root[f"{WELLS[w]}/{f}/0"][k], want)
        np.testing.assert_array_equal(by_tensorstore(path, f"{WELLS[w]}/{f}/0")[k], want)
    np.testing.assert_array_equal(np.stack([root["frames"][c][:] for c in ("well", "field", "index")], 1), places(PLATE))
    check_models(path, PLATE)


def test_append_in_a_round(tmp_path):
    plate, path = PLATE | {"frames": 0, "order": ["frame", "field", "well"]}, tmp_path / "x.zarr"
    record(path, plate, frames=10)
    record(path, plate, "--append", frames=9)
    root = open_root(path)
    for n, (w, f, k) in enumerate(places(plate, 19)):
        want = frame_of(0, n if n < 10 else n - 10, HEIGHT, WIDTH, "uint16")
        np.testing.assert_array_equal(root[f"{WELLS[w]}/{f}/0"][k], want)


@pytest.mark.parametrize("change,word", [
    ({"wells": ["A/1", "B/1", "C/2"]}, "another plate"),
    ({"fields": 3}, "another plate"),
    ({"name": "other"}, "another plate"),
    ({"order": ["frame", "well", "field"]}, "order of arrival"),
    ({"frames": 3}, "extent"),
], ids=["wells", "fields", "name", "order", "frames"])
def test_append_of_another_plate_is_refused(tmp_path, change, word):
    path = tmp_path / "x.zarr"
    record(path, PLATE, "--chunk-frames", "1", "--shard", "none", frames=13)
    before = sorted((p, p.read_bytes()) for p in path.rglob("*") if p.is_file())
    said = record(path, PLATE | change, "--chunk-frames", "1", "--shard", "none", "--append", frames=1, status=2)
    assert word in said["error"]["message"]
    assert sorted((p, p.read_bytes()) for p in path.rglob("*") if p.is_file()) == before


def test_plate_and_image_do_not_mix(tmp_path):
    plate, image = tmp_path / "p.zarr", tmp_path / "i.zarr"
    record(plate, PLATE)
    run("record", image, "--from", f"test:{WIDTH}x{HEIGHT}:uint16", "--frames", "3", "--json")
    said = run("record", plate, "--from", f"test:{WIDTH}x{HEIGHT}:uint16", "--frames", "3", "--json", "--append", status=2)
    assert "plate" in said["error"]["message"]
    assert "plate" in record(image, PLATE, "--append", status=2)["error"]["message"]
    check_pixels(plate, PLATE)
    check_table(plate, PLATE)


REFUSED = {
    "row of a path": ({"rows": ["..", "B"]}, "letters and digits"),
    "row with a slash": ({"rows": ["A/B"]}, "letters and digits"),
    "column of a space": ({"columns": ["1", " "]}, "letters and digits"),
    "row with a NUL": ({"rows": ["A\0B"]}, "rows"),
    "row twice": ({"rows": ["A", "A"]}, "twice"),
    "well twice": ({"wells": ["A/1", "A/1"]}, "twice"),
    "well outside": ({"wells": ["../1"]}, "ROW/COLUMN"),
    "well deeper": ({"wells": ["A/1/0"]}, "ROW/COLUMN"),
    "well of no column": ({"wells": ["A"]}, "ROW/COLUMN"),
    "wells no list": ({"wells": "A/1"}, "wells"),
    "no wells": ({"wells": []}, "wells"),
    "no fields": ({"fields": 0}, "fields"),
    "fields below none": ({"fields": -1}, "fields"),
    "too many fields": ({"fields": 100000}, "at most 100000"),
    "no end, but not first": ({"frames": 0}, "frames"),
    "order of two": ({"order": ["well", "field"]}, "order"),
    "order of a word": ({"order": ["well", "field", "site"]}, "order"),
    "unknown member": ({"fild": 2}, "fild"),
    "row where the table is": ({"rows": ["frames"], "wells": ["frames/1"]}, "frame table"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_hostile_plates(tmp_path, case):
    change, word = REFUSED[case]
    said = record(tmp_path / "x.zarr", PLATE | change, status=2)
    assert word in said["error"]["message"], said
    assert sorted(p.name for p in tmp_path.iterdir()) == ["plate.json"]


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"rows":1}', '{"columns":1}', "\x00", '{"rows":1,"rows":1}', "9" * 400])
def test_what_is_no_plate(tmp_path, text):
    (tmp_path / "p.json").write_text(text)
    run("record", tmp_path / "x.zarr", "--from", "test:8x8:uint8", "--frames", "1", "--plate", tmp_path / "p.json", "--json",
        status=2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["p.json"]


OPTIONS = {
    "two sources": (["--from", "b=test:8x8:uint8"], "one source"),
    "no OME": (["--ome", "none"], "none"),
    "frame axis last": (["--frame-axis", "last"], "OME-NGFF"),
    "drop-oldest": (["--on-full", "drop-oldest"], "drop-oldest"),
    "compact": (["--on-gap", "compact"], "move"),
    "a column of its own": (["--column", "well:int32"], "well"),
    "four dimensions": (["--dims", "a=1,t=1,c=1,z=5"], "dimensions"),
    "dimensions of other extents": (["--dims", "t=2,z=3"], "frames a field"),
}


@pytest.mark.parametrize("case", OPTIONS)
def test_options_that_do_not_go_with_a_plate(tmp_path, case):
    options, word = OPTIONS[case]
    (tmp_path / "p.json").write_text(json.dumps(PLATE))
    said = run("record", tmp_path / "x.zarr", "--from", "a=test:8x8:uint8", "--plate", tmp_path / "p.json", "--frames", "5",
               "--json", *options, status=2)
    assert word in said["error"]["message"], said
    assert sorted(p.name for p in tmp_path.iterdir()) == ["p.json"]


def test_fields_that_take_turns_have_one_frame_a_chunk(tmp_path):
    said = record(tmp_path / "x.zarr", PLATE | {"order": ORDERS[4]}, "--chunk-frames", "2", status=2)
    assert "take turns" in said["error"]["message"]


def test_a_full_plate_is_the_end(tmp_path):
    """Without --frames the plate says how many there are; with more it is an error, and what fitted stays."""
    (tmp_path / "p.json").write_text(json.dumps(PLATE))
    source = ["--from", f"test:{WIDTH}x{HEIGHT}:uint16", "--plate", tmp_path / "p.json", "--json"]
    assert run("record", tmp_path / "x.zarr", *source)["published"] == N
    check_pixels(tmp_path / "x.zarr", PLATE)
    said = run("record", tmp_path / "y.zarr", *source, "--frames", N + 1, status=1)
    assert "full" in said["error"]["message"]
    check_pixels(tmp_path / "y.zarr", PLATE)
    said = run("record", tmp_path / "x.zarr", *source, "--append")
    assert said["offered"] == 0


def test_dimensions_that_are_full_are_the_end(tmp_path):
    said = run("record", tmp_path / "x.zarr", "--from", "test:16x8:uint8", "--dims", "t=3,c=2", "--json")
    assert (said["published"], said["shape"]) == (6, [3, 2, 8, 16])


def test_skipped_by_the_source(tmp_path):
    """Raw frames that end inside a field: the last one is a row only."""
    frames = b"".join(frame_of(0, n, HEIGHT, WIDTH, "uint16").tobytes() for n in range(8))
    (tmp_path / "p.json").write_text(json.dumps(PLATE))
    (tmp_path / "raw").write_bytes(frames[:-7])
    run("record", tmp_path / "x.zarr", "--from", tmp_path / "raw", "--shape", f"{HEIGHT},{WIDTH}", "--dtype", "uint16",
        "--plate", tmp_path / "p.json", "--json", status=3)
    check_pixels(tmp_path / "x.zarr", PLATE, 7)
    table = open_root(tmp_path / "x.zarr")["frames"]
    assert [int(table[c][7]) for c in ("well", "field", "index", "status")] == [-1, -1, -1, 4]
