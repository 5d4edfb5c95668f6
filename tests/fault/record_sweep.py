#!/usr/bin/env python3
"""Kill `tidegate record`, or let its calls on files fail, one numbered call after the other, and
check what is left. See README.md beside this file."""
import argparse
import concurrent.futures
import errno
import hashlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile

SMALL = "--memory 12MiB --from test:24x10:u16"
# Paced, so that commits and progress fall into the recording; k frames share a chunk, so that
# frames wait in the tail file.
PACED = SMALL + "@240 --frames 36 --commit-interval 15ms"
FAST = SMALL + " --frames 12 --commit-interval 5ms"
LAYOUTS = {
    "chunk files": "--shard none --chunk-frames 1",
    "chunk files, tail": "--shard none --chunk-frames 7",
    "sharded": "--shard 8frames --chunk-frames 1",
    "sharded, tail": "--shard 20frames --chunk-frames 5",
    "live": "--live --chunk-frames 2",
    "zip": "--chunk-frames 1",
    "zip, tail": "--chunk-frames 8",
    "zarr2, tail": "--format zarr2 --chunk-frames 4",
    "zstd": "--shard 9frames --chunk-frames 3 --codec zstd:1",
    "zip, zstd": "--chunk-frames 3 --codec zstd:1",
    "plate": "--plate {fields} --chunk-frames 1 --shard 4frames",
    "plate, tail": "--plate {fields} --chunk-frames 4 --shard none --pyramid 1:mean",
    "plate, rounds": "--plate {rounds}",
    "zip, plate": "--plate {rounds}",
}
HERE = os.path.dirname(os.path.abspath(__file__))
PLATES = {name: os.path.join(HERE, f"plate-{name}.json") for name in ("fields", "rounds")}
ERRNOS = ("ENOSPC", "EIO", "EDQUOT")
TRANSFERS = "read,write,pread,pwrite"
KINDS_KILLED = "open,close,pwrite,fsync,fdatasync,rename,unlink,mkdir"
KINDS_FAILED = "open,close,pwrite,fsync,fdatasync,rename,mkdir"


def arguments():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--build", required=True, help="build directory")
    p.add_argument("--mode", choices=["kill", "errno", "short", "recover-kill"], default="kill")
    p.add_argument("--points", type=int, default=500, help="over all layouts")
    p.add_argument("--soak", type=int, default=0, help="points if TG_SOAK=1 is set")
    p.add_argument("--only", help="one layout")
    p.add_argument("--seed", type=int, default=int(os.environ.get("SEED", "1")))
    p.add_argument("--jobs", type=int, default=4, help="runs at once: most of their time is waiting")
    p.add_argument("--timeout", type=float, default=120, help="seconds until a run has hung")
    p.add_argument("--second-reader", action="store_true",
                   help="zarr-python looks at each directory, too")
    p.add_argument("--keep", action="store_true", help="keep the folder of a failed run")
    return p.parse_args()


def options_of(layout):
    return [word.format(**PLATES) for word in LAYOUTS[layout].split()]


def plate_of(layout):
    """What check_recording is told of a plate; None: no plate."""
    name = next((name for name in PLATES if "{" + name + "}" in LAYOUTS[layout]), None)
    if name is None:
        return None
    with open(PLATES[name]) as f:
        plate = json.load(f)
    return f"plate:{','.join(plate['wells'])}:{plate['fields']}:{plate['frames']}"


class Wrong(Exception):
    pass


def digest(folder):
    """Names, sizes and bytes of all files below."""
    h = hashlib.sha256()
    for at, dirs, files in os.walk(folder):
        dirs.sort()
        for name in sorted(files):
            path = os.path.join(at, name)
            h.update(os.path.relpath(path, folder).encode() + b"\0")
            with open(path, "rb") as f:
                h.update(hashlib.sha256(f.read()).digest())
    return h.hexdigest()


def progress_of(text):
    """The whole lines of `--progress json` in it, in order."""
    return [json.loads(line) for line in text.splitlines(keepends=True)
            if line.startswith('{"progress":"record"') and line.endswith("\n")]


def acknowledged(progress, level):
    """The most frames said to be 'done' (written) or 'durable'; what was said stays true."""
    said = [p[level] for p in progress]
    if said != sorted(said):
        raise Wrong(f"'{level}' went back: {said}")
    return max(said, default=0)


