#!/usr/bin/env python3
"""Annotate generated data in little memory: the peak seen from outside stays within the budget and 16 MiB, and the
results are those of a run with plenty, byte for byte.

    annotate_memory.py TIDEGATE MEASURE [CASE...]

MEASURE: the program of tests/cli/measure.c. `small` runs each time, `60m` and `250m` in the soak (12 GiB of disk).
"""
import json
import pathlib
import subprocess
import sys
import tempfile

MIB = 1 << 20
ALLOWED = 16 * MIB  # beside the budget: code, libraries, stacks
# shape, peaks a spectrum, least peaks in all, budget, options; the other run has PLENTY
CASES = {
    "small": ("100,120", "250", 3_000_000, "32MiB", ["--segment", "1MiB"]),
    "60m": ("300,400", "500", 59_000_000, "128MiB", []),
    "250m": ("300,400", "2100", 249_000_000, "256MiB", []),
}
PLENTY = "4GiB"


def run(*command):
    done = subprocess.run([*map(str, command), "--json", "--progress", "none"], capture_output=True, text=True,
                          timeout=3600, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def bytes_of(memory):
    return int(memory[:-3]) << {"MiB": 20, "GiB": 30}[memory[-3:]]


def files(folder):
    return {str(p.relative_to(folder)): p for p in sorted(folder.rglob("*")) if p.is_file()}


def annotate(folder, measure, tidegate, name, memory, options, again):
    """One run; without what an earlier one sorted unless `again`. What it says, and its memory peak."""
    if not again:
        subprocess.run(["rm", "-rf", folder / "made.imzML.tidegate"], check=True)
    out = run(measure, folder / "peak", tidegate, "annotate", folder / "made.imzML", folder / name, "--db",
              folder / "made.db.csv", "--memory", memory, *options)
    peak = int((folder / "peak").read_text())
    most = bytes_of(memory) + ALLOWED
    print(f"  {memory}{', sorted before' if again else ''}: {out['peaks']} peaks, {out['spilled_bytes']} bytes spilled, "
          f"{out['segments']} segments read, peak {peak / MIB:.1f} MiB of {most / MIB:.0f}, {out['seconds']:.1f} s")
    if peak > most:
        sys.exit(f"{name}: {peak} bytes were resident, {most} are allowed")
    if out["sorted_before"] != again:
        sys.exit(f"{name}: sorted before: {out['sorted_before']}, want {again}")
    return out


def check(tidegate, measure, case):
    shape, fill, least, memory, options = CASES[case]
    print(case, flush=True)
    with tempfile.TemporaryDirectory(prefix="tg-annotate-memory-") as name:
        folder = pathlib.Path(name)
        made = run(tidegate, "bench", "annotate", "--generate", folder / "made", "--shape", shape, "--fill", fill)
        if made["peaks"] < least:
            sys.exit(f"{made['peaks']} peaks were made, {least} are wanted")
        tight = annotate(folder, measure, tidegate, "tight", memory, options, False)
        if tight["spilled_bytes"] < 16 * least or tight["annotated"]["fdr10"] < 50:
            sys.exit(f"nothing was tested: {tight}")
        annotate(folder, measure, tidegate, "again", memory, options, True)
        annotate(folder, measure, tidegate, "plenty", PLENTY, options, False)
        want = files(folder / "plenty")
        for other in ("tight", "again"):
            got = files(folder / other)
            unlike = [k for k in sorted(set(got) | set(want))
                      if k not in got or k not in want or got[k].read_bytes() != want[k].read_bytes()]
            if unlike or len(want) < 50:
                sys.exit(f"{case}: of {len(want)} files {len(unlike)} of run '{other}' differ: {unlike[:5]}")
        print(f"  {len(want)} files are the same", flush=True)


def main():
    for case in sys.argv[3:] or ["small"]:
        check(sys.argv[1], sys.argv[2], case)


main()
