#!/usr/bin/env python3
"""Kill `tidegate apply`, or let its calls on files fail, one numbered call after the other, and
check what is left. See README.md beside this file.

Every unit (the file of a chunk or shard) equals its old or its new bytes at any moment; the same
command again ends in what a run without a fault makes; `undo` gives the old bytes."""
import argparse
import concurrent.futures
import errno
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from record_sweep import Tools, Wrong

ERRNOS = ("ENOSPC", "EIO")
TRANSFERS = "read,write,pread,pwrite"
UNIT = re.compile(r"^c(/\d+)+$")
COMMON = "--memory 24MiB --threads 2 --commit-interval 1ms --rois grid:24/16 --json"
MADE = "--from test:64x48:u16 --frames 2 --tile 16,16 --chunk-frames 1"
# How IN is stored, what lies at OUT before, what is asked for.
CASES = {
    "new OUT": ("--shard none", None, "--policy mean --op gaussian:sigma=1"),
    "new OUT, sharded": ("--shard 1frames", None, "--policy last --op add:value=7"),
    "new OUT, keep undo": ("--shard none", None, "--policy max --op add:value=7 --keep-undo"),
    "OUT that exists": ("--shard none", "fill:value=9", "--policy sum --op add:value=7"),
    "OUT that exists, sharded, zstd": ("--shard 1frames --codec zstd:1", "fill:value=9",
                                       "--policy first --op gaussian:sigma=1 --keep-undo"),
    "in place": ("--shard none", "in place", "--policy mean --halo 2 --op gaussian:sigma=1"),
    "in place, sharded": ("--shard 1frames", "in place", "--policy last --op add:value=7"),
    "in place, keep undo": ("--shard none", "in place",
                            "--policy blend --halo 3 --op add:value=7 --keep-undo"),
}
REQUIRED = {"kill": "open,close,pread,pwrite,fsync,rename,link,unlink,mkdir",
            "errno": "open,close,pread,pwrite,fsync,rename,link,unlink,mkdir",
            "random": "moment", "crash": "point", "short": "pread,pwrite", "undo": "open,pwrite,rename", "undo-kill": "open,rename,unlink"}
OFTEN = {"random": "moment", "crash": "point", "kill": "open,close,pread,pwrite", "errno": "open,close,pread,pwrite",
         "short": "pread,pwrite", "undo": "open,pwrite", "undo-kill": "open"}


def arguments():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", required=True, help="build directory")
    p.add_argument("--mode", choices=list(REQUIRED), default="kill")
    p.add_argument("--points", type=int, default=0, help="over all cases; 0: every call")
    p.add_argument("--only", help="one case")
    p.add_argument("--seed", type=int, default=int(os.environ.get("SEED", "1")))
    p.add_argument("--jobs", type=int, default=3, help="runs at once")
    p.add_argument("--timeout", type=float, default=120, help="seconds until a run has hung")
    p.add_argument("--keep", action="store_true", help="keep the folder of a failed run")
    return p.parse_args()


def units(store):
    """The files of chunks and shards below, by key."""
    found = {}
    for at, _, files in os.walk(store):
        for name in files:
            key = os.path.relpath(os.path.join(at, name), store)
            if UNIT.match(key):
                with open(os.path.join(at, name), "rb") as f:
                    found[key] = f.read()
    return found


def metadata(store):
    """zarr.json, but for where the run was."""
    try:
        with open(os.path.join(store, "zarr.json")) as f:
            meta = json.load(f)
    except FileNotFoundError:
        return None
    for name in ("source", "digest"):
        meta.get("attributes", {}).get("tidegate", {}).pop(name, None)
    return meta


class Case:
    """A case made ready once: the folder that each run begins with, and what it ends with."""

    def __init__(self, sweep, name, folder):
        self.name = name
        layout, before, ask = CASES[name]
        self.in_place, self.keeps = before == "in place", "--keep-undo" in ask
        self.out = "in.zarr" if self.in_place else "out.zarr"
        self.command = [sweep.tidegate, "apply", "in.zarr",
                        *(["--in-place"] if self.in_place else ["out.zarr"]),
                        *COMMON.split(), *ask.split()]
        self.start = os.path.join(folder, "start")
        os.makedirs(self.start)
        sweep.plain([sweep.tidegate, "record", "made.zarr", *MADE.split(), *layout.split()],
                    self.start)
        shutil.move(os.path.join(self.start, "made.zarr/0"), os.path.join(self.start, "in.zarr"))
        shutil.rmtree(os.path.join(self.start, "made.zarr"))
        if before and not self.in_place:
            sweep.plain([sweep.tidegate, "apply", "in.zarr", "out.zarr", "--rois", "grid:64",
                         "--op", before], self.start)
        self.source = units(os.path.join(self.start, "in.zarr"))
        self.old = units(os.path.join(self.start, self.out))
        end = os.path.join(folder, "end")
        shutil.copytree(self.start, end)
        began = time.monotonic()
        sweep.plain(self.command, end)
        self.seconds = time.monotonic() - began
        self.new = units(os.path.join(end, self.out))
        self.meta = metadata(os.path.join(end, self.out))
        if not self.new or self.new == self.old or not self.source:
            raise SystemExit(f"FAIL {name}: nothing to tell old from new")


