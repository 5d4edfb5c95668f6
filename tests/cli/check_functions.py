#!/usr/bin/env python3
"""The user's own functions of `apply`: plug-ins, as they should be and as they should not.

    check_functions.py TIDEGATE UNSHARP.so BAD.so [NAME...]
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import traceback

SECONDS = 120
TESTS = []


def test(function):
    TESTS.append(function)
    return function


class Command:
    def __init__(self, tidegate, good, bad, folder):
        self.tidegate, self.good, self.bad, self.folder = tidegate, good, bad, pathlib.Path(folder)

    def run(self, *args, status=0):
        done = subprocess.run([self.tidegate, *map(str, args)], cwd=self.folder, capture_output=True,
                              timeout=SECONDS, stdin=subprocess.DEVNULL, check=False)
        assert done.returncode == status, f"{args}: exit status {done.returncode}, want {status}\n{done.stderr.decode()}"
        return done.stdout.decode(), done.stderr.decode()

    def json(self, *args, status=0):
        return json.loads(self.run(*args, "--json", status=status)[0])

    def items(self, path, *args):
        return [int(line) for line in self.run("cat", path, *args)[0].split()]


def same(got, want, what):
    assert got == want, f"{what}: got {got!r}, want {want!r}"


def refused(c, words, *args, status=2):
    """Refused before any work, with these words, and nothing left of it."""
    before = sorted(p.name for p in c.folder.iterdir())
    _, err = c.run("apply", "in.zarr", "no.zarr", "--rois", "grid:8", *args, status=status)
    assert words in err, f"{args}: got {err!r}, want {words!r}"
    same(sorted(p.name for p in c.folder.iterdir()), before, f"{args}: files left")


H, W = 20, 30


def make_in(c, name="in.zarr", chunk=(7, 5)):
    """A picture of 20x30 uint16, as Zarr 3; its rows."""
    rows = [[(y * 7919 + x * 104729 + y * x) % 3001 for x in range(W)] for y in range(H)]
    folder = c.folder / name
    folder.mkdir()
    (folder / "zarr.json").write_text(json.dumps({
        "zarr_format": 3, "node_type": "array", "shape": [H, W], "data_type": "uint16", "fill_value": 0,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}}, "dimension_names": ["y", "x"],
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "."}},
        "codecs": [{"name": "bytes", "configuration": {"endian": "little"}}]}))
    for i in range(-(-H // chunk[0])):
        for k in range(-(-W // chunk[1])):
            block = [rows[y][x] if y < H and x < W else 0 for y in range(i * chunk[0], (i + 1) * chunk[0])
                     for x in range(k * chunk[1], (k + 1) * chunk[1])]
            (folder / f"c.{i}.{k}").write_bytes(b"".join(v.to_bytes(2, "little") for v in block))
    return rows


def boxes(c, *rois):
    """A list of regions from boxes (y0, y1, x0, x1)."""
    (c.folder / "r.json").write_text(json.dumps({"axes": ["y", "x"], "unit": "px", "rois": [
        {"name": f"r{i}", "box": [[y0, y1], [x0, x1]]} for i, (y0, y1, x0, x1) in enumerate(rois)]}))
    return "r.json"


# --- Plug-ins -------------------------------------------------------------------------------------


def unsharp(rows, y, x):
    around = [rows[i][k] for i in range(max(y - 1, 0), min(y + 2, H)) for k in range(max(x - 1, 0), min(x + 2, W))]
    return max(rows[y][x] - sum(around) // len(around), 0)


@test
def plugin_sees_its_halo(c):
    rows = make_in(c)
    answer = c.json("apply", "in.zarr", "out.zarr", "--rois", "grid:8", "--plugin", c.good)
    same((answer["calls"], answer["failed"]), (12, 0), "calls")
    same(c.items("out.zarr"), [unsharp(rows, y, x) for y in range(H) for x in range(W)], "items")


@test
def plugin_folds(c):
    rows = make_in(c)
    rois = [(0, 12, 0, 12), (5, 20, 5, 30), (3, 8, 3, 8)]
    c.run("apply", "in.zarr", "--in-place", "--rois", boxes(c, *rois), "--policy", "user", "--plugin", c.good)
    want = [rows[y][x] + sum(unsharp(rows, y, x) for y0, y1, x0, x1 in rois if y0 <= y < y1 and x0 <= x < x1)
            for y in range(H) for x in range(W)]
    same(c.items("in.zarr"), want, "items")


@test
def plugin_file_is_found_by_name_and_by_path(c):
    make_in(c)
    shutil.copy(c.good, c.folder / "good.so")
    for i, text in enumerate(("good.so", "./good.so", f"{c.folder}/good.so", "good.so:tg_plugin_main")):
        c.run("apply", "in.zarr", f"out{i}.zarr", "--rois", "grid:8", "--plugin", text)
    shutil.copy(c.good, c.folder / "a:b.so")
    c.run("apply", "in.zarr", "out.zarr", "--rois", "grid:8", "--plugin", "a:b.so:tg_plugin_main")


@test
def plugin_that_is_none(c):
    make_in(c)
    (c.folder / "text.so").write_text("no shared object")
    refused(c, "plug-in './none.so' cannot be loaded: ", "--plugin", "none.so")
    refused(c, "plug-in './text.so' cannot be loaded: ", "--plugin", "text.so")
    refused(c, "want FILE.so or FILE.so:SYM", "--plugin", f"{c.good}:")
    refused(c, "has no 'other': want an object of type tg_plugin (tidegate/plugin.h) of that name", "--plugin",
            f"{c.good}:other")
    refused(c, "has no 'tg_plugin_main': want", "--plugin", c.bad)
    for symbol, words in (("no_plugin", "'no_plugin' is no tg_plugin"),
                          ("newer", "is of version 2 of tidegate/plugin.h, want at most 1"),
                          ("older", "is of version 0 of tidegate/plugin.h, want at most 1"),
                          ("no_call", "'no_call' has no call"),
                          ("refusing", "refuses with 9: not with 2 dimensions"),
                          ("typed", "wants to make items of kind 4 and 3 bytes: there is no such type"),
                          ("greedy", "want more memory, smaller regions")):
        refused(c, words, "--plugin", f"{c.bad}:{symbol}")
    refused(c, "the function brings no fold of its own", "--plugin", f"{c.bad}:no_fold", "--policy", "user")


@test
def plugin_that_fails_fails_its_region(c):
    make_in(c)
    rois = boxes(c, (0, 4, 0, 4), (4, 8, 4, 8), (8, 12, 8, 12))
    args = ["apply", "in.zarr", "out.zarr", "--rois", rois, "--plugin", f"{c.bad}:second", "--dtype", "uint8"]
    _, err = c.run(*args, status=1)
    words = "region 1 ('r1'): the function says 42: no cell in 'r1'"
    assert words in err, err
    answer = c.json(*args, "--on-error", "skip", status=3)
    same((answer["rois"], answer["failed"]), (3, 1), "failed")
    items = c.items("out.zarr")
    same([items[y * W + x] for y, x in ((0, 0), (3, 3), (4, 4), (7, 7), (8, 8), (11, 11))], [7, 7, 0, 0, 7, 7], "items")


@test
def plugin_whose_fold_fails_ends_the_run(c):
    make_in(c)
    rois = boxes(c, (0, 4, 0, 4), (0, 5, 0, 5), (0, 6, 0, 6))
    _, err = c.run("apply", "in.zarr", "out.zarr", "--rois", rois, "--plugin", f"{c.bad}:bad_fold", "--policy", "user",
                   "--on-error", "skip", status=1)
    assert "region 2: the fold of" in err and "says 5" in err, err


def main():
    tidegate, good, bad, *names = sys.argv[1:]
    failed = ran = 0
    for function in TESTS:
        if names and function.__name__ not in names:
            continue
        ran += 1
        with tempfile.TemporaryDirectory(prefix="tidegate functions ") as folder:
            try:
                function(Command(tidegate, good, bad, folder))
                print("ok  ", function.__name__)
            except Exception:  # every test is run
                failed += 1
                print("FAIL", function.__name__)
                traceback.print_exc()
    sys.exit(1 if failed or not ran else 0)


if __name__ == "__main__":
    main()
