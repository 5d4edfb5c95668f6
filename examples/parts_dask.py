#!/usr/bin/env python3
"""A job in N parts as dask.distributed tasks, one a part; a part that fails is tried up to 3 times.

usage: parts_dask.py N COMMAND...      "{part}" in it becomes "0/N", "1/N", ...
       parts_dask.py 8 tidegate run smooth.plan --part {part}

Give the address of a scheduler in DASK_SCHEDULER_ADDRESS; else workers are started here.
"""
import os
import subprocess
import sys
import time


def run_part(command, part):
    """Run one part, also again for up to 120 s while another run has it (exit 75)."""
    words = [word.replace("{part}", part) for word in command]
    end = time.monotonic() + 120
    while True:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode != 75 or time.monotonic() > end:
            break
        time.sleep(1)
    if done.returncode != 0:
        raise RuntimeError(f"part {part}: exit {done.returncode}: {done.stderr[-500:]}")
    return part


def main():
    from dask.distributed import Client, LocalCluster

    n, command = int(sys.argv[1]), sys.argv[2:]
    address = os.environ.get("DASK_SCHEDULER_ADDRESS")
    cluster = address or LocalCluster(n_workers=2, threads_per_worker=2, dashboard_address=None, host="127.0.0.1")
    with Client(cluster) as client:
        tasks = [client.submit(run_part, command, f"{i}/{n}", pure=False, retries=3) for i in range(n)]
        for part in client.gather(tasks):
            print("done", part)
    if not address:
        cluster.close()


if __name__ == "__main__":
    main()
