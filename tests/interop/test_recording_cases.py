"""Black-box cases of recording that no other test holds (docs/recording-cases.md), with zarr-python as the reader."""
import glob
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import numpy as np
import pytest

zarr = pytest.importorskip("zarr", reason="no environment zarr3")

from peers import BUILD  # noqa: E402
from test_ngff_interop import test_frame as frame_of  # noqa: E402

COMMAND = os.path.join(BUILD, "tidegate")
LIMIT = 240  # seconds until something has hung
pytestmark = pytest.mark.filterwarnings("ignore")


def start(out, *options, **kinds):
    return subprocess.Popen([COMMAND, "record", str(out), "--json", "--progress", "json", *map(str, options)],
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **kinds)


def ended(process, *status):
    out, err = process.communicate(timeout=LIMIT)
    assert process.returncode in status, f"exit {process.returncode}, want {status}: {out} {err[-600:]}"
    return json.loads(out)


def record(out, *options, status=0):
    return ended(start(out, *options), status)


def progress_until(process, level, least):
    """Reads the recorder's progress until so many frames have reached a level."""
    for line in process.stderr:
        if line.startswith("{") and json.loads(line).get(level, 0) >= least:
            return
    raise AssertionError(f"it ended before {least} frames were {level}")


def image(path, name="0"):
    return zarr.open_group(str(path), mode="r")[name]


def test_t8_last_shard_is_short(tmp_path):
    """T8: 1153 frames in shards of 16: 72 are full, the index of the last one has one chunk and 15 that are missing."""
    record(tmp_path / "x.zarr", "--from", "test:8x6:u16", "--frames", 1153, "--shard", "16frames", "--chunk-frames", 1)
    a = image(tmp_path / "x.zarr")
    assert a.shape == (1153, 6, 8)
    for i in (0, 1151, 1152):
        np.testing.assert_array_equal(a[i], frame_of(0, i, 6, 8, "uint16"))
    shard = (tmp_path / "x.zarr/0/c/72/0/0").read_bytes()
    index = np.frombuffer(shard[-(16 * 16 + 4):-4], "<u8").reshape(16, 2)
    assert (index[1:] == 2**64 - 1).all() and index[0, 0] == 0
    assert subprocess.run([COMMAND, "verify", str(tmp_path / "x.zarr")], capture_output=True).returncode == 0


def test_t17_the_folder_is_removed(tmp_path):
    """T17: its folder goes away while it records: an error with a file and an errno, and close returns."""
    process = start(tmp_path / "x.zarr", "--from", "test:64x64:u16@400", "--frames", 100000, "--shard", "none",
                    "--chunk-frames", 1, "--commit-interval", "50ms")
    progress_until(process, "durable", 10)
    while (tmp_path / "x.zarr").exists():  # it makes files meanwhile
        shutil.rmtree(tmp_path / "x.zarr", ignore_errors=True)
    answer = ended(process, 1)
    error = answer["error"]
    assert error["key"] or "'" in error["message"], error  # a file is named
    assert error["errno"] == 2 or error["code"] == "not found", error


def test_t17_a_file_system_that_becomes_read_only(tmp_path):
    """T17: EROFS from some call on (ext4 does so after an error): file and errno, and close returns."""
    store = tmp_path / "x.zarr"
    shim = dict(os.environ, LD_PRELOAD=os.path.join(BUILD, "tests/fault/libtg_shim.so"), TG_SHIM_UNDER=str(tmp_path),
                TG_SHIM_FAIL="600", TG_SHIM_ERRNO="30", TG_SHIM_STICKY="1")
    answer = ended(start(store, "--from", "test:64x64:u16@200", "--frames", 2000, "--commit-interval", "50ms",
                         "--shard", "none", "--chunk-frames", 1, env=shim), 1)
    error = answer["error"]
    assert error["errno"] == 30 and (error["key"] or "'" in error["message"]), error
    assert answer.get("durable", 0) < 2000