class Run:
    """A folder of its own in which things go wrong."""

    def __init__(self, sweep, case, folder):
        self.sweep, self.case, self.folder = sweep, case, folder
        self.data = os.path.join(folder, "data")
        shutil.copytree(case.start, self.data)
        self.out = os.path.join(self.data, case.out)
        self.aside = self.out + ".tidegate"
        self.struck = self.status = None
        self.total = 0
        self.stdout = self.stderr = ""

    def program(self, command, shim):
        report = os.path.join(self.folder, "shim-report")
        if os.path.exists(report):
            os.unlink(report)
        env = dict(os.environ, LD_PRELOAD=self.sweep.shim, TG_SHIM_REPORT=report,
                   TG_SHIM_UNDER=self.data, **shim)
        try:
            done = subprocess.run(command, cwd=self.data, env=env, capture_output=True, text=True,
                                  stdin=subprocess.DEVNULL, timeout=self.sweep.args.timeout)
        except subprocess.TimeoutExpired:
            raise Wrong(f"hung for {self.sweep.args.timeout} s") from None
        self.status, self.stdout, self.stderr = done.returncode, done.stdout, done.stderr
        with open(report) as f:
            said = [json.loads(line) for line in f if line.startswith("{")]
        self.struck = next((r["struck"] for r in said if r["struck"]), None)
        self.total = max(r["total"] for r in said)

    def apply(self, shim):
        self.program(self.case.command, shim)

    def undo(self, shim):
        self.program([self.sweep.tidegate, "undo", self.case.out, "--json"], shim)

    def kill_after(self, seconds):
        """SIGKILL at that moment, unless it ends before."""
        with subprocess.Popen(self.case.command, cwd=self.data, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as p:
            try:
                self.stderr = p.communicate(timeout=seconds)[0]
            except subprocess.TimeoutExpired:
                p.kill()
                self.stderr = p.communicate()[0]
        self.status = p.returncode
        self.struck = "moment" if self.status == -signal.SIGKILL else None

    def crash_at(self, n):
        """SIGKILL at the n-th crash point."""
        done = subprocess.run(self.case.command, cwd=self.data, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=self.sweep.args.timeout,
                              env=dict(os.environ, TG_CRASH_AT=str(n)))
        self.status, self.stderr = done.returncode, done.stderr
        self.struck = "point" if self.status == -signal.SIGKILL else None

    def killed_by_us(self):
        if self.struck is None and self.status == 0:
            return False
        if self.status != -signal.SIGKILL:
            raise Wrong(f"ended with {self.status}: {self.stderr[-300:]}")
        return True

    # --- what must be so -------------------------------------------------------------------

    def check_units(self):
        """Old or new, each of them; IN as it was. True: all are new."""
        case, got = self.case, units(self.out)
        for key in sorted(set(got) | set(case.old) | set(case.new)):
            if got.get(key) not in (case.old.get(key), case.new.get(key)):
                raise Wrong(f"unit {key} ({'gone' if key not in got else len(got[key])} bytes) "
                            "is neither old nor new")
            self.sweep.units_checked += 1
        if not case.in_place and units(os.path.join(self.data, "in.zarr")) != case.source:
            raise Wrong("IN has changed")
        metadata(self.out)  # it parses, or is not there
        return got == case.new

    def has_journal(self):
        return any(name.startswith("journal-") for _, _, files in os.walk(self.aside)
                   for name in files)

    def check_end(self):
        got = units(self.out)
        if got != self.case.new:
            wrong = [k for k in sorted(set(got) | set(self.case.new))
                     if got.get(k) != self.case.new.get(k)]
            raise Wrong(f"{len(wrong)} units are not what a run without a fault makes: {wrong[:4]}")
        if metadata(self.out) != self.case.meta:
            raise Wrong(f"metadata {metadata(self.out)}, want {self.case.meta}")

    def check_nothing_left(self):
        left = [os.path.join(at, f) for at, _, files in os.walk(self.aside) for f in files]
        if [f for f in left if "/undo/" not in f or not self.case.keeps]:
            raise Wrong(f"left behind: {left[:5]}")

    def end_it(self):
        """The same command once more, without a fault."""
        if self.check_units() and not self.has_journal() and metadata(self.out) == self.case.meta:
            self.sweep.count("had ended", self)  # again in place would be a second run
            return
        self.sweep.again(self.case.command, self)
        self.check_end()
        self.check_nothing_left()

    def undo_it(self):
        """All units are as before the run, whether there is something to undo or not."""
        self.check_units()
        done = self.sweep.tool([self.sweep.tidegate, "undo", self.case.out, "--json"], self.data)
        code = (json.loads(done.stdout).get("error") or {}).get("code") if done.stdout else None
        if done.returncode != 0 and code != "not found":
            raise Wrong(f"undo: exit {done.returncode}: {done.stderr[-300:]}")
        if units(self.out) != self.case.old:
            raise Wrong(f"after undo (exit {done.returncode}, {done.stdout.strip()[:200]}) units "
                        "are not what they were")


class Sweep(Tools):
    def __init__(self, args):
        super().__init__(args.build)
        self.args = args
        self.units_checked = 0
        self.struck, self.by_case, self.answers, self.failures = {}, {}, {}, []

    def tool(self, command, cwd):
        return subprocess.run(command, cwd=cwd, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=self.args.timeout)

    def plain(self, command, cwd):
        done = self.tool(command, cwd)
        if done.returncode != 0:
            raise SystemExit(f"FAIL {' '.join(command)}: exit {done.returncode}: {done.stderr}")

    def again(self, command, run):
        done = self.tool(command, run.data)
        if done.returncode != 0:
            raise Wrong(f"the same again: exit {done.returncode}: {done.stderr[-300:]}")

    def count(self, answer, run):
        if run.struck:
            self.answers[answer] = self.answers.get(answer, 0) + 1

    # --- one point of each mode ----------------------------------------------------------

    def kill(self, run, n, _name):
        run.apply({"TG_SHIM_KILL": str(n)})
        if run.killed_by_us():
            run.end_it()
        else:
            run.check_end()

    def random(self, run, n, _name):
        rng = random.Random(f"{self.args.seed} {run.case.name} {n}")
        run.kill_after(rng.uniform(0, run.case.seconds))
        if run.killed_by_us():
            run.end_it()
        else:
            run.check_end()

    def crash(self, run, n, _name):
        run.crash_at(n)
        if run.killed_by_us():
            run.end_it()
        else:
            run.check_end()

    def undo(self, run, n, _name):
        run.apply({"TG_SHIM_KILL": str(n)})
        run.killed_by_us()
        run.undo_it()

    def undo_kill(self, run, n, _name):
        rng = random.Random(f"{self.args.seed} {run.case.name} {n}")
        total = self.total_of_apply[run.case.name]
        run.apply({"TG_SHIM_KILL": str(rng.randint(total // 2, total))} if n % 2 else {})
        run.undo({"TG_SHIM_KILL": str(n)})
        struck = run.struck
        if struck is None and run.status != 0:
            code = json.loads(run.stdout)["error"]["code"]
            if code != "not found":
                raise Wrong(f"undo: exit {run.status}: {run.stderr[-300:]}")
        run.undo_it()
        run.struck = struck

    def fail(self, run, n, name):
        sticky = random.Random(n).random() < 0.5
        shim = {"TG_SHIM_FAIL": str(n), "TG_SHIM_ERRNO": name, "TG_SHIM_STICKY": str(int(sticky))}
        if name == "short":
            shim = {"TG_SHIM_SHORT": str(n), "TG_SHIM_ONLY": TRANSFERS}
        run.apply(shim)
        if run.status == 0:
            self.count("went on", run)
            run.check_end()
            return
        if name == "short":
            raise Wrong(f"a short transfer is no error: {run.stdout} {run.stderr[-300:]}")
        self.count(f"exit {run.status}", run)
        self.check_report(run, name)
        run.end_it()

    def check_report(self, run, name):
        if run.status not in (1, 2, 3):
            raise Wrong(f"ended with {run.status}: {run.stderr[-300:]}")
        error = json.loads(run.stdout).get("error")
        if not error:
            raise Wrong(f"exit {run.status} without an error: {run.stdout}")
        if error.get("errno") != getattr(errno, name):
            raise Wrong(f"errno {error.get('errno')} reported for {name}: {error}")
        if not error.get("key") and "'" not in error["message"]:
            raise Wrong(f"no file named: {error}")
        if "tidegate apply: " not in run.stderr:
            raise Wrong(f"nothing said on standard error: {run.stderr}")

    # --- all points ----------------------------------------------------------------------

    def point(self, job):
        case, n, name = job
        folder = tempfile.mkdtemp(prefix="apply-sweep-")
        run = Run(self, case, folder)
        work = {"kill": self.kill, "random": self.random, "crash": self.crash, "undo": self.undo,
                "undo-kill": self.undo_kill}.get(self.args.mode, self.fail)
        try:
            work(run, n, name)
            problem = None
        except (Wrong, subprocess.TimeoutExpired, ValueError, KeyError, OSError) as e:
            problem = f"{type(e).__name__}: {e}"
        if problem:
            kept = f" [{folder}]" if self.args.keep else ""
            print(f"FAIL {case.name}, {name} at {n} (struck {run.struck}): {problem}{kept}",
                  flush=True)
            self.failures.append(job)
        if not (problem and self.args.keep):
            shutil.rmtree(folder, ignore_errors=True)
        return case.name, run.struck

    def count_calls(self, case, undoing):
        with tempfile.TemporaryDirectory(prefix="apply-sweep-") as folder:
            run = Run(self, case, folder)
            only = {"TG_SHIM_ONLY": TRANSFERS} if self.args.mode == "short" else {}
            run.apply(only)
            if run.status != 0:
                raise SystemExit(f"FAIL {case.name} without a fault: {run.stderr}")
            run.check_end()
            run.check_nothing_left()
            if undoing:
                run.undo({})
                if run.status != 0 or units(run.out) != case.old:
                    raise SystemExit(f"FAIL {case.name}: undo without a fault: {run.stderr}")
            return run.total

    def names(self):
        undoes = self.args.mode.startswith("undo")
        return [x for x in CASES if self.args.only in (None, x)
                and (not undoes or "--keep-undo" in CASES[x][2])]

    def jobs(self, folder):
        names = self.names()
        cases = [Case(self, x, os.path.join(folder, str(i))) for i, x in enumerate(names)]
        rng = random.Random(self.args.seed)
        self.total_of_apply = {c.name: self.count_calls(c, False) for c in cases}
        faults = {"errno": ERRNOS, "short": ("short",)}.get(self.args.mode, ("kill",))
        for case in cases:
            if self.args.mode in ("random", "crash"):
                # Moments, or crash points: where there are fewer, the run ends and is compared.
                points = -(-(self.args.points or 400 * len(cases)) // len(cases))
                every = list(range(1, points + 1))
                if self.args.points and self.args.mode == "crash":  # sharded there are some 30
                    every = rng.sample(range(1, 25), points // 2)
                    every += rng.sample(range(25, 150), points - points // 2)
                yield from ((case, n, "kill") for n in every)
                continue
            total = (self.count_calls(case, True) if self.args.mode == "undo-kill"
                     else self.total_of_apply[case.name])
            every = [(case, n, name) for n in range(1, total + 1) for name in faults]
            share = len(every)
            if self.args.points:
                share = min(share, -(-self.args.points // len(cases)))
            print(f"{case.name}: {total} calls, {share} of {len(every)} points", flush=True)
            yield from rng.sample(every, share)

    def all(self):
        with tempfile.TemporaryDirectory(prefix="apply-sweep-") as folder:
            jobs = list(self.jobs(folder))
            with concurrent.futures.ThreadPoolExecutor(self.args.jobs) as pool:
                for case, struck in pool.map(self.point, jobs):
                    if struck:
                        self.struck[struck] = self.struck.get(struck, 0) + 1
                        self.by_case[case] = self.by_case.get(case, 0) + 1
        return self.summary(len(jobs))

    def summary(self, runs):
        # A share of the points may miss a call that is made a few times in a run.
        required = OFTEN if self.args.points else REQUIRED
        unseen = [k for k in required[self.args.mode].split(",") if k not in self.struck]
        if self.args.mode != "random":
            unseen += [x for x in self.names() if x not in self.by_case]
        print(f"apply {self.args.mode}: seed {self.args.seed}, {runs} runs, "
              f"{sum(self.struck.values())} struck, {len(self.failures)} failed, "
              f"{self.units_checked} units compared before anything was run again")
        for title, table in (("kind", self.struck), ("case", self.by_case),
                             ("answer", self.answers)):
            print(f"  by {title}: " + ", ".join(f"{k} {v}" for k, v in sorted(table.items())))
        if unseen and not self.args.only:
            print(f"FAIL: never struck: {', '.join(unseen)}")
            return 1
        return 1 if self.failures else 0


if __name__ == "__main__":
    sys.exit(Sweep(arguments()).all())
