#!/usr/bin/env python3
"""Kill `tidegate annotate` at random calls on files, or let its writes fail, and take it up again with --resume: it ends
in the very bytes of an uninterrupted run. See README.md beside this file.

Cases: peaks that fit in memory, peaks that are spilled, sorted peaks of an earlier run, and one of four parts, which are
merged to the same bytes."""
import argparse
import concurrent.futures
import errno
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile

from record_sweep import Tools, Wrong

ERRNOS = ("ENOSPC", "EIO", "EDQUOT")
WRITES = "write,pwrite,fsync,fdatasync,syncfs,ftruncate,fallocate,rename,link,mkdir"
# shape, peaks a spectrum, sorted before, parts
CASES = {
    "in memory": ("24,24", 100, False, 1),
    "spilled": ("24,24", 1400, False, 1),
    "sorted before": ("24,24", 100, True, 1),
    "four parts": ("24,24", 100, True, 4),
}
OPTIONS = "--db db.csv --adducts +H,+K --decoys 5 --memory 23MiB --segment 64KiB --threads 2 --fdr 100 --scores --json --progress none"
REQUIRED = {"kill": ("open", "close"), "errno": ("pwrite", "rename")}  # made often: a share of the points meets them


def arguments():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", required=True, help="build directory")
    p.add_argument("--mode", choices=list(REQUIRED), default="kill")
    p.add_argument("--points", type=int, default=0, help="of each case; 0: every write (errno), 100 (kill)")
    p.add_argument("--only", help="one case")
    p.add_argument("--seed", type=int, default=int(os.environ.get("SEED", "1")))
    p.add_argument("--jobs", type=int, default=2, help="runs at once")
    p.add_argument("--timeout", type=float, default=300, help="seconds until a run has hung")
    p.add_argument("--keep", action="store_true", help="keep the folder of a failed run")
    return p.parse_args()


def files(folder):
    found = {}
    for at, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(at, name)
            with open(path, "rb") as f:
                found[os.path.relpath(path, folder)] = f.read()
    return found


