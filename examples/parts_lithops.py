#!/usr/bin/env python3
"""A job in N parts as Lithops functions, one a part. Parts that are not done (their deadline came, they were killed,
another run still has them) go out again until all are.

usage: parts_lithops.py N COMMAND...   "{part}" in it becomes "0/N", "1/N", ...
       parts_lithops.py 8 tidegate annotate sample.imzML out --db db.csv --resume --part {part} --deadline 5m --memory 1GiB

Give the deadline a margin below the function's time limit, and --memory one below its memory (16 MiB and Python). The
backend is what Lithops' configuration says, else localhost; data, out and the command must be where functions run.
"""
import os
import subprocess
import sys

DONE, NOT_DONE, TRY_AGAIN = 0, 3, 75
MOST_ROUNDS, MOST_FAILURES = 1000, 3


def run_part(part, command):
    """One part: its exit status and what it said last."""
    words = [word.replace("{part}", part) for word in command]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return done.returncode, done.stderr[-500:]


def round_of(executor, parts, command):
    """Status of each of these parts, run side by side; what a function died of counts as a failure."""
    futures = executor.map(run_part, [(part, command) for part in parts])
    executor.wait(futures, throw_except=False)
    told = {}
    for part, future in zip(parts, futures):
        try:
            told[part] = future.result()
        except Exception as error:  # of whatever kind: the part goes out again
            told[part] = (-1, str(error))
    return told


def run_all(executor, n, command):
    left, failures = [f"{i}/{n}" for i in range(n)], {}
    for _ in range(MOST_ROUNDS):
        told = round_of(executor, left, command)
        left = [part for part in left if told[part][0] != DONE]
        for part in left:
            if told[part][0] not in (NOT_DONE, TRY_AGAIN):
                failures[part] = failures.get(part, 0) + 1
                if failures[part] == MOST_FAILURES:
                    sys.exit(f"part {part}: exit {told[part][0]}: {told[part][1]}")
        print(f"{n - len(left)} of {n} parts done", flush=True)
        if not left:
            return
    sys.exit(f"after {MOST_ROUNDS} rounds {len(left)} parts are not done")


def main():
    import lithops

    n, command = int(sys.argv[1]), sys.argv[2:]
    command = [os.path.abspath(word) if os.path.exists(word) else word for word in command]
    has_config = os.environ.get("LITHOPS_CONFIG_FILE") or os.path.exists(os.path.expanduser("~/.lithops/config"))
    local = {"lithops": {"backend": "localhost", "storage": "localhost", "telemetry": False},
             "localhost": {"runtime": sys.executable}}
    with lithops.FunctionExecutor(config=None if has_config else local) as executor:
        run_all(executor, n, command)


if __name__ == "__main__":
    main()
