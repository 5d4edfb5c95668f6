#!/usr/bin/env python3
"""apply in parts by several processes: killed at each numbered point and run again, all at once, two
finishers at once. The result is that of one process, byte for byte, and nothing is left beside it.

    check_parts.py TIDEGATE
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile

TIDEGATE, N, SECONDS = str(pathlib.Path(sys.argv[1]).resolve()), 4, 120
STEP = 1 if os.environ.get("TG_SOAK") else 4
ASK = "--rois grid:40/32 --policy mean --op gaussian:sigma=1 --memory 24MiB --threads 2 --progress none".split()
QUIET = ["--memory", "24MiB", "--threads", "2", "--json"]


def start(*args, crash=0):
    return subprocess.Popen([TIDEGATE, *args], env=dict(os.environ, TG_CRASH_AT=str(crash)), stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def end(process):
    out, err = process.communicate(timeout=SECONDS)
    return process.returncode, out, err


def run(*args, status=0, crash=0):
    got, out, err = end(start(*args, crash=crash))
    assert got == status or (crash and got == -signal.SIGKILL), f"{args}: exit {got}, want {status}\n{out}{err}"
    return got, json.loads(out) if out.startswith("{") else out


def part(i, **kinds):
    return run("run", "p", "--part", f"{i}/{N}", *QUIET, **kinds)


def files(folder):
    folder = pathlib.Path(folder)
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def fresh():
    for name in ("out.zarr", "out.zarr.tidegate"):
        shutil.rmtree(name, ignore_errors=True)
    pathlib.Path("p").unlink(missing_ok=True)
    run("plan", "im.zarr/0", "out.zarr", "--out", "p", "--parts", str(N), *ASK)


def check_result(what):
    assert files("out.zarr/c") == files("whole.zarr/c"), f"{what}: not what one process makes"
    assert not pathlib.Path("out.zarr.tidegate").exists(), f"{what}: {list(files('out.zarr.tidegate'))} are left"


def kills_of_a_part():
    killed = 0
    for n in range(1, 400, STEP):
        fresh()
        got, _ = part(1, crash=n)
        missing = run("status", "p", *QUIET)[1]["missing"]
        assert missing == [0, 2, 3] or (got != 0 and missing == [0, 1, 2, 3]), missing
        for i in range(N):
            part(i)
        check_result(f"part killed at point {n}")
        killed += got != 0
        if got == 0:
            break
    assert killed >= 20 // STEP, killed
    return killed


def kills_of_the_merge():
    killed = 0
    fresh()
    for i in range(N):
        if i != 1:
            part(i)
    for name in ("out.zarr", "out.zarr.tidegate"):
        shutil.copytree(name, f"kept.{name}")
    for n in range(1, 400, STEP):
        for name in ("out.zarr", "out.zarr.tidegate"):
            shutil.rmtree(name, ignore_errors=True)
            shutil.copytree(f"kept.{name}", name)
        got, _ = part(1, crash=n)
        killed += got != 0
        if got != 0:
            part(1)
            run("finish", "p", *QUIET)
        check_result(f"last part killed at point {n}")
        if got == 0:
            break
    assert killed >= 40 // STEP, killed
    return killed


def all_at_once():
    """Each part twice, and finish all the time: somebody merges, once."""
    for _ in range(3):
        fresh()
        todo = [["run", "p", "--part", f"{i}/{N}", *QUIET] for i in range(N)] * 2
        merged = 0
        while todo:
            running = [(a, start(*a)) for a in [*todo, ["finish", "p", *QUIET], ["finish", "p", *QUIET]]]
            todo = []
            for args, process in running:
                got, out, err = end(process)
                assert got in (0, 75), f"{args}: exit {got}\n{out}{err}"
                merged += got == 0 and json.loads(out)["merged"]
                if got == 75 and args[0] == "run":
                    todo.append(args)
        assert merged <= 1, merged
        run("finish", "p", *QUIET)
        check_result("all at once")


def base_input():
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


def main():
    with tempfile.TemporaryDirectory(prefix="tg-parts-") as folder:
        os.chdir(folder)
        run("record", "im.zarr", *"--from test:128x128:u16 --frames 1 --tile 16,16 --chunk-frames 1 --shard none".split())
        run("apply", "im.zarr/0", "whole.zarr", *ASK)
        parts, merges = kills_of_a_part(), kills_of_the_merge()
        all_at_once()
        base_input()
        print(f"{parts} kills of a part, {merges} of the last part and its merge")
        os.chdir("/")


main()
