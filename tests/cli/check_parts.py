#!/usr/bin/env python3
"""apply in parts by several processes: killed at each numbered point and at random moments and run again, all at once,
racing for one part, in place. The result is that of one process, byte for byte, and nothing is left beside it.

    check_parts.py TIDEGATE PLUGIN points|merge|race|random|seed|misc

PLUGIN: meet_plugin.so. TG_SOAK: every point, and 300 kills at random moments.
"""
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

TIDEGATE, PLUGIN = (str(pathlib.Path(a).resolve()) for a in sys.argv[1:3])
N, SECONDS = 4, 240
SOAK = "TG_SOAK" in os.environ
STEP = 1 if SOAK else 4
ASK = "--rois grid:40/32 --policy mean --op gaussian:sigma=1 --commit-interval 5ms --memory 24MiB --threads 2 --progress none".split()
QUIET = ["--memory", "24MiB", "--threads", "2", "--json"]
for name in ("SLURM_ARRAY_TASK_ID", "PBS_ARRAY_INDEX", "SGE_TASK_ID", "LSB_JOBINDEX", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
             "PMIX_RANK", "SLURM_PROCID", "PARALLEL_SEQ"):
    os.environ.pop(name, None)  # or `auto` would take them


def start(*args, crash=0, **env):
    return subprocess.Popen([TIDEGATE, *args], env=dict(os.environ, TG_CRASH_AT=str(crash), **env), stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(process):
    out, err = process.communicate(timeout=SECONDS)
    return process.returncode, out, err


def run(*args, status=0, crash=0):
    got, out, err = end(start(*args, crash=crash))
    assert got == status or (crash and got == -signal.SIGKILL), f"{args}: exit {got}, want {status}\n{out}{err}"
    return got, json.loads(out) if out.startswith("{") else out


def part(i, **kinds):
    return run("run", "p", "--part", i if i == "auto" else f"{i}/{N}", *QUIET, **kinds)


def files(folder):
    folder = pathlib.Path(folder)
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def remove(*names):
    for name in names:
        shutil.rmtree(name, ignore_errors=True)


def fresh():
    remove("out.zarr", "out.zarr.tidegate")
    pathlib.Path("p").unlink(missing_ok=True)
    run("plan", "im.zarr/0", "out.zarr", "--out", "p", "--parts", str(N), *ASK)


def check_result(what):
    assert files("out.zarr/c") == files("whole.zarr/c"), f"{what}: not what one process makes"
    assert not pathlib.Path("out.zarr.tidegate").exists(), f"{what}: {list(files('out.zarr.tidegate'))} are left"


def check_points():
    """A part killed at each numbered point."""
    killed = 0
    for n in range(1, 400, STEP):
        fresh()
        got, _ = part(1, crash=n)
        missing = run("status", "p", *QUIET)[1]["missing"]
        assert missing == [0, 2, 3] or (got != 0 and missing == [0, 1, 2, 3]), missing
        # Dead after it was done: it need not be run again for all to be tidied away.
        for i in range(N) if 1 in missing else missing:
            part(i)
        check_result(f"part killed at point {n}")
        killed += got != 0
        if got == 0:
            break
    assert killed >= 20 // STEP, killed
    return f"{killed} kills of a part"


def check_merge():
    """The last part killed at each numbered point, also of its merge and its tidying."""
    killed = 0
    fresh()
    for i in range(N):
        if i != 1:
            part(i)
    for name in ("out.zarr", "out.zarr.tidegate"):
        shutil.copytree(name, f"kept.{name}")
    for n in range(1, 400, STEP):
        for name in ("out.zarr", "out.zarr.tidegate"):
            remove(name)
            shutil.copytree(f"kept.{name}", name)
        got, _ = part(1, crash=n)
        killed += got != 0
        if got != 0:
            part(1)  # as a queue does; nobody calls finish
        check_result(f"last part killed at point {n}")
        if got == 0:
            break
    assert killed >= 40 // STEP, killed
    return f"{killed} kills of the last part and its merge"


def at_once(commands):
    """All at once, those that end with 75 again, until all have ended with 0; their JSON."""
    todo, told = list(commands), []
    until = time.monotonic() + SECONDS
    while todo:
        running = [(a, start(*a)) for a in todo]
        todo = []
        for args, process in running:
            got, out, err = end(process)
            assert got in (0, 75) and time.monotonic() < until, f"{args}: exit {got}\n{out}{err}"
            told.append(json.loads(out))
            if got == 75:
                todo.append(args)
    return told


def check_race():
    """Each part twice, and finishers; two processes for one part; more that take the next free part than there are
    parts. Each region is called once, somebody merges, once."""
    rois = None
    named = [["run", "p", "--part", f"{i}/{N}", *QUIET] for i in range(N)]
    auto = ["run", "p", "--part", "auto", *QUIET]
    finish = ["finish", "p", *QUIET]
    for commands in ([*named, *named, finish, finish], [auto] * (N + 2), [*named[:1] * 2, *[auto] * N], [*named, auto, auto, finish]):
        for _ in range(4 if SOAK else 1):
            fresh()
            told = at_once(commands)
            rois = rois or told[0]["rois"]
            assert sum(t["calls"] for t in told) == rois, [t["calls"] for t in told]
            assert sum(t["merged"] for t in told) == 1, told
            check_result(f"{commands} at once")
    return f"{rois} regions, each called once"


def alive():
    """A process that lives, this one, as the owner of a lock names itself."""
    stat = pathlib.Path("/proc/self/stat").read_text()
    boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{os.getpid()} {boot} {stat.rpartition(')')[2].split()[19]} {socket.gethostname()}\n"


def check_claims():
    """auto: a live process's part is not taken, a dead one's is; nothing left but live ones: try again."""
    folder = pathlib.Path("out.zarr.tidegate/apply")
    fresh()
    (folder / "lock-0").write_text(alive())
    assert part("auto")[1]["part"] == 1
    part(0, status=75)
    got, _ = part("auto", crash=2)
    assert got != 0 and (folder / "lock-2").exists(), list(files(folder))
    assert part("auto")[1]["part"] == 2
    (folder / "lock-3").write_text("1 00000000-0000-0000-0000-000000000000 1 " + socket.gethostname() + "\n")  # another boot
    assert part("auto")[1]["part"] == 3
    part("auto", status=75)
    (folder / "lock-0").unlink()
    (folder / "lock-merge").write_text(alive())  # another merges: the part has ended all the same
    told = part("auto")[1]
    assert told["part"] == 0 and not told["merged"] and told["missing"] == []
    run("finish", "p", *QUIET, status=75)
    (folder / "lock-merge").unlink()
    told = part("auto")[1]
    assert told["was_done"] and told["merged"] and "part" not in told
    check_result("claims")
    told = part("auto")[1]
    assert told["was_done"] and not told["merged"]


def check_base_input():
    """Units that no region touches become IN's, in parts, too; the function is not called for them."""
    pathlib.Path("few.json").write_text(json.dumps({"axes": ["t", "y", "x"], "unit": "px", "rois": [
        {"name": "a", "box": [[0, 1], [3, 40], [5, 30]]}, {"name": "b", "box": [[0, 1], [20, 60], [25, 50]]}]}))
    ask = ["--rois", "few.json", "--policy", "max", "--op", "add:value=7", "--base", "input", "--json"]
    calls = run("apply", "im.zarr/0", "laid.zarr", *ask)[1]["calls"]
    run("plan", "im.zarr/0", "parts.zarr", "--out", "b", "--parts", "3", *ask)
    for i in range(3):
        calls -= run("run", "b", "--part", f"{i}/3", *QUIET)[1]["calls"]
    assert calls == 0, calls
    assert files("parts.zarr/c") == files("laid.zarr/c") and len(files("laid.zarr/c")) == 64


def check_undo():
    """undo: before the end, when it puts back what parts have changed, after it, and not while a part runs."""
    folder = pathlib.Path("undo.zarr.tidegate/apply-0")
    shutil.copytree("im.zarr", "undo.zarr")
    before = files("undo.zarr/0")

    def plan():
        run("plan", "undo.zarr/0", "--in-place", "--keep-undo", "--out", "u", "--parts", "3", *ASK)

    def go(i, status=0):
        run("run", "u", "--part", f"{i}/3", *QUIET, status=status)

    plan()
    go(0)
    go(1)
    assert files("undo.zarr/0") != before
    (folder / "lock-2").write_text(alive())
    run("undo", "undo.zarr/0", status=75)
    (folder / "lock-2").unlink()
    run("undo", "undo.zarr/0")
    assert files("undo.zarr/0") == before
    go(2, status=2)  # given up
    plan()
    for i in range(3):
        go(i)
    once = files("undo.zarr/0")
    assert once != before
    run("undo", "undo.zarr/0")
    assert files("undo.zarr/0") == before
    # Twice on purpose is twice; the same plan once more is nothing.
    plan()
    for i in (0, 1, 2, 0, 1, 2):
        go(i)
    assert files("undo.zarr/0") == once
    run("finish", "u", *QUIET)
    plan()
    for i in range(3):
        go(i)
    twice = files("undo.zarr/0")
    assert {k: v for k, v in twice.items() if k.startswith("c/")} != {k: v for k, v in once.items() if k.startswith("c/")}
    assert not (folder / "in-parts").exists()


def check_misc():
    check_claims()
    check_base_input()
    check_undo()
    return "claims, base, undo"


# --- At random moments --------------------------------------------------------------------------------

class Case:
    """One array and what becomes of it: a new OUT, or in place; chunks, or shards."""

    def __init__(self, name, source, in_place, undo=False):
        self.name, self.source, self.in_place, self.undo = name, source, in_place, undo
        self.array = "work.zarr" if in_place else "made.zarr"
        self.old = files(f"{source}/c") if in_place else {}
        self.reset()
        run("apply", *self.places(), *self.ask())
        self.new = files(f"{self.array}/c")
        assert self.new != self.old
        self.seconds = 0.05

    def ask(self):
        return ASK + ["--keep-undo"] * self.undo

    def places(self):
        return [self.array, "--in-place"] if self.in_place else [self.source, self.array]

    def reset(self):
        remove("work.zarr", "made.zarr", "work.zarr.tidegate", "made.zarr.tidegate")
        if self.in_place:
            shutil.copytree(self.source, "work.zarr")

    def check_units(self):
        """Each unit is old, or new, and whole; before anything is run again."""
        folder = pathlib.Path(self.array) / "c"
        for name in set(self.old) | set(self.new):
            now = (folder / name).read_bytes() if (folder / name).exists() else None
            assert now in (self.old.get(name), self.new.get(name)), f"{self.name}: {name} is neither old nor new"

    def check(self):
        assert files(f"{self.array}/c") == self.new, f"{self.name}: not what one process makes"
        side = pathlib.Path(f"{self.array}.tidegate")
        assert self.undo or not side.exists(), f"{self.name}: {list(files(side))} are left"
        if self.undo:
            run("undo", self.array)
            assert files(f"{self.array}/c") == self.old and not side.exists(), f"{self.name}: not undone"


def kill_round(case, parts, dice):
    """Plan, and run the parts at once, each killed up to twice at a random moment; how many kills."""
    case.reset()
    run("plan", *case.places(), "--out", "q", "--parts", str(parts), *case.ask())
    todo, killed = {i: 2 for i in range(parts)}, 0
    began = time.monotonic()
    while todo:
        alarm = {}
        running = {}
        for i in todo:
            text = "auto" if dice.random() < 0.3 else f"{i}/{parts}"
            running[i] = start("run", "q", "--part", text, *QUIET)
            if todo[i] > 0:
                alarm[i] = time.monotonic() + dice.random() * case.seconds
        for i in sorted(alarm, key=alarm.get):
            time.sleep(max(0, alarm[i] - time.monotonic()))
            running[i].kill()
            todo[i] -= 1
        again = {}
        for i, process in running.items():
            got, out, err = end(process)
            assert got in (0, 75, -signal.SIGKILL), f"{case.name}: exit {got}\n{out}{err}"
            killed += got == -signal.SIGKILL
            if got != 0:
                again[i] = todo[i]
        case.check_units()
        todo = again
        assert time.monotonic() - began < 2 * SECONDS, f"{case.name}: parts {todo} do not end"
    for i in range(parts):  # where auto took another's
        case.seconds = max(case.seconds, run("run", "q", "--part", f"{i}/{parts}", *QUIET)[1]["seconds"])
    told = run("finish", "q", *QUIET)[1]
    assert told["was_done"] or told["merged"], told
    case.check()
    return killed


def check_random():
    seed = int(os.environ.get("TG_SEED", "1"))
    dice, want = random.Random(seed), 300 if SOAK else 30
    run("copy", "im.zarr/0", "shards.zarr", "--chunk", "1,16,16", "--shard", "1,32,32", "--codec", "zstd:1")
    run("copy", "im.zarr/0", "chunks.zarr", "--shard", "none")
    cases = [Case("new", "chunks.zarr", False), Case("new shards", "shards.zarr", False), Case("in place", "chunks.zarr", True),
             Case("shards in place", "shards.zarr", True), Case("in place with undo", "chunks.zarr", True, True)]
    kills = dict.fromkeys((c.name for c in cases), 0)
    for turn in range(100 * want):
        case = cases[turn % len(cases)]
        kills[case.name] += kill_round(case, 2 + dice.randrange(4), dice)
        if sum(kills.values()) >= want and all(kills.values()):
            break
    assert all(kills.values()), kills
    return f"seed {seed}, kills at random moments: {kills}"


# --- The seed's experiment in two processes ------------------------------------------------------------

def check_seed():
    """4 zeros, chunks of 1, 2, 4, regions of one and of two overlapping pixels; all calls of both processes are in flight
    at once, or the plug-in fails. Into a new array, and in place."""
    for chunk in (1, 2, 4):
        for width in (1, 2):
            for in_place in (False, True):
                remove("s.zarr", "t.zarr")
                run("create", "s.zarr", "--shape", "4", "--dtype", "u8", "--chunk", str(chunk), "--dims", "x")
                calls = 5 - width
                pathlib.Path("s.json").write_text(json.dumps({"axes": ["x"], "unit": "px", "rois": [
                    {"name": str(i), "box": [[i, i + width]]} for i in range(calls)]}))
                pathlib.Path("met").unlink(missing_ok=True)
                run("plan", "s.zarr", *(["--in-place"] if in_place else ["t.zarr"]), "--out", "sp", "--parts", "2", "--rois", "s.json",
                    "--policy", "last", "--plugin", PLUGIN, "--jobs", "4")
                both = [start("run", "sp", "--part", f"{i}/2", "--jobs", "4", "--json", TG_MEET=os.path.abspath("met"),
                              TG_MEET_CALLS=str(calls)) for i in range(2)]
                ended = [end(p) for p in both]
                assert all(e[0] == 0 for e in ended), ended
                assert sum(json.loads(e[1])["calls"] for e in ended) == calls, ended
                run("finish", "sp")
                got = run("cat", "s.zarr" if in_place else "t.zarr")[1].split()
                assert got == ["2"] * 4, f"chunks of {chunk}, {calls} calls, in place {in_place}: {got}"
    return "all 12"


def main():
    with tempfile.TemporaryDirectory(prefix="tg-parts-") as folder, contextlib.ExitStack() as stack:
        stack.callback(os.chdir, "/")
        os.chdir(folder)
        run("record", "im.zarr", *"--from test:128x128:u16 --frames 1 --tile 16,16 --chunk-frames 1 --shard none".split())
        run("apply", "im.zarr/0", "whole.zarr", *ASK)
        print(globals()[f"check_{sys.argv[3]}"]())


main()