def test_t19_sealed_shards_are_moved_away(tmp_path):
    """T19: sealed shards are closed files: who moves them away frees their room, and nobody minds."""
    store = tmp_path / "x.zarr"
    process = start(store, "--from", "test:256x256:u16@100", "--shard", "20frames", "--chunk-frames", 1,
                    "--commit-interval", "50ms")
    moved = 0
    until = time.monotonic() + LIMIT
    while process.poll() is None and moved < 4 and time.monotonic() < until:
        shape = image(store).shape[0] if (store / "0/zarr.json").exists() else 0
        for number in range(shape // 20):
            shard = store / f"0/c/{number}/0/0"
            if shard.exists():
                fds = [os.path.realpath(x) for x in glob.glob(f"/proc/{process.pid}/fd/*")]
                assert os.path.realpath(shard) not in fds, "a published shard is still open"
                shard.unlink()
                moved += 1
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)  # SIGINT may be ignored from the start, by a job in the background
    answer = ended(process, 0)
    last = answer["frames"] - 1
    assert moved >= 4 and last >= 80
    a = image(store)
    np.testing.assert_array_equal(a[last], frame_of(0, last, 256, 256, "uint16"))
    assert not a[0].any()  # moved away: fill value


READERS = {"unsharded": ["--shard", "none", "--chunk-frames", "1"],
           "sealed shards": ["--shard", "10frames", "--chunk-frames", "1"],
           "live": ["--live", "--shard", "50frames", "--chunk-frames", "1"]}


@pytest.mark.parametrize("layout", READERS)
def test_t20_a_reader_beside_the_recorder(tmp_path, layout):
    """T20: whenever it is opened it is whole, the shape never goes back, and each frame below it is the camera's."""
    store = tmp_path / "x.zarr"
    process = start(store, "--from", "test:96x64:u16@200", "--commit-interval", "50ms", *READERS[layout])
    last, looks, seen = 0, 0, set()
    until = time.monotonic() + LIMIT
    while process.poll() is None and (looks < 30 or last < 100) and time.monotonic() < until:
        if (store / "0/zarr.json").exists():
            a = image(store)
            assert a.shape[0] >= last, "the shape went back"
            for i in {last, a.shape[0] // 2, a.shape[0] - 1} - seen:
                if 0 <= i < a.shape[0]:
                    np.testing.assert_array_equal(a[i], frame_of(0, i, 64, 96, "uint16"))
                    seen.add(i)
            last, looks = a.shape[0], looks + 1
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)  # SIGINT may be ignored from the start, by a job in the background
    answer = ended(process, 0)
    assert looks >= 30 and last >= 100 and image(store).shape[0] == answer["frames"]