class Store:
    """What a recorder leaves in a folder, looked at from outside."""

    def __init__(self, tools, layout, folder):
        self.tools, self.layout, self.data = tools, layout, folder
        self.plate = plate_of(layout)
        self.allow = []  # what check_recording lets pass
        self.is_zip = layout.startswith("zip")
        self.store = os.path.join(self.data, "x.zip" if self.is_zip else "x.zarr")

    def tool(self, *command, ok=(0,)):
        done = subprocess.run(command, capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL)
        if done.returncode not in ok:
            raise Wrong(f"{os.path.basename(command[0])} {command[1]}: exit {done.returncode}: "
                        f"{(done.stdout + done.stderr).strip()[-400:]}")
        return done

    def frames(self):
        """How many true frames the store shows; None: there is no array."""
        told = self.allow + ([self.plate] if self.plate else [])
        done = self.tool(self.tools.checker, self.store, "", "0", *told, ok=(0, 3))
        if done.returncode == 3:
            return None
        shape, rows = map(int, re.match(r"frames (\d+) rows (\d+)", done.stdout).groups())
        if rows < shape:
            raise Wrong(f"{shape} frames, {rows} rows")
        return shape

    def recover(self):
        return json.loads(self.tool(self.tools.tidegate, "recover", "--json", self.store).stdout)

    def second_reader(self, shape):
        """zarr-python sees the same shape, and reads to the end of it."""
        import zarr
        root = zarr.open_group(self.store, mode="r")
        paths = [""]
        if self.plate:
            _, wells, fields, _ = self.plate.split(":")
            paths = [f"{w}/{f}/" for w in wells.split(",") for f in range(int(fields))]
        arrays = [root[path + "0"] for path in paths if path + "0" in root]
        if sum(a.shape[0] for a in arrays) != shape:
            raise Wrong(f"zarr-python sees {[a.shape for a in arrays]}, not {shape} frames")
        for array in arrays:
            if array.shape[0] > 0:
                array[array.shape[0] - 1]
        self.tools.second_reads += 1

    def check_left(self, at_least):
        """What an end at any moment leaves: before recover, after it, after it again."""
        before = None
        if not self.is_zip:
            before = self.frames()
            if before is not None and self.tools.second_reader:
                self.second_reader(before)
        elif at_least == 0 and not os.path.exists(self.store):
            return
        if before is None and at_least == 0 and not os.path.isdir(self.store + ".tidegate"):
            return  # it had not begun
        if before is None and at_least == 0 and not self.may_recover():
            return
        said = self.recover()
        after = self.frames()
        if after is None and at_least > 0:
            raise Wrong(f"{at_least} frames were acknowledged, recover made no array")
        after = after or 0
        if after < max(at_least, before or 0):
            raise Wrong(f"{at_least} frames were acknowledged, {before} were seen before "
                        f"recover, {after} after it")
        if said["frames_after"] != after:
            raise Wrong(f"recover says {said['frames_after']} frames, there are {after}")
        tree = digest(self.data)
        said = self.recover()
        if said["repaired"] != 0 or digest(self.data) != tree:
            raise Wrong(f"recover did something the second time: {said}")
        if self.frames() is not None:
            self.tool(self.tools.tidegate, "verify", self.store)
        self.tools.frames_checked += after

    def may_recover(self):
        """Before the store and its journal exist, recover has nothing to find, and says so."""
        done = self.tool(self.tools.tidegate, "recover", "--json", self.store, ok=(0, 1, 2))
        code = "incomplete" if self.is_zip else "not found"  # a ZIP's file is there at once
        if done.returncode != 0 and json.loads(done.stdout)["error"]["code"] != code:
            raise Wrong(f"recover: {done.stdout}")
        return done.returncode == 0


class Run(Store):
    """One recording with a fault, in a folder of its own."""

    def __init__(self, sweep, layout, folder):
        super().__init__(sweep, layout, os.path.join(folder, "data"))
        os.mkdir(self.data)
        self.sweep, self.folder = sweep, folder
        self.status = self.struck = None
        self.total = 0
        self.stdout = self.stderr = ""
        self.progress = []

    def record(self, base, shim):
        command = [self.sweep.tidegate, "record", self.store, *base.split(),
                   *options_of(self.layout), "--progress", "json", "--json"]
        return self.program(command, shim)

    def program(self, command, shim):
        report = os.path.join(self.folder, "shim-report")
        env = dict(os.environ, LD_PRELOAD=self.sweep.shim, TG_SHIM_REPORT=report,
                   TG_SHIM_UNDER=self.data, **shim)
        out, err = os.path.join(self.folder, "stdout"), os.path.join(self.folder, "stderr")
        with open(out, "wb") as o, open(err, "wb") as e:
            child = subprocess.Popen(command, env=env, stdout=o, stderr=e,
                                     stdin=subprocess.DEVNULL)
            try:
                self.status = child.wait(timeout=self.sweep.args.timeout)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
                raise Wrong(f"hung for {self.sweep.args.timeout} s") from None
        with open(out) as f:
            self.stdout = f.read()
        with open(err) as f:
            self.stderr = f.read()
        with open(report) as f:
            reports = [json.loads(line) for line in f if line.startswith("{")]
        self.struck = next((r["struck"] for r in reports if r["struck"]), None)
        self.total = max(r["total"] for r in reports)
        self.progress = progress_of(self.stderr)

    def acknowledged(self, level):
        return acknowledged(self.progress, level)


