"""One run of the recorder beside the peers: the JSON of write_frames.py from that of `tidegate bench record`.

    write_tidegate.py TIDEGATE --scenario frames8m|frames772|crops64 --frames N [--set memory=80MiB] --dir WORK

The frames, the stamp in them and the clock are those of the other peers; bench/README.md has the method.
"""

import argparse
import json
import subprocess
import sys

import common

SCENARIOS = {"frames8m": "frames8m", "frames772": "frames772", "crops64": "crops"}


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("tidegate")
    p.add_argument("--scenario", choices=SCENARIOS, required=True)
    p.add_argument("--frames", type=int, required=True)
    p.add_argument("--set", action="append", default=[])
    p.add_argument("--dir", default=".")
    args = p.parse_args()
    config = common.settings(args.set)

    command = [args.tidegate, "bench", "record", "--scenario", SCENARIOS[args.scenario], "--alone", "--rounds", "1",
               "--frames", str(args.frames), "--dir", args.dir, "--json", "--progress", "none"]
    command += [f"--{key}={value}" for key, value in config.items()]
    done = subprocess.run(command, capture_output=True, text=True)
    answer = json.loads(done.stdout)
    if done.returncode != 0:
        sys.exit(answer["error"]["message"])
    version = subprocess.run([args.tidegate, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
    run = answer["scenarios"][0]["contenders"][0]["rounds"][0]
    append = run["append_us"]
    common.emit(
        peer="tidegate",
        version=version,
        scenario=args.scenario,
        config=config,
        mib_per_s=round(run["mib_per_s"], 1),
        frames_per_s=round(run["frames_per_s"], 1),
        rss_bytes_peak=run["rss_bytes_peak"],
        rss_bytes_before=run["rss_bytes_before"],
        append_ms={key: round(append[key] / 1e3, 4) for key in ("p50", "p99", "max")},
        frames=run["frames"],
        filesystem=answer["machine"]["file_system"],
    )


if __name__ == "__main__":
    main()
