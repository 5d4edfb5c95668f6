#!/usr/bin/env python3
"""The user's own functions of `apply`, as they should be and as they should not: plug-ins, commands,
workers.

    check_functions.py TIDEGATE UNSHARP.so BAD.so PROGRAM [PART_OF_NAME...]
"""
import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

SECONDS = 120
TOOL = pathlib.Path(__file__).with_name("function_tool.py")
TESTS = []


def test(function):
    TESTS.append(function)
    return function


class Command:
    def __init__(self, tidegate, good, bad, program, folder):
        self.tidegate, self.good, self.bad, self.program = tidegate, good, bad, program
        self.folder = pathlib.Path(folder) / "it's"
        self.tmp = pathlib.Path(folder) / "its tmp"  # every path has what a shell would stumble on
        self.folder.mkdir()
        self.tmp.mkdir()
        self.env = dict(os.environ, TMPDIR=str(self.tmp))

    def start(self, *args):
        return subprocess.Popen([self.tidegate, *map(str, args)], cwd=self.folder, env=self.env, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run(self, *args, status=0):
        done = subprocess.run([self.tidegate, *map(str, args)], cwd=self.folder, capture_output=True, env=self.env,
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


# --- Commands -------------------------------------------------------------------------------------


def tool(mode, *more):
    return " ".join([shlex.quote(sys.executable), shlex.quote(str(TOOL)), mode, "{in}", "{out}", *more])


def wait_for(condition, what):
    """Until it holds; only a hang makes this fail."""
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end, f"waited {SECONDS} s for {what}"
        time.sleep(0.02)


def gone(process):
    """Has the process "PID START" ended? A zombie has."""
    pid, start = process.split()
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return True
    return fields[19] != start or fields[0] in "ZX"


def processes(folder):
    """What function_tool.py has noted about the processes that it was."""
    return [p.read_text() for p in folder.glob("pid-*") if p.read_text().endswith("\n")]


def all_gone(c):
    listed = processes(c.folder)
    assert listed, "no process has said that it was there"
    for process in listed:
        wait_for(lambda p=process: gone(p), f"the end of process {process!r}")
    wait_for(lambda: not list(c.tmp.iterdir()), "the end of the run's folder")


def one_hangs(c, rows, kind, command, plus):
    """Three regions, and the second one hangs. The others are tried so often that they come through; where a machine
    stands still for so long that they do not, they are left out whole, as it is. Nothing depends on the time it takes."""
    rois = boxes(c, (0, 4, 0, 6), (4, 8, 0, 6), (8, 12, 0, 6))
    answer = c.json("apply", "in.zarr", "out.zarr", "--rois", rois, kind, command, "--call-timeout", "300ms", "--on-error",
                    "retry:10", status=3)
    items = c.items("out.zarr")
    same([v for i, v in enumerate(items) if i // W >= 12 or i % W >= 6], [0] * (H * W - 72), "items outside")
    out = 0
    for k in range(3):
        got = [items[y * W + x] for y in range(k * 4, k * 4 + 4) for x in range(6)]
        if k == 1 or not any(got):
            same(got, [0] * 24, f"items of region {k}")
            out += 1
        else:
            same(got, [rows[y][x] + plus for y in range(k * 4, k * 4 + 4) for x in range(6)], f"items of region {k}")
    same((answer["rois"], answer["failed"]), (3, out), "failed")
    assert answer["calls"] >= 13, answer


@test
def command_sees_its_halo_and_its_call(c):
    rows = make_in(c)
    answer = c.json("apply", "in.zarr", "out.zarr", "--rois", boxes(c, (0, 8, 0, 8), (3, 20, 9, 30)), "--halo", "2",
                    "--exec", tool("inner", "say"))
    same((answer["rois"], answer["calls"], answer["failed"]), (2, 2, 0), "calls")
    inside = [(y, x) for y in range(H) for x in range(W) if (y < 8 and x < 8) or (y >= 3 and x >= 9)]
    want = [rows[y][x] + 2 if (y, x) in inside else 0 for y in range(H) for x in range(W)]
    same(c.items("out.zarr"), want, "items")
    said = [json.loads((c.folder / f"said-{i}").read_text()) for i in range(2)]
    same(said[1], {"ROI": "1", "ROIS": "2", "NAME": "r1", "LABEL": "0", "IN_START": "1,7", "OUT_START": "3,9",
                   "BEFORE": "2,2", "REGION": "17,21", "SCALE": "1,1", "shape": [19, 23]}, "what a call is told")
    same((said[0]["BEFORE"], said[0]["shape"]), ("0,0", [10, 10]), "at the rim")
    same(list(c.tmp.iterdir()), [], "files left")


@test
def command_in_place_beside_itself(c):
    rows = make_in(c)
    answer = c.json("apply", "in.zarr", "--in-place", "--rois", "grid:3", "--jobs", "5", "--exec", "cp {in} {out}")
    same((answer["calls"], answer["failed"]), (70, 0), "calls")
    same(c.items("in.zarr"), [v for row in rows for v in row], "items")


@test
def command_writes_any_npy(c):
    rows = make_in(c)
    for mode in ("swapped", "fortran", "swapped-fortran", "version2", "version3", "python2"):
        c.run("apply", "in.zarr", f"{mode}.zarr", "--rois", "grid:20", "--exec", tool(mode))
        same(c.items(f"{mode}.zarr"), [v + 2 for row in rows for v in row], mode)


@test
def command_makes_another_type(c):
    rows = make_in(c)
    c.run("apply", "in.zarr", "out.zarr", "--rois", "grid:20", "--dtype", "uint8", "--exec", tool("bytes"))
    same(c.items("out.zarr"), [v & 255 for row in rows for v in row], "items")


@test
def command_in_parts(c):
    rows = make_in(c)
    c.run("plan", "in.zarr", "out.zarr", "--out", "plan", "--parts", "2", "--rois", "grid:8/5", "--policy", "last", "--dtype", "uint8",
          "--exec", tool("bytes"))
    for part in ("0/2", "1/2"):
        c.run("run", "plan", "--part", part)
    same(c.items("out.zarr"), [v & 255 for row in rows for v in row], "items")


@test
def command_whose_output_is_wrong(c):
    make_in(c)
    rois = boxes(c, (0, 4, 0, 6))
    for i, (mode, words) in enumerate((
            ("nothing", "the command has made no {out}"),
            ("empty", "{out} of the command: .npy: its first bytes are not those of such a file"),
            ("text", "{out} of the command: .npy: its first bytes are not those of such a file"),
            ("version9", ".npy: version 9.0, want 1.0, 2.0 or 3.0"),
            ("huge-header", ".npy: a header of 4294967295 bytes, want at most 65524"),
            ("long-header", ".npy: truncated: 128 bytes, the header alone has 60010"),
            ("no-shape", "of the header: want descr, fortran_order and shape"),
            ("twice", "of the header: want descr, fortran_order and shape, each once"),
            ("code", "of the header: want True or False"),
            ("object", ".npy: its items are Python's objects, want numbers"),
            ("record", ".npy: its items are records, want numbers of one type"),
            ("float", "{out} of the command: it holds float64, want uint16 (--dtype says which)"),
            ("halo", "{out} of the command: its shape is (5, 7), want (4, 6)"),
            ("flat", "{out} of the command: its shape is (24,), want (4, 6)"),
            ("scalar", "{out} of the command: its shape is (), want (4, 6)"),
            ("enormous", "its shape is (18446744073709551615, 18446744073709551615), want (4, 6)"),
            ("truncated", ".npy: 47 bytes of items, want 48 (truncated?)"),
            ("longer", ".npy: 49 bytes of items, want 48"),
            ("fifo", "is no regular file"),
            ("folder", "is no regular file"),
            ("link", ".npy: Too many levels of symbolic links"))):
        args = ["apply", "in.zarr", f"out{i}.zarr", "--rois", rois, "--exec", tool(mode), "--halo", "1"]
        _, err = c.run(*args, status=1)
        assert "region 0 ('r0'): " in err and words in err, f"{mode}: got {err!r}, want {words!r}"
        same(list(c.tmp.iterdir()), [], f"{mode}: files left")


@test
def command_that_fails(c):
    make_in(c)
    rois = boxes(c, (0, 4, 0, 6))
    for i, (command, words) in enumerate((
            ("no-such-command {in} {out}", "the command ended with status 127: sh: 1: no-such-command: not found"),
            ("{in} {out} | (", "the command ended with status 2: sh: 1: Syntax error"),
            ("cp {in} {out}; echo one >&2; printf 'two\\n\\n  \\n' >&2; exit 9", "ended with status 9: two\n"),
            ("cp {in} {out}; kill -TERM $$", "the command was killed by signal 15\n"),
            ("cp {in} {out}; printf '\\033[31m\\377red' >&2; false", "ended with status 1: ?[31m?red\n"),
            ("cp {in} {out}; head -c 1000000 /dev/zero | tr '\\0' x >&2; exit 3", "ended with status 3: xxx"))):
        _, err = c.run("apply", "in.zarr", f"out{i}.zarr", "--rois", rois, "--exec", command, status=1)
        assert f"region 0 ('r0'): " in err and words in err, f"{command}: got {err!r}, want {words!r}"
        assert len(err) < 700, f"{command}: {len(err)} bytes of error"
    same(list(c.tmp.iterdir()), [], "files left")
    refused(c, "command 'cp {in} out': want {in} and {out} in it", "--exec", "cp {in} out")
    refused(c, "command 'cp in {out}': want {in} and {out} in it", "--exec", "cp in {out}")
    c.env["TMPDIR"] = str(c.folder / "none")
    refused(c, "make the folder ", "--exec", "cp {in} {out}", status=1)


@test
def command_that_hangs_fails_its_region(c):
    rows = make_in(c)
    hang = f"if [ $TIDEGATE_ROI = 1 ]; then {tool('hang')}; else cp {{in}} {{out}}; fi"
    one_hangs(c, rows, "--exec", hang, 0)
    _, err = c.run("apply", "in.zarr", "late.zarr", "--rois", boxes(c, (0, 4, 0, 6)), "--exec", tool("hang"),
                   "--call-timeout", "300ms", status=1)
    assert "region 0 ('r0'): the command has not ended after 300 ms and is killed" in err, err
    for process in processes(c.folder):
        wait_for(lambda p=process: gone(p), f"the end of process {process!r}")


@test
def command_is_tried_again(c):
    rows = make_in(c)
    third = "echo >> tries; if [ $(wc -l < tries) -ge 3 ]; then cp {in} {out}; else exit 5; fi"
    answer = c.json("apply", "in.zarr", "out.zarr", "--rois", "grid:20", "--exec", third, "--jobs", "1", "--on-error", "retry:2")
    same((answer["rois"], answer["calls"], answer["failed"]), (2, 4, 0), "calls")
    same(c.items("out.zarr"), [v for row in rows for v in row], "items")
    args = ["apply", "in.zarr", "no.zarr", "--rois", boxes(c, (0, 4, 0, 4)), "--exec", "echo no >&2; exit 5; {in} {out}"]
    _, err = c.run(*args, "--on-error", "retry:2", status=3)
    assert "1 regions failed and were left out; the first: region 0 ('r0'): the command ended with status 5: no" in err, err


@test
def command_leaves_nothing_running(c):
    make_in(c)
    behind = f"{tool('hang')} & {tool('hang')} 2>/dev/null & cp {{in}} {{out}}; while [ $(ls pid-* | wc -l) -lt 4 ]; do sleep 0.1; done"
    c.run("apply", "in.zarr", "out.zarr", "--rois", boxes(c, (0, 4, 0, 6)), "--exec", behind)
    all_gone(c)


@test
def killed_tidegate_leaves_no_command_running(c):
    """Its commands hang, and so do their children; tidegate is killed as by `kill -9`."""
    make_in(c)
    t = c.start("apply", "in.zarr", "out.zarr", "--rois", "grid:8", "--jobs", "3", "--exec", tool("hang"))
    wait_for(lambda: len(processes(c.folder)) == 6, "three commands and a child of each")
    t.kill()
    t.communicate(timeout=SECONDS)
    all_gone(c)


@test
def stopped_commands_are_taken_up(c):
    rows = make_in(c)
    some = f"if [ -e go ]; then cp {{in}} {{out}}; else {tool('hang')}; fi"
    args = ["apply", "in.zarr", "out.zarr", "--rois", "grid:8", "--jobs", "2", "--exec", some]
    t = c.start(*args)
    wait_for(lambda: len(processes(c.folder)) == 4, "two commands and a child of each")
    t.send_signal(signal.SIGTERM)
    t.communicate(timeout=SECONDS)
    same(t.returncode, 75, "exit status")
    all_gone(c)
    (c.folder / "go").touch()
    answer = c.json(*args)
    same((answer["rois"], answer["failed"]), (12, 0), "regions")
    same(c.items("out.zarr"), [v for row in rows for v in row], "items")


# --- Workers --------------------------------------------------------------------------------------


def worker(mode, *more):
    name = shlex.quote(str(TOOL.with_name("function_worker.py")))
    return " ".join(["exec", shlex.quote(sys.executable), name, mode, *more])  # or sh, too, has the socket open


@test
def worker_sees_its_halo_and_its_call(c):
    rows = make_in(c)
    answer = c.json("apply", "in.zarr", "out.zarr", "--rois", boxes(c, (0, 8, 0, 8), (3, 20, 9, 30)), "--halo", "2",
                    "--jobs", "2", "--worker", worker("say"))
    same((answer["rois"], answer["calls"], answer["failed"]), (2, 2, 0), "calls")
    inside = [(y, x) for y in range(H) for x in range(W) if (y < 8 and x < 8) or (y >= 3 and x >= 9)]
    want = [rows[y][x] + 2 if (y, x) in inside else 0 for y in range(H) for x in range(W)]
    same(c.items("out.zarr"), want, "items")
    said = json.loads((c.folder / "said-1").read_text())
    hello = {"tidegate_worker": 1, "in_dtype": "uint16", "out_dtype": "uint16", "workers": 2, "axes": ["y", "x"],
             "shape": [H, W], "scale": [1.0, 1.0]}
    assert said["hello"].pop("worker") in (0, 1), said
    same(said["hello"], hello, "what a worker is told first")
    call = said["call"]
    assert call.pop("call") in (1, 2) and call.pop("memory") >= call["out"]["offset"] + 17 * 21 * 2, call
    offset = call["out"].pop("offset")
    assert offset % 64 == 0 and offset >= 19 * 23 * 2, offset
    same(call, {"roi": 1, "rois": 2, "label": 0, "name": "r1",
                "in": {"offset": 0, "dtype": "uint16", "shape": [19, 23], "strides": [46, 2]},
                "out": {"dtype": "uint16", "shape": [17, 21], "strides": [42, 2]},
                "in_start": [1, 7], "out_start": [3, 9], "before": [2, 2], "region": [17, 21], "scale": [1.0, 1.0]},
         "what a call is told")


@test
def worker_is_called_again_and_again(c):
    rows = make_in(c)
    answer = c.json("apply", "in.zarr", "--in-place", "--rois", "grid:1", "--jobs", "3", "--worker", worker("add"))
    same((answer["calls"], answer["failed"]), (600, 0), "calls")
    same(c.items("in.zarr"), [v + 2 for row in rows for v in row], "items")
    assert 1 <= len(processes(c.folder)) <= 3, processes(c.folder)
    all_gone(c)


@test
def worker_says_what_it_makes_and_needs(c):
    rows = make_in(c)
    c.run("apply", "in.zarr", "out.zarr", "--rois", "grid:8", "--worker", worker("corner"))
    same(c.items("out.zarr"), [rows[max(y - 1, 0)][max(x - 2, 0)] & 255 for y in range(H) for x in range(W)], "items")
    same(json.loads(c.run("info", "out.zarr", "--json")[0])["dtype"], "uint8", "type")


@test
def worker_in_parts(c):
    """What it makes is the plan's; who merges starts none."""
    rows = make_in(c)
    c.run("plan", "in.zarr", "out.zarr", "--out", "plan", "--parts", "2", "--rois", "grid:8/5", "--policy", "last", "--worker",
          worker("corner"))
    for part in ("0/2", "1/2"):
        c.run("run", "plan", "--part", part)
    noted = len(processes(c.folder))
    c.run("finish", "plan")
    same(c.items("out.zarr"), [rows[max(y - 1, 0)][max(x - 2, 0)] & 255 for y in range(H) for x in range(W)], "items")
    same(len(processes(c.folder)), noted, "workers")


@test
def worker_that_fails_fails_its_region(c):
    """Region 1 of three meets a worker that is bad in one way or another; the next one has its worker again."""
    rows = make_in(c)
    rois = boxes(c, (0, 4, 0, 6), (4, 8, 0, 6), (8, 12, 0, 6))
    for mode, words in (
            ("error", "the function says: no cells  here [31m\n"),
            ("junk", "the worker says 'this is no answer', want {\"call\": 2, \"ok\": true}; it is killed"),
            ("bytes", "the worker says '??'"),
            ("number", "the worker says '7', want {\"call\": 2, "),
            ("other-call", "the worker says '{\"call\": 9, \"ok\": true}', want {\"call\": 2, "),
            ("not-ok", "want \"ok\": true or an \"error\"; it is killed"),
            ("two-lines", "want one line; it is killed"),
            ("long", "want a line of at most 4096 bytes; it is killed"),
            ("close", "the worker has closed its socket without an answer"),
            ("half", "the worker ended with status 0\n"),
            ("exit", "the worker ended with status 7: bye\n"),
            ("exception", "the worker ended with status 1: ZeroDivisionError: "),
            ("kill", "the worker was killed by signal 9\n")):
        _, err = c.run("apply", "in.zarr", f"{mode}.zarr", "--rois", rois, "--jobs", "1", "--on-error", "skip", "--worker",
                       worker(mode), status=3)
        assert "region 1 ('r1'): " in err and words in err, f"{mode}: got {err!r}, want {words!r}"
        want = [rows[y][x] + 2 if x < 6 and y // 4 in (0, 2) else 0 for y in range(H) for x in range(W)]
        same(c.items(f"{mode}.zarr"), want, mode)
    for process in processes(c.folder):
        wait_for(lambda p=process: gone(p), f"the end of process {process!r}")


@test
def worker_that_misbehaves_harms_nobody(c):
    """It does as it is asked, and something else; one that has gone or spoken when the next call comes is started anew."""
    rows = make_in(c)
    rois = boxes(c, (0, 4, 0, 6), (4, 8, 0, 6), (8, 12, 0, 6))
    for mode in ("scribble", "shrink", "grow", "punch", "chatter", "ends-after", "junk-after", "starts-children"):
        answer = c.json("apply", "in.zarr", f"{mode}.zarr", "--rois", rois, "--jobs", "1", "--worker", worker(mode),
                        *(["--on-error", "retry:5"] if mode.endswith("-after") else []))
        same(answer["failed"], 0, f"{mode}: failed")
        want = [rows[y][x] + 2 if x < 6 and y < 12 else 0 for y in range(H) for x in range(W)]
        same(c.items(f"{mode}.zarr"), want, mode)
    for process in processes(c.folder):
        wait_for(lambda p=process: gone(p), f"the end of process {process!r}")


@test
def worker_that_is_none(c):
    make_in(c)
    for command, words in (
            ("no-such-worker", "'no-such-worker': the worker ended with status 127: sh: 1: no-such-worker: not found"),
            ("true", "'true': the worker ended with status 0"),
            ("cat <&3 >&3", "want {\"ready\": 1}; it is killed"),
            ("echo '{\"ready\": 1' >&3; sleep 600", "the worker says '{\"ready\": 1', want {\"ready\": 1}"),
            ("echo '{\"ready\": \"1\"}' >&3; sleep 600", "want {\"ready\": 1}; it is killed"),
            ("echo '{\"ready\": 2}' >&3; sleep 600", "the worker speaks version 2 of the protocol, want 1"),
            ("echo '{\"error\": \"no GPU\"}' >&3; sleep 600", "the worker refuses: no GPU"),
            ("echo '{\"ready\": 1, \"dtype\": \"uint7\"}' >&3; sleep 600", "the worker's dtype 'uint7': want a type of numbers"),
            ("echo '{\"ready\": 1, \"dtype\": \"string\"}' >&3; sleep 600", "the worker's dtype 'string': want a type of numbers"),
            ("echo '{\"ready\": 1, \"halo\": 3}' >&3; sleep 600", "the worker's halo: want a list of at most 2 numbers"),
            ("echo '{\"ready\": 1, \"halo\": [1, -1]}' >&3; sleep 600", "the worker's halo: want whole numbers from 0 on"),
            ("exec 3>&-; sleep 600", "the worker has closed its socket without an answer")):
        refused(c, words, "--worker", command)


@test
def worker_that_hangs_fails_its_region(c):
    rows = make_in(c)
    one_hangs(c, rows, "--worker", worker("hang"), 2)
    all_gone(c)
    _, err = c.run("apply", "in.zarr", "late.zarr", "--rois", boxes(c, (0, 4, 0, 6)), "--worker", worker("hang", "0"),
                   "--call-timeout", "300ms", status=1)
    assert "region 0 ('r0'): the worker has not answered after 300 ms and is killed" in err, err


@test
def worker_that_does_not_end_is_killed(c):
    make_in(c)
    c.run("apply", "in.zarr", "out.zarr", "--rois", boxes(c, (0, 4, 0, 6)), "--worker", worker("stays"))
    all_gone(c)


@test
def killed_tidegate_leaves_no_worker_running(c):
    make_in(c)
    t = c.start("apply", "in.zarr", "out.zarr", "--rois", boxes(c, *[(y, y + 2, 0, 5) for y in range(0, 6, 2)]), "--jobs", "3",
                "--worker", worker("hang", "0", "1", "2"))
    wait_for(lambda: len(list(c.folder.glob("hangs-*"))) == 3 and len(processes(c.folder)) == 6,
             "three workers that hang and a child of each")
    t.kill()
    t.communicate(timeout=SECONDS)
    all_gone(c)


@test
def stopped_workers_are_taken_up(c):
    rows = make_in(c)
    args = ["apply", "in.zarr", "out.zarr", "--rois", "grid:8", "--jobs", "2", "--worker", worker("wait")]
    t = c.start(*args)
    wait_for(lambda: len(list(c.folder.glob("hangs-*"))) == 2 and len(processes(c.folder)) == 4,
             "two workers that wait and a child of each")
    t.send_signal(signal.SIGTERM)
    t.communicate(timeout=SECONDS)
    same(t.returncode, 75, "exit status")
    all_gone(c)
    (c.folder / "go").touch()
    answer = c.json(*args)
    same((answer["rois"], answer["failed"]), (12, 0), "regions")
    same(c.items("out.zarr"), [v + 2 for row in rows for v in row], "items")


@test
def stop_while_a_worker_gets_ready(c):
    make_in(c)
    t = c.start("apply", "in.zarr", "out.zarr", "--rois", "grid:8", "--worker", worker("never-ready"))
    wait_for(lambda: len(processes(c.folder)) == 2, "the worker and a child of it")
    t.send_signal(signal.SIGTERM)
    t.communicate(timeout=SECONDS)
    same(t.returncode, 75, "exit status")
    all_gone(c)
    assert not (c.folder / "out.zarr").exists(), "OUT is there before any work"


# --- A program of its own -------------------------------------------------------------------------


@test
def program_with_a_function_of_its_own(c):
    rows = make_in(c)
    done = subprocess.run([c.program, "in.zarr", "out.zarr", "grid:8"], cwd=c.folder, capture_output=True, timeout=SECONDS,
                          text=True, check=False)
    same((done.returncode, done.stdout, done.stderr), (0, "12 regions, 18 units written\n", ""), "what it says")
    want = [rows[y][x] - min(v for row in rows[y // 8 * 8:y // 8 * 8 + 8] for v in row[x // 8 * 8:x // 8 * 8 + 8])
            for y in range(H) for x in range(W)]
    same(c.items("out.zarr"), want, "items")
    done = subprocess.run([c.program, "none.zarr", "no.zarr", "grid:8"], cwd=c.folder, capture_output=True, timeout=SECONDS,
                          text=True, check=False)
    same(done.returncode, 1, "exit status")
    assert done.stderr.startswith("apply_function: ") and "none.zarr" in done.stderr, done.stderr


def main():
    tidegate, good, bad, program, *names = sys.argv[1:]
    failed = ran = 0
    for function in TESTS:
        if names and not any(name in function.__name__ for name in names):
            continue
        ran += 1
        with tempfile.TemporaryDirectory(prefix="tidegate functions ") as folder:
            try:
                function(Command(tidegate, good, bad, program, folder))
                print("ok  ", function.__name__)
            except Exception:  # every test is run
                failed += 1
                print("FAIL", function.__name__)
                traceback.print_exc()
    sys.exit(1 if failed or not ran else 0)


if __name__ == "__main__":
    main()
