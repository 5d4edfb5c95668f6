#!/usr/bin/env python3
"""Run a program again and again, each time with another of its calls on files
going wrong, and check what it left behind. See README.md beside this file."""
import argparse
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile


def arguments():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--shim", required=True, help="the preload library")
    p.add_argument("--binary", required=True, help="command to run, by sh -c; {dir}: a new folder")
    p.add_argument("--setup", help="command before each run, without the shim")
    p.add_argument("--check", required=True, help="command after each run; exit 0: all is well")
    p.add_argument("--under", default="{dir}/data", help="only calls below this path are counted")
    p.add_argument("--only", help="kinds of calls to count, by commas; default all")
    p.add_argument("--mode", default="kill", choices=["kill", "errno", "short", "random-kill"])
    p.add_argument("--errno", default="ENOSPC", help="names, by commas")
    p.add_argument("--sticky", default="once", choices=["once", "sticky", "both"])
    p.add_argument("--points", type=int, default=0, help="at most so many points; 0: every call")
    p.add_argument("--seed", type=int, default=int(os.environ.get("SEED", "1")))
    p.add_argument("--timeout", type=float, default=30, help="seconds until a run has hung")
    p.add_argument("--require", default="", help="kinds that must have been struck, by commas")
    p.add_argument("--tmp", default=None, help="where the folders are made")
    p.add_argument("--keep", action="store_true", help="keep the folder of a failed run")
    p.add_argument("--json", help="write the summary there, too")
    return p.parse_args()


class Sweep:
    def __init__(self, args):
        self.args = args
        self.struck = {}
        self.failures = []
        self.runs = self.silent_ok = self.exit_zero = 0

    def command(self, text, folder):
        return text.replace("{dir}", folder)

    def run_once(self, folder, shim_env):
        """Exit status of the program (negative: its signal, None: hung), its stderr, report."""
        a = self.args
        if a.setup:
            subprocess.run(self.command(a.setup, folder), shell=True, check=True,
                           stdout=subprocess.DEVNULL)
        report = os.path.join(folder, "shim-report")
        # The shell itself must not be numbered: it gives way to the program by exec.
        env = dict(os.environ, LD_PRELOAD=os.path.abspath(a.shim), TG_SHIM_REPORT=report,
                   TG_SHIM_UNDER=self.command(a.under, folder), **shim_env)
        if a.only:
            env["TG_SHIM_ONLY"] = a.only
        out, err = os.path.join(folder, "stdout"), os.path.join(folder, "stderr")
        with open(out, "wb") as o, open(err, "wb") as e:
            child = subprocess.Popen(["sh", "-c", "exec " + self.command(a.binary, folder)],
                                     env=env, stdout=o, stderr=e, start_new_session=True)
            try:
                delay = shim_env.get("TG_SWEEP_DELAY")
                if delay:
                    try:
                        child.wait(timeout=float(delay))
                    except subprocess.TimeoutExpired:
                        child.kill()
                status = child.wait(timeout=a.timeout)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
                status = None
        reports = []
        if os.path.exists(report):
            with open(report) as f:
                reports = [json.loads(line) for line in f if line.startswith("{")]
        with open(err, errors="replace") as f:
            return status, f.read(), reports

    def point(self, name, shim_env):
        a = self.args
        folder = tempfile.mkdtemp(prefix="sweep-", dir=a.tmp)
        try:
            status, stderr, reports = self.run_once(folder, shim_env)
            struck = next((r["struck"] for r in reports if r["struck"]), None)
            total = max((r["total"] for r in reports), default=0)
            self.runs += 1
            if struck:
                self.struck[struck] = self.struck.get(struck, 0) + 1
            problem = None
            if status is None:
                problem = f"hung for {a.timeout} s"
            elif status < 0 and not (status == -signal.SIGKILL and "kill" in a.mode):
                problem = f"ended by signal {-status}"
            elif a.mode == "errno" and struck and status != 0 and not stderr.strip():
                problem = f"exit {status} without a word"
            elif status == 0 and struck:
                self.exit_zero += 1
            if problem is None:
                env = dict(os.environ, TG_SWEEP_EXIT=str(status), TG_SWEEP_STRUCK=struck or "",
                           TG_SWEEP_MODE=a.mode)
                done = subprocess.run(self.command(a.check, folder), shell=True, env=env,
                                      capture_output=True, text=True, timeout=a.timeout * 4)
                if done.returncode != 0:
                    problem = (done.stdout + done.stderr).strip()[-600:] or "check failed"
            if problem:
                self.failures.append(name)
                print(f"FAIL {name} (struck {struck}): {problem}", flush=True)
                if a.keep:
                    print(f"     kept {folder}")
                    folder = None
            return total
        finally:
            if folder:
                shutil.rmtree(folder, ignore_errors=True)

    def points(self, total):
        numbers = list(range(1, total + 1))
        if self.args.points and total > self.args.points:
            numbers = sorted(random.Random(self.args.seed).sample(numbers, self.args.points))
        return numbers

    def all(self):
        a = self.args
        total = self.point("no fault", {})
        if total == 0:
            print("FAIL: no call was counted")
            return 1
        if a.mode == "random-kill":
            rng = random.Random(a.seed)
            for i in range(a.points or 50):
                delay = rng.uniform(0.001, 0.5)
                self.point(f"kill after {delay:.3f} s", {"TG_SWEEP_DELAY": str(delay)})
        for n in [] if a.mode == "random-kill" else self.points(total):
            if a.mode == "kill":
                self.point(f"kill at {n}", {"TG_SHIM_KILL": str(n)})
            elif a.mode == "short":
                self.point(f"short at {n}", {"TG_SHIM_SHORT": str(n)})
            else:
                for e in a.errno.split(","):
                    for s in {"once": [0], "sticky": [1], "both": [0, 1]}[a.sticky]:
                        self.point(f"{e} at {n} {'for good' if s else 'once'}",
                                   {"TG_SHIM_FAIL": str(n), "TG_SHIM_ERRNO": e,
                                    "TG_SHIM_STICKY": str(s)})
        return self.summary(total)

    def summary(self, total):
        a = self.args
        missing = [k for k in a.require.split(",") if k and k not in self.struck]
        kinds = " ".join(f"{k} {v}" for k, v in sorted(self.struck.items()))
        print(f"sweep {a.mode}: seed {a.seed}, {total} calls, {self.runs} runs, "
              f"{len(self.failures)} failed, {self.exit_zero} went on in spite of the fault; "
              f"struck: {kinds or 'none'}")
        if missing:
            print(f"FAIL: never struck: {', '.join(missing)}")
        if a.json:
            with open(a.json, "w") as f:
                json.dump({"mode": a.mode, "seed": a.seed, "calls": total, "runs": self.runs,
                           "failures": self.failures, "struck": self.struck}, f, indent=2)
        return 1 if self.failures or missing else 0


if __name__ == "__main__":
    sys.exit(Sweep(arguments()).all())
