#!/usr/bin/env python3
"""apply under powercut.sh: `apply_cut.py write|check BUILD FOLDER LOG`.

Each cycle takes another case of apply_sweep.py. After the cut, before anything is run again, each
unit is old or new and whole; then the same command ends in what an uninterrupted run makes. A run
that had said before the cut that all is done must need no other: its units count as acknowledged."""
import argparse
import os
import pickle
import shutil
import sys

from apply_sweep import CASES, Case, Run, Sweep
from record_sweep import Wrong


class Cut(Run):
    """A run whose folder is there: on the file system whose power is cut."""

    def __init__(self, sweep, case, data):  # pylint: disable=super-init-not-called
        self.sweep, self.case, self.data = sweep, case, data
        self.out = os.path.join(data, case.out)
        self.aside = self.out + ".tidegate"
        self.struck = None


def prepared(sweep, build, name):
    """The case, made by the first cycle that wants it: later cuts fall into apply alone."""
    folder = os.path.join(build, "apply-cut", str(list(CASES).index(name)))
    if not os.path.exists(os.path.join(folder, "case")):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        case = Case(sweep, name, folder)
        with open(os.path.join(folder, "case.new"), "wb") as f:
            pickle.dump(case, f)
        os.rename(os.path.join(folder, "case.new"), os.path.join(folder, "case"))
    with open(os.path.join(folder, "case"), "rb") as f:
        return pickle.load(f)


def note(log, word):
    with open(log, "a", encoding="ascii") as f:
        f.write(word + "\n")


def write(case, data, log):
    shutil.copytree(case.start, data)
    os.sync()
    note(log, "ready")
    os.chdir(data)
    fd = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(fd, 1)  # its JSON, which it prints when all is done
    os.execv(case.command[0], case.command)


def check(sweep, case, data, log):
    said = ""
    if os.path.exists(log):
        with open(log, encoding="ascii") as f:
            said = f.read()
    if "ready" not in said:
        print(f"0 acknowledged, {case.name}: too early")
        return
    run = Cut(sweep, case, data)
    if '"rois"' in said and '"error"' not in said:
        run.check_end()
        run.check_nothing_left()
        print(f"{len(case.new)} acknowledged, {case.name}")
        return
    run.end_it()
    print(f"0 acknowledged, {case.name}: {sweep.units_checked} units compared, then ended")


if __name__ == "__main__":
    verb, build, folder, log = sys.argv[1:]
    sweep = Sweep(argparse.Namespace(build=build, timeout=300, seed=1, mode="cut", points=0,
                                     only=None, jobs=1, keep=False))
    name = list(CASES)[int(os.environ.get("POWERCUT_CYCLE", "1")) % len(CASES)]
    case = prepared(sweep, build, name)
    data = os.path.join(folder, "data")
    try:
        if verb == "write":
            write(case, data, log)
        check(sweep, case, data, log)
    except (Wrong, ValueError, OSError) as e:
        sys.exit(f"{name}: {type(e).__name__}: {e}")