class Tools:
    """The programs of a build, and what was looked at with them."""

    def __init__(self, build, second_reader=False):
        build = os.path.abspath(build)
        self.tidegate = os.path.join(build, "tidegate")
        self.shim = os.path.join(build, "tests/fault/libtg_shim.so")
        self.checker = os.path.join(build, "tests/fault/check_recording")
        self.second_reader = second_reader
        self.second_reads = self.frames_checked = 0


class Sweep(Tools):
    def __init__(self, args):
        super().__init__(args.build, args.second_reader)
        self.args = args
        self.struck, self.by_layout, self.answers, self.failures = {}, {}, {}, []
        self.went_on = 0

    # --- one point of each mode ----------------------------------------------------------

    def kill(self, run, n, _name):
        run.record(PACED, {"TG_SHIM_KILL": str(n)})
        if run.struck is None:
            self.ended_well(run)  # fewer calls this time than when they were counted
            return
        if run.status != -signal.SIGKILL:
            raise Wrong(f"ended with {run.status}: {run.stderr[-300:]}")
        run.acknowledged("durable")
        run.check_left(run.acknowledged("done"))
        if os.path.isdir(run.store) and not run.frames():
            run.record(PACED + " --append", {})  # however early it died: the same call goes on
            self.ended_well(run)
            self.went_on += 1

    def recover_kill(self, run, n, _name):
        """recover itself is killed: another one ends what it had begun."""
        rng = random.Random(f"{self.args.seed} {run.layout} {n}")
        total = self.total_of_record[run.layout]
        run.record(PACED, {"TG_SHIM_KILL": str(rng.randint(total // 3, total - 20))})
        if run.status != -signal.SIGKILL:
            return
        done = run.acknowledged("done")
        run.program([self.tidegate, "recover", run.store], {"TG_SHIM_KILL": str(n)})
        if run.struck is None and run.status != 0:
            raise Wrong(f"recover: exit {run.status}: {run.stderr[-300:]}")
        run.check_left(done)

    def fail(self, run, n, name):
        sticky = random.Random(n).random() < 0.5
        shim = {"TG_SHIM_FAIL": str(n), "TG_SHIM_ERRNO": name, "TG_SHIM_STICKY": str(int(sticky))}
        if name == "short":
            shim = {"TG_SHIM_SHORT": str(n), "TG_SHIM_ONLY": TRANSFERS}
        run.record(FAST, shim)
        if run.status == 0:
            self.count_answer("went on", run)
            self.ended_well(run)
            return
        if name == "short":
            raise Wrong(f"a short transfer is no error: {run.stdout} {run.stderr[-300:]}")
        self.count_answer(f"exit {run.status}", run)
        run.allow = ["gaps"]  # slots of frames that could not be written read as fill value
        error = self.reported(run)
        if error.get("errno") != getattr(errno, name):
            raise Wrong(f"errno {error.get('errno')} reported for {name}: {error}")
        if not error.get("key") and "'" not in error["message"]:
            raise Wrong(f"no file named: {error}")
        if "tidegate record: " not in run.stderr:
            raise Wrong(f"nothing said on standard error: {run.stderr}")
        run.check_left(json.loads(run.stdout).get("durable") or 0)

    def reported(self, run):
        if run.status not in (1, 2, 3):
            raise Wrong(f"ended with {run.status}: {run.stderr[-300:]}")
        error = json.loads(run.stdout).get("error")
        if not error:
            raise Wrong(f"exit {run.status} without an error: {run.stdout}")
        return error

    def ended_well(self, run):
        said = json.loads(run.stdout)
        if run.frames() != said["frames"] or said["frames"] != said["offered"]:
            raise Wrong(f"exit 0, but {run.frames()} frames are there: {run.stdout}")
        if os.path.exists(run.store + ".tidegate"):
            run.check_left(said["frames"])
        else:
            run.tool(self.tidegate, "verify", run.store)

    def count_answer(self, answer, run):
        if run.struck:
            self.answers[answer] = self.answers.get(answer, 0) + 1

    # --- all points ----------------------------------------------------------------------

    def point(self, job):
        layout, n, name = job
        folder = tempfile.mkdtemp(prefix="record-sweep-")
        run = Run(self, layout, folder)
        work = {"kill": self.kill, "recover-kill": self.recover_kill}.get(self.args.mode, self.fail)
        try:
            work(run, n, name)
            problem = None
        except (Wrong, subprocess.TimeoutExpired, ValueError, KeyError, OSError) as e:
            problem = f"{type(e).__name__}: {e}"
        if problem:
            kept = f" [{folder}]" if self.args.keep else ""
            print(f"FAIL {layout}, {name} at {n} (struck {run.struck}): {problem}{kept}", flush=True)
            self.failures.append(job)
        if not (problem and self.args.keep):
            shutil.rmtree(folder, ignore_errors=True)
        return layout, run.struck

    def count_calls(self, layout, recovering):
        with tempfile.TemporaryDirectory(prefix="record-sweep-") as folder:
            run = Run(self, layout, folder)
            if recovering:
                run.record(PACED, {"TG_SHIM_KILL": str(self.total_of_record[layout] * 2 // 3)})
                run.program([self.tidegate, "recover", run.store], {})
                return run.total
            only = {"TG_SHIM_ONLY": TRANSFERS} if self.args.mode == "short" else {}
            run.record(PACED if "kill" in self.args.mode else FAST, only)
            if run.status != 0:
                raise SystemExit(f"FAIL {layout} without a fault: {run.stderr}")
            self.ended_well(run)
            return run.total

    def layouts(self):
        a = self.args
        return [a.only] if a.only else list(LAYOUTS)

    def jobs(self):
        a = self.args
        layouts = self.layouts()
        points = a.soak if a.soak and os.environ.get("TG_SOAK") == "1" else a.points
        rng = random.Random(a.seed)
        self.total_of_record = {x: self.count_calls(x, False) for x in layouts}
        names = {"kill": ["kill"], "recover-kill": ["kill"], "short": ["short"]}.get(a.mode, ERRNOS)
        for layout in layouts:
            total = (self.count_calls(layout, True) if a.mode == "recover-kill"
                     else self.total_of_record[layout])
            every = [(layout, n, name) for n in range(1, total + 1) for name in names]
            share = min(len(every), -(-points // len(layouts)))
            print(f"{layout}: {total} calls, {share} of {len(every)} points", flush=True)
            yield from rng.sample(every, share)

    def all(self):
        jobs = list(self.jobs())
        with concurrent.futures.ThreadPoolExecutor(self.args.jobs) as pool:
            for layout, struck in pool.map(self.point, jobs):
                if struck:
                    self.struck[struck] = self.struck.get(struck, 0) + 1
                    self.by_layout[layout] = self.by_layout.get(layout, 0) + 1
        return self.summary(len(jobs))

    def summary(self, runs):
        required = {"kill": KINDS_KILLED, "errno": KINDS_FAILED, "short": "pwrite",
                    "recover-kill": "open,pwrite,fsync,rename"}[self.args.mode]
        unseen = [k for k in required.split(",") if k not in self.struck]
        unseen += [x for x in self.layouts()
                   if x not in self.by_layout]
        print(f"record {self.args.mode}: seed {self.args.seed}, {runs} runs, "
              f"{sum(self.struck.values())} struck, {len(self.failures)} failed, "
              f"{self.frames_checked} frames recovered and compared, "
              f"{self.second_reads} stores read by zarr-python, {self.went_on} gone on with")
        for title, table in (("kind", self.struck), ("layout", self.by_layout),
                             ("answer", self.answers)):
            print(f"  by {title}: " + ", ".join(f"{k} {v}" for k, v in sorted(table.items())))
        if unseen:
            print(f"FAIL: never struck: {', '.join(unseen)}")
        if self.args.second_reader and self.second_reads == 0:
            print("FAIL: zarr-python read nothing")
            return 1
        return 1 if self.failures or unseen else 0


if __name__ == "__main__":
    sys.exit(Sweep(arguments()).all())
