#!/usr/bin/env python3
"""T46 and a camera that vanishes: `check_camera.py TIDEGATE`.

Aravis' fake GigE camera is killed in mid-recording: its array ends with an error that names it, the other source loses
nothing, what was durable stays, the exit status is not 0; `--append` goes on when the camera is back."""
import json
import pathlib
import subprocess
import sys
import tempfile
import time

FAKE = "/usr/bin/arv-fake-gv-camera-0.8"
LIMIT = 120  # seconds until something has hung


def camera():
    return subprocess.Popen([FAKE, "-i", "127.0.0.1", "-s", "TG01"], stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def end(process):
    process.kill()
    process.wait()


def same(got, want, what):
    assert got == want, f"{what}: got {got!r}, want {want!r}"


def items(tidegate, folder, path):
    done = subprocess.run([tidegate, "cat", "--json", path], cwd=folder, capture_output=True, check=True)
    return json.loads(done.stdout)["items"]


def shape(tidegate, folder, path):
    done = subprocess.run([tidegate, "info", "--json", path], cwd=folder, capture_output=True, check=True)
    return json.loads(done.stdout)["shape"]


def record(tidegate, *options):
    return [tidegate, "record", "a.zarr", "--from", "cam=aravis:127.0.0.1", "--from", "other=test:32x16:u8@100",
            "--commit-interval", "50ms", "--json", "--progress", "json", *options]


def started(tidegate, folder, options, least):
    """A recorder that has said that so many frames are durable. The camera may need a moment to come up."""
    until = time.monotonic() + LIMIT
    while True:
        process = subprocess.Popen(record(tidegate, *options), cwd=folder, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        said = ""
        for line in process.stderr:
            said += line
            if line.startswith("{") and json.loads(line).get("durable", 0) >= least:
                return process
        out, _ = process.communicate(timeout=LIMIT)
        assert '"not found"' in out and time.monotonic() < until, f"{process.returncode}: {out} {said}"
        time.sleep(0.1)


def main(tidegate, folder):
    first = camera()
    try:
        process = started(tidegate, folder, ["--frames", "1200"], 60)
    finally:
        end(first)
    out, err = process.communicate(timeout=LIMIT)
    answer = json.loads(out)
    assert process.returncode in (1, 3), f"exit status {process.returncode}: {err}"
    assert "127.0.0.1" in answer["error"]["message"] and "gone" in answer["error"]["message"], answer["error"]
    arrays = {a["name"]: a for a in answer["arrays"]}
    same(arrays["other"]["published"], 1200, "frames of the other source")
    seen = arrays["cam"]["published"]
    assert seen > 0, arrays["cam"]
    same(arrays["cam"]["durable"], seen, "durable frames of the camera")
    same(shape(tidegate, folder, "a.zarr/cam/0")[0], seen, "shape of the camera's array")
    assert not (pathlib.Path(folder) / "a.zarr.tidegate").exists(), "nothing is left to recover"
    before = items(tidegate, folder, "a.zarr/cam/frames/sequence")
    print(f"exit {process.returncode}: {answer['error']['message']}")

    second = camera()
    try:
        process = started(tidegate, folder, ["--frames", "20", "--append"], 40)
        out, err = process.communicate(timeout=LIMIT)
    finally:
        end(second)
    assert process.returncode in (0, 3), f"exit status of --append: {process.returncode} ({out} {err})"
    after = items(tidegate, folder, "a.zarr/cam/frames/sequence")
    same(after[:len(before)], before, "earlier rows")
    assert len(after) >= len(before) + 20, (len(after), len(before))  # more: packets were lost, which is marked
    assert all(a < b for a, b in zip(after, after[1:])), f"numbers that do not go on: {after}"
    assert shape(tidegate, folder, "a.zarr/cam/0")[0] >= seen + 20, "shape after --append"
    same(shape(tidegate, folder, "a.zarr/other/0")[0], 1220, "shape of the other after --append")
    status = items(tidegate, folder, "a.zarr/cam/frames/status")
    print(f"{seen} frames, then {len(after) - len(before)} more; status of the first of these: {status[len(before)]}")
    verify = subprocess.run([tidegate, "verify", "a.zarr"], cwd=folder, capture_output=True, text=True)
    same(verify.returncode, 0, f"verify: {verify.stdout}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="tg-camera-") as scratch:
        main(str(pathlib.Path(sys.argv[1]).resolve()), scratch)
