#!/usr/bin/env python3
"""The recorder under powercut.sh: `record_cut.py write|check BUILD FOLDER LOG`.

Each cycle takes another layout. A frame counts as acknowledged when a line of `--progress json`
had said that it is durable before the power was cut."""
import os
import sys

from record_sweep import LAYOUTS, Store, Tools, Wrong, acknowledged, options_of, progress_of

FAST = "--memory 12MiB --from test:24x10:u16@150 --commit-interval 30ms"
# Small frames that share a chunk and come slowly: each waits in the tail file for long.
SLOW = "--memory 12MiB --from test:24x10:u16@%s --commit-interval %s --chunk-frames 8"
SLOW_RATE = ("1", "1s") if os.environ.get("TG_SOAK") == "1" else ("5", "200ms")


def workload(cycle):
    if cycle % 3 == 0:
        layout = "chunk files, tail" if cycle % 2 == 0 else "sharded, tail"
        shard = "none" if cycle % 2 == 0 else "24frames"
        return layout, (SLOW % SLOW_RATE).split() + ["--shard", shard]
    layout = list(LAYOUTS)[cycle % len(LAYOUTS)]
    return layout, FAST.split() + options_of(layout)


def write(tools, layout, options, folder, log):
    store = Store(tools, layout, folder)
    fd = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
    os.dup2(fd, 2)
    os.execv(tools.tidegate, [tools.tidegate, "record", store.store, *options, "--progress", "json"])


def check(tools, layout, folder, log):
    said = ""
    if os.path.exists(log):
        with open(log) as f:
            said = f.read()
    durable = acknowledged(progress_of(said), "durable")
    print(f"{durable} acknowledged, {layout}")
    Store(tools, layout, folder).check_left(durable)
    print(f"{tools.frames_checked} frames there")


if __name__ == "__main__":
    verb, build, folder, log = sys.argv[1:]
    layout, options = workload(int(os.environ.get("POWERCUT_CYCLE", "1")))
    try:
        if verb == "write":
            write(Tools(build), layout, options, folder, log)
        check(Tools(build), layout, folder, log)
    except Wrong as e:
        sys.exit(f"{layout}: {e}")
