#!/usr/bin/env python3
"""Peak memory (VmHWM, from outside) of record, recover, verify, cat, info: `record_memory.py BUILD`.

The budget plus 16 MiB holds whatever the data: 100 times the budget, a disk that cannot keep up,
a codec that cannot keep up. TG_SOAK=1 takes 64 MiB and a slow codec for longer."""
import json
import os
import subprocess
import sys
import tempfile

MIB = 1 << 20
SOAK = os.environ.get("TG_SOAK") == "1"
BUDGET = 64 if SOAK else 12  # MiB
FRAME = "512x512:u16"  # half a MiB
failures = 0


def measured(build, name, budget, command, ok, env=None):
    """Run it; its standard output. The peak is compared and printed."""
    global failures
    with tempfile.NamedTemporaryFile("r") as peak:
        done = subprocess.run([os.path.join(build, "tests/cli/measure"), peak.name,
                               os.path.join(build, "tidegate"), *command],
                              capture_output=True, text=True, errors="replace",
                              env=dict(os.environ, **(env or {})),
                              stdin=subprocess.DEVNULL, timeout=1800)
        most = int(peak.read())
    good = done.returncode == ok and most <= (budget + 16) * MIB
    failures += not good
    print(f"{'ok  ' if good else 'FAIL'} {name}: peak {most / MIB:.1f} MiB, budget {budget} MiB, "
          f"exit {done.returncode} {'' if good else (done.stdout + done.stderr)[-300:]}", flush=True)
    return done.stdout


def record(build, name, store, budget, options, ok=0, env=None):
    out = measured(build, name, budget, ["record", store, "--memory", f"{budget}MiB", "--json",
                                         "--progress", "none", *options.split()], ok, env)
    return json.loads(out)


def main(build):
    global failures
    with tempfile.TemporaryDirectory(prefix="record-memory-") as folder:
        big, memory = os.path.join(folder, "big.zarr"), ["--memory", f"{BUDGET}MiB"]
        frames = BUDGET * 100 * 2
        said = record(build, "100 times the budget", big, BUDGET,
                      f"--from test:{FRAME} --frames {frames} --shard 64MiB")
        if said.get("frames") != frames:
            failures += 1
            print(f"FAIL {said}")
        measured(build, "recover", BUDGET, ["recover", *memory, big], 0)
        measured(build, "verify", BUDGET, ["verify", *memory, "--progress", "none", big], 0)
        measured(build, "info", BUDGET, ["info", *memory, big + "/0"], 0)
        measured(build, "cat", BUDGET, ["cat", *memory, "--npy", "--region", "100:102",
                                        big + "/0"], 0)
        slow = {"LD_PRELOAD": os.path.join(build, "tests/fault/libtg_shim.so"),
                "TG_SHIM_UNDER": folder, "TG_SHIM_SLOW": "20"}
        said = record(build, "disk of 20 MB/s, camera of 80", os.path.join(folder, "slow.zarr"),
                      BUDGET, f"--from test:{FRAME}@150 --seconds {60 if SOAK else 5}s "
                      "--on-full drop-new", 3, slow)
        if said["written"] + said["dropped"] != said["offered"] or said["dropped"] == 0:
            failures += 1
            print(f"FAIL written and dropped are not what was offered: {said}")
        record(build, "zstd 9, a source of 60 fps", os.path.join(folder, "zstd.zarr"), 64,
               f"--from test:2048x2048:u16@60 --frames {800 if SOAK else 24} --codec zstd:9")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