def test_t22_a_long_inner_dimension(tmp_path):
    """T22: 62,500 planes in a volume: memory is the budget, frames are durable during the sweep; a volume to a
    chunk would not fit, which is refused with both numbers. (Volumes cannot share a chunk: it spans the fastest axis.)"""
    planes = ["--from", "test:16x16:u8", "--dims", "t=0,z=62500"]
    report = tmp_path / "rss"
    done = subprocess.run([os.path.join(BUILD, "tests/cli/measure"), str(report), COMMAND, "record",
                           str(tmp_path / "x.zarr"), *planes, "--frames", "70000", "--chunk-frames", "1", "--shard",
                           "10000frames", "--memory", "48MiB", "--json"], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode in (0, 3), done.stderr
    answer = json.loads(done.stdout)
    assert answer["durable"] == answer["offered"] == 70000, answer
    assert int(report.read_text()) <= (48 + 16) << 20
    a = image(tmp_path / "x.zarr")
    for i in (0, 1, 62499, 62500, 69999):
        np.testing.assert_array_equal(a[i // 62500, i % 62500], frame_of(0, i, 16, 16, "uint8"))
    answer = record(tmp_path / "y.zarr", *planes, "--frames", 4, "--chunk-frames", 62500, "--memory", "24MiB", status=2)
    assert answer["error"]["code"] == "over the budget" and not (tmp_path / "y.zarr").exists(), answer


def test_t29_arrays_in_a_foreign_hierarchy(tmp_path):
    """T29: siblings, parent and child, and a foreign group whose attributes stay as they are."""
    root = zarr.create_group(str(tmp_path / "x.zarr"))
    root.attrs.update({"mine": {"a": [1, 2.5, None]}})
    foreign = root.create_group("foreign")
    foreign.attrs["keep"] = "é"
    before = {k: (tmp_path / "x.zarr" / k / "zarr.json").read_bytes() for k in ("", "foreign")}
    record(tmp_path / "x.zarr/foreign/run", "--from", "a=test:9x7:u8", "--from", "a2=test:5x4:u16", "--from",
           "deep/b=test:6x3:u8", "--frames", 4)
    for key, text in before.items():
        assert (tmp_path / "x.zarr" / key / "zarr.json").read_bytes() == text
    run = zarr.open_group(str(tmp_path / "x.zarr/foreign/run"), mode="r")
    for number, (name, shape, dtype) in enumerate((("a", (7, 9), "uint8"), ("a2", (4, 5), "uint16"),
                                                   ("deep/b", (3, 6), "uint8"))):
        np.testing.assert_array_equal(run[f"{name}/0"][3], frame_of(number, 3, *shape, dtype))


def test_t32_a_million_rows(tmp_path):
    """T32: a row for each of a million frames, with times in ns that never go back."""
    n = 1000000 if os.environ.get("TG_SOAK") else 200000
    record(tmp_path / "x.zarr", "--from", "test:8x8:u8", "--frames", n)
    table = zarr.open_group(str(tmp_path / "x.zarr"), mode="r")["frames"]
    for name in ("sequence", "index"):
        np.testing.assert_array_equal(table[name][:], np.arange(n))
    times = table["time_host"][:]
    assert times.dtype == np.int64 and (np.diff(times) >= 0).all() and not table["status"][:].any()
    np.testing.assert_array_equal(image(tmp_path / "x.zarr")[n - 1], frame_of(0, n - 1, 8, 8, "uint8"))


def test_t40_a_shard_of_a_million_chunks(tmp_path):
    """T40: one shard, a million chunks; the first and the last frame read back, memory within the budget."""
    report = tmp_path / "rss"
    done = subprocess.run([os.path.join(BUILD, "tests/cli/measure"), str(report), COMMAND, "record",
                           str(tmp_path / "x.zarr"), "--from", "test:2x2:u8", "--frames", "100000", "--chunk-frames", "1",
                           "--shard", "1000000frames", "--json"], capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert int(report.read_text()) <= (256 + 16) << 20
    assert image(tmp_path / "x.zarr").shards[0] == 1000000
    for i in (0, 99999):
        cat = subprocess.run([COMMAND, "cat", "--json", "--region", str(i), str(tmp_path / "x.zarr/0")],
                             capture_output=True, text=True, timeout=LIMIT)
        assert json.loads(cat.stdout)["items"] == frame_of(0, i, 2, 2, "uint8").ravel().tolist()


def test_t37_latencies_are_of_frames(tmp_path):
    """The test beside T37: what was offered was written or dropped, and the latencies are in order."""
    answer = record(tmp_path / "x.zarr", "--from", "test:512x512:u16@200", "--frames", 200, "--on-full", "drop-new")
    latency = answer["append_us"]
    assert answer["offered"] == answer["written"] + answer["dropped"] == 200
    assert latency["p50"] <= latency["p99"] <= latency["p999"] <= latency["max"], latency


def test_t5_killed_before_the_first_commit(tmp_path):
    """T5: at any moment of its beginning the store opens with no frames, or is not there; never half a document."""
    process = start(tmp_path / "x.zarr", "--from", "test:64x64:u8@20", "--commit-interval", "60s")
    until = time.monotonic() + LIMIT
    while not (tmp_path / "x.zarr.tidegate/journal").exists() and time.monotonic() < until:
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=LIMIT)
    for document in (tmp_path / "x.zarr").rglob("zarr.json"):
        json.loads(document.read_text())
    if (tmp_path / "x.zarr/0/zarr.json").exists():
        assert image(tmp_path / "x.zarr").shape[0] == 0