class Sweep(Tools):
    def __init__(self, args, folder):
        super().__init__(args.build)
        self.args, self.folder = args, folder
        self.struck, self.answers, self.failures = {}, {}, []
        self.runs = 0

    def run(self, cwd, options, shim=None):
        """One annotation. Its exit status, what it says, the kind of call that was struck, the number of calls."""
        env, report = dict(os.environ), cwd + ".report"
        if shim is not None:
            env.update(LD_PRELOAD=self.shim, TG_SHIM_REPORT=report, TG_SHIM_UNDER=cwd, **shim)
        try:
            done = subprocess.run([self.tidegate, "annotate", "made.imzML", "out", *OPTIONS.split(), *options], cwd=cwd,
                                  env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL,
                                  timeout=self.args.timeout, check=False)
        except subprocess.TimeoutExpired:
            raise Wrong(f"hung for {self.args.timeout} s") from None
        struck, total = None, 0
        if shim is not None:
            with open(report, encoding="utf-8") as f:
                said = [json.loads(line) for line in f if line.startswith("{")]
            os.unlink(report)
            struck = next((r["struck"] for r in said if r["struck"]), None)
            total = max(r["total"] for r in said)
        return done, struck, total

    def plain(self, cwd, options=()):
        done, _, _ = self.run(cwd, list(options))
        if done.returncode != 0:
            raise Wrong(f"{' '.join(options)}: exit {done.returncode}: {done.stdout} {done.stderr[-300:]}")
        return json.loads(done.stdout)

    def make(self, name):
        """The folder that each run of a case begins with, and the bytes that it ends with."""
        shape, fill, sort, _ = CASES[name]
        start = os.path.join(self.folder, name.replace(" ", "-"))
        os.makedirs(start)
        made = subprocess.run([self.tidegate, "bench", "annotate", "--generate", "made", "--shape", shape, "--fill",
                               str(fill), "--planted", "20", "--families", "300"], cwd=start, capture_output=True, text=True,
                              check=False)
        if made.returncode != 0:
            raise SystemExit(f"FAIL {name}: {made.stderr}")
        with open(os.path.join(start, "made.db.csv"), encoding="utf-8") as f:
            lines = f.readlines()
        with open(os.path.join(start, "made.truth.csv"), encoding="utf-8") as f:
            planted = {line.split(",")[0] for line in f}
        with open(os.path.join(start, "db.csv"), "w", encoding="utf-8") as f:
            f.writelines([lines[0]] + [x for x in lines[1:] if x.strip().split(",")[2] in planted] + lines[1:30:3])
        said = self.plain(start)
        want = files(os.path.join(start, "out"))
        if said["rows"] < 2 or said["images"] < 4 or (name == "spilled") != (said["spilled_bytes"] > 0):
            raise SystemExit(f"FAIL {name}: nothing is tested: {said}")
        shutil.rmtree(os.path.join(start, "out"))
        if not sort:
            shutil.rmtree(os.path.join(start, "made.imzML.tidegate"))
        return start, want

    def copy(self, start):
        self.runs += 1
        cwd = os.path.join(tempfile.mkdtemp(prefix="run-", dir=self.folder), "d")
        shutil.copytree(start, cwd)
        return cwd

    def shim_of(self, n, what):
        if self.args.mode == "kill":
            return {"TG_SHIM_KILL": str(n)}
        return {"TG_SHIM_FAIL": str(n), "TG_SHIM_ERRNO": what, "TG_SHIM_STICKY": str(n % 2), "TG_SHIM_ONLY": WRITES}

    def count_calls(self, name, start):
        cwd = self.copy(start)
        options = ["--part", "0/4"] if CASES[name][3] > 1 else []
        for i in range(1, CASES[name][3]):
            self.plain(cwd, ["--part", f"{i}/4"])  # the last part merges
        done, _, total = self.run(cwd, options, {} if self.args.mode == "kill" else {"TG_SHIM_ONLY": WRITES})
        if done.returncode != 0:
            raise SystemExit(f"FAIL {name} without a fault: {done.stderr}")
        shutil.rmtree(os.path.dirname(cwd))
        return total

    def check_report(self, done, what):
        said = json.loads(done.stdout)
        error = said.get("error")
        if done.returncode not in (1, 2, 3) or not error:
            raise Wrong(f"exit {done.returncode}: {done.stdout} {done.stderr[-300:]}")
        if error.get("errno") != getattr(errno, what):
            raise Wrong(f"errno {error.get('errno')} reported for {what}: {error}")
        if not error.get("key") and "'" not in error["message"]:
            raise Wrong(f"no file named: {error}")

    def strike(self, cwd, options, n, what):
        """Run with a fault. True: it went on to the end."""
        done, struck, _ = self.run(cwd, options, self.shim_of(n, what))
        if struck is not None:
            self.struck[struck] = self.struck.get(struck, 0) + 1
        if self.args.mode == "kill":
            if struck is not None and done.returncode != -signal.SIGKILL:
                raise Wrong(f"ended with {done.returncode}: {done.stderr[-300:]}")
            answer = "killed" if struck is not None else "ended before"
        elif done.returncode == 0:
            answer = "went on"
        else:
            self.check_report(done, what)
            answer = f"exit {done.returncode}"
        self.answers[answer] = self.answers.get(answer, 0) + 1

    def point(self, job):
        name, start, want, n, what = job
        parts = CASES[name][3]
        cwd = self.copy(start)
        try:
            if parts == 1:
                self.strike(cwd, [], n, what)
                self.plain(cwd, ["--resume"])
            else:
                victim = n % parts
                for i in [x for x in range(parts) if x != victim][: n % 3 + 1]:
                    self.plain(cwd, ["--part", f"{i}/{parts}"])
                self.strike(cwd, ["--part", f"{victim}/{parts}"], n, what)
                for i in range(parts):
                    self.plain(cwd, ["--part", f"{i}/{parts}", "--resume"])
            got = files(os.path.join(cwd, "out"))
            unlike = sorted(k for k in set(got) | set(want) if got.get(k) != want.get(k))
            if unlike:
                raise Wrong(f"{len(unlike)} files are not those of an uninterrupted run: {unlike[:4]}")
            if os.path.exists(os.path.join(cwd, "out.tidegate")):
                raise Wrong(f"left behind: {sorted(files(os.path.join(cwd, 'out.tidegate')))}")
            problem = None
        except (Wrong, ValueError, KeyError, OSError) as e:
            problem = f"{type(e).__name__}: {e}"
        if problem:
            print(f"FAIL {name}, {what} at {n}: {problem} [{cwd}]", flush=True)
            self.failures.append(job)
        if not (problem and self.args.keep):
            shutil.rmtree(os.path.dirname(cwd), ignore_errors=True)

    def jobs(self):
        rng = random.Random(self.args.seed)
        for name in CASES:
            if self.args.only not in (None, name):
                continue
            start, want = self.make(name)
            total = self.count_calls(name, start)
            whats = ("kill",) if self.args.mode == "kill" else ERRNOS
            every = [(name, start, want, n, what) for n in range(1, total + 1) for what in whats]
            points = self.args.points or (100 if self.args.mode == "kill" else len(every))
            print(f"{name}: {total} calls, {min(points, len(every))} of {len(every)} points, {len(want)} files",
                  flush=True)
            yield from rng.sample(every, min(points, len(every)))

    def all(self):
        jobs = list(self.jobs())
        with concurrent.futures.ThreadPoolExecutor(self.args.jobs) as pool:
            list(pool.map(self.point, jobs))
        print(f"annotate {self.args.mode}: seed {self.args.seed}, {len(jobs)} points, {sum(self.struck.values())} struck, "
              f"{len(self.failures)} failed")
        print("  by kind: " + ", ".join(f"{k} {v}" for k, v in sorted(self.struck.items())))
        print("  by answer: " + ", ".join(f"{k} {v}" for k, v in sorted(self.answers.items())))
        unseen = [k for k in REQUIRED[self.args.mode] if k not in self.struck] if not self.args.only else []
        if unseen:
            print(f"FAIL: never struck: {', '.join(unseen)}")
        return 1 if self.failures or unseen or not jobs else 0


def main():
    args = arguments()
    folder = tempfile.mkdtemp(prefix="annotate-sweep-")
    status = 1
    try:
        status = Sweep(args, folder).all()
    finally:
        if not (status and args.keep):
            shutil.rmtree(folder, ignore_errors=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
