#!/usr/bin/env python3
"""Run the command as users do, from the scripts in cases/, and compare what it says.

    run_cases.py TIDEGATE [--update] [CASE...]

A case is a text file. It runs in an empty folder of its own, in which `tidegate` is on the path.

    # a remark
    $ tidegate cat nowhere.zarr        a line for sh
    > text                             the lines it prints on standard output
    ! text                             and on standard error
    ? 1                                its exit status; none given: 0

In expected lines <...> stands for any run of characters; "> ..." alone for any number of lines. With --update the
expectations are written anew from what happens, but a line with <...> that still matches stays as it is.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SECONDS = 60


class Step:
    def __init__(self, remarks, command):
        self.remarks, self.command = remarks, command
        self.want = {">": [], "!": []}
        self.status = 0


def read_case(path):
    steps, remarks = [], []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        mark, text = line[:1], line[2:]
        if mark == "$":
            steps.append(Step(remarks, text))
            remarks = []
        elif mark in (">", "!") and steps:
            steps[-1].want[mark].append(text)
        elif mark == "?" and steps:
            steps[-1].status = int(text)
        elif mark in ("#", ""):
            remarks.append(line)
        else:
            sys.exit(f"{path}:{number}: no line begins so: {line}")
    return steps, remarks


def pattern(line):
    return re.compile("".join(".*" if part == "<...>" else re.escape(part) for part in re.split(r"(<\.\.\.>)", line)))


def matches(want, got):
    """Do the lines match, "..." standing for any number of them?"""
    if not want:
        return not got
    if want[0] == "...":
        return any(matches(want[1:], got[k:]) for k in range(len(got) + 1))
    return bool(got) and pattern(want[0]).fullmatch(got[0]) is not None and matches(want[1:], got[1:])


def updated(want, got):
    if matches(want, got):
        return want
    return [next((w for w in want if "<...>" in w and pattern(w).fullmatch(line)), line) for line in got]


def run(step, folder, env):
    done = subprocess.run(["sh", "-c", step.command], cwd=folder, env=env, stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=SECONDS)
    lines = [out.decode("utf-8", "backslashreplace").splitlines() for out in (done.stdout, done.stderr)]
    return done.returncode, {">": lines[0], "!": lines[1]}


def check(path, tidegate, update):
    steps, tail = read_case(path)
    failures, written = [], []
    with tempfile.TemporaryDirectory(prefix="tidegate case ") as folder:
        tools = pathlib.Path(folder) / ".tools"
        tools.mkdir()
        (tools / "tidegate").symlink_to(tidegate)
        env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "LC_ALL": "C", "TZ": "UTC"}
        for step in steps:
            status, got = run(step, folder, env)
            for mark, name in ((">", "standard output"), ("!", "standard error")):
                if not matches(step.want[mark], got[mark]):
                    failures.append(f"{path.name}: $ {step.command}\n  {name}:\n"
                                    + "".join(f"    want {w}\n" for w in step.want[mark])
                                    + "".join(f"    got  {g}\n" for g in got[mark]))
            if status != step.status:
                failures.append(f"{path.name}: $ {step.command}\n  exit status {status}, want {step.status}\n"
                                + "".join(f"    {g}\n" for g in got["!"]))
            written += step.remarks + [f"$ {step.command}"]
            for mark in (">", "!"):
                written += [f"{mark} {line}".rstrip() for line in updated(step.want[mark], got[mark])]
            written += [f"? {status}"] if status else []
    if update and failures:
        path.write_text("\n".join(written + tail) + "\n")
    return failures, len(steps)


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("tidegate", type=pathlib.Path)
    args.add_argument("--update", action="store_true")
    args.add_argument("case", nargs="*")
    args = args.parse_intermixed_args()
    paths = [p for p in sorted((HERE / "cases").glob("*.txt")) if not args.case or p.stem in args.case]
    failures, steps = [], 0
    for path in paths:
        found, n = check(path, args.tidegate.resolve(), args.update)
        failures += found
        steps += n
    print("\n".join(failures))
    print(f"{len(paths)} cases, {steps} steps, {len(failures)} differences")
    sys.exit(1 if (failures and not args.update) or steps == 0 else 0)


if __name__ == "__main__":
    main()
