#!/usr/bin/env python3
"""What scripts rely on: JSON of every verb, exit statuses, signals, memory measured from outside.

    check_command.py TIDEGATE MEASURE [--memory] [NAME...]
"""
import argparse
import csv
import json
import os
import pathlib
import re
import resource
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback

from page import check_page

SECONDS = 300
MIB = 1 << 20
NUMBER = (int, float)
RECORD = {"offered": int, "written": int, "durable": int, "published": int, "dropped": int, "skipped": int,
          "partial": int, "errors": int, "lost": int, "repeated": int, "seconds": NUMBER, "mib_per_s": NUMBER,
          "append_us": {"p50": NUMBER, "p99": NUMBER, "p999": NUMBER, "max": NUMBER}, "stall_ms_max": NUMBER,
          "stalls": int, "queue_bytes_peak": int, "rss_bytes_peak": int, "budget_bytes": int, "frames": int,
          "shape": [int]}
ERROR = {"code": str, "message": str, "key": (str, type(None)), "offset": (int, type(None)), "errno": int}

TESTS = []


def test(function):
    TESTS.append(function)
    return function


class Command:
    def __init__(self, tidegate, measure, folder):
        self.tidegate, self.measure, self.folder = tidegate, measure, folder

    def start(self, *args, **kinds):
        kinds = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **kinds}
        return subprocess.Popen([self.tidegate, *map(str, args)], cwd=self.folder, **kinds)

    def run(self, *args, status=0, **kinds):
        """(standard output, standard error) as text; the exit status must be `status`."""
        process = self.start(*args, **kinds)
        out, err = process.communicate(timeout=SECONDS)
        got = process.returncode
        assert got == status, f"{args}: exit status {got}, want {status}\n{(err or b'').decode()}"
        return [(x or b"").decode() for x in (out, err)]

    def json(self, *args, **kinds):
        out, _ = self.run(*args, "--json", **kinds)
        assert out.endswith("}\n") and "\n" not in out.strip(), f"one object on one line, got: {out[:300]}"
        return json.loads(out)

    def rss(self, *args, status=0, **env):
        """Peak of resident memory, from outside."""
        report = pathlib.Path(self.folder) / "rss"
        done = subprocess.run([self.measure, report, self.tidegate, *map(str, args)], cwd=self.folder, env={**os.environ, **env},
                              capture_output=True, timeout=SECONDS, check=False)
        assert done.returncode == status, f"{args}: exit status {done.returncode}\n{done.stderr.decode()}"
        return int(report.read_text())


def same(got, want, what):
    assert got == want, f"{what}: got {got!r}, want {want!r}"


def check_schema(value, schema, where):
    if isinstance(schema, dict):
        assert isinstance(value, dict), f"{where}: {value!r} is no object"
        same(sorted(value), sorted(schema), f"{where}: keys")
        for key, kind in schema.items():
            check_schema(value[key], kind, f"{where}.{key}")
    elif isinstance(schema, list):
        assert isinstance(value, list), f"{where}: {value!r} is no list"
        for i, item in enumerate(value):
            check_schema(item, schema[0], f"{where}[{i}]")
    elif schema is not None:
        assert isinstance(value, schema) and not (isinstance(value, bool) and schema is not bool), \
            f"{where}: got {value!r}, want {schema}"


def check_error(c, *args, status, code, sys_errno=None, words=""):
    answer = c.json(*args, status=status)
    check_schema(answer.get("error"), ERROR, "error")
    same(answer["error"]["code"], code, "code")
    assert words in answer["error"]["message"], answer["error"]["message"]
    if sys_errno is not None:
        same(answer["error"]["errno"], sys_errno, "errno")
    return answer


# --- What a test source shows (tidegate/source.h) -------------------------------------------------

MASK = (1 << 64) - 1


def mix(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


def source_frame(array, sequence, n_bytes):
    """The bytes of a frame of integers."""
    key = mix((mix((array + 0x9E3779B97F4A7C15) & MASK) + sequence) & MASK)
    keys = [mix((key + block) & MASK) for block in range(n_bytes // 32768 + 1)]
    words = b"".join(struct.pack("<Q", mix(i % 4096 + 1) ^ keys[i // 4096]) for i in range(-(-n_bytes // 8)))
    return words[:n_bytes]


# --- Tests ----------------------------------------------------------------------------------------


@test
def record_prints_its_json(c):
    answer = c.json("record", "a.zarr", "--from", "test:40x30:u16", "--frames", 20)
    check_schema(answer, RECORD, "record")
    for key in ("offered", "written", "durable", "published", "frames"):
        same(answer[key], 20, key)
    same(answer["shape"], [20, 30, 40], "shape")
    same(answer["budget_bytes"], 256 * MIB, "budget_bytes")
    same([answer[k] for k in ("dropped", "skipped", "partial", "errors", "lost", "repeated")], [0] * 6, "losses")


@test
def several_cameras_have_counters_each(c):
    answer = c.json("record", "a.zarr", "--from", "a=test:40x30:u16", "--from", "b=test:7x5:u8", "--frames", 9)
    each = {k: RECORD[k] for k in ("offered", "written", "durable", "published", "dropped", "skipped", "partial", "errors",
                                   "lost", "repeated", "append_us", "stall_ms_max", "stalls", "queue_bytes_peak")}
    check_schema(answer, {**RECORD, "arrays": [{"name": str, **each}]}, "record")
    same([(a["name"], a["offered"], a["published"]) for a in answer["arrays"]], [("a", 9, 9), ("b", 9, 9)], "arrays")
    same(answer["published"], 18, "published")


@test
def other_verbs_print_their_json(c):
    c.run("record", "a.zarr", "--from", "test:40x30:u16", "--frames", 5)
    verify = c.json("verify", "a.zarr")
    check_schema(verify, {"ok": int, "bad": int, "unverifiable": int, "bytes": int, "bad_keys": [None],
                          "rss_bytes_peak": int}, "verify")
    same((verify["bad"], verify["bad_keys"]), (0, []), "verify")
    assert verify["ok"] > 0
    recover = c.json("recover", "a.zarr")
    check_schema(recover, {"frames_before": int, "frames_after": int, "repaired": int, "rss_bytes_peak": int}, "recover")
    same((recover["frames_before"], recover["frames_after"], recover["repaired"]), (5, 5, 0), "recover")
    clean = c.json("clean", "a.zarr")
    check_schema(clean, {"removed": int, "bytes": int}, "clean")
    node = {"kind": str, "format": int, "dtype": str, "shape": [int], "chunk": [int], "shard": None, "codecs": [None],
            "dimension_names": None, "fill": None}
    info = c.json("info", "a.zarr/0")
    check_schema(info, {"path": str, **node, "attributes": None, "children": [None]}, "info")
    same((info["shape"], info["dtype"], info["kind"], info["fill"]), ([5, 30, 40], "uint16", "array", 0), "info")
    group = c.json("info", "a.zarr")
    same(group["kind"], "group", "kind")
    assert {"0", "frames"} <= {child["name"] for child in group["children"]}
    ls = c.json("ls", "a.zarr", "--tree")
    check_schema(ls, {"path": str, "nodes": [None]}, "ls")
    assert "frames/sequence" in {n["name"] for n in ls["nodes"]}
    cat = c.json("cat", "a.zarr/0", "--region", "1,2,3:5")
    check_schema(cat, {"dtype": str, "shape": [int], "items": [int]}, "cat")
    same(cat["shape"], [2], "shape")


def bench_apply(c):
    """Every scenario runs; all calls of the seed's experiment are in flight at once."""
    apply = c.json("bench", "apply", "--quick", "--rounds", 1)
    scenarios = {s["name"]: s for s in apply["scenarios"]}
    seeds = {f"seed, chunks of {chunk}, regions of {width}" for chunk in (1, 2, 4) for width in (1, 2)}
    same(set(scenarios), seeds | {"rois32", "rois64", "rois", "threshold-raw", "threshold-zstd"}, "scenarios")
    for name, scenario in scenarios.items():
        assert scenario["ratio"] > 0, name
        for contender in scenario["contenders"]:
            assert contender["calls"] > 0, (name, contender["name"])
        for contender in scenario["contenders"][1:] if name in seeds else []:
            same(contender["in_flight_peak"], 16 if name.endswith("1") else 9, name)


@test
def bench_prints_its_json(c):
    machine = {"cpu": str, "cores": int, "memory_bytes": int, "kernel": str, "architecture": str, "file_system": str,
               "crc32c": str}
    limits = c.json("bench", "limits", "--quick", "--bytes", "16MiB", "--rounds", 1)
    check_schema(limits["machine"], machine, "machine")
    for name in ("memcpy", "crc32c", "buffered"):
        assert limits[name]["mib_per_s"] > 0, name
    record = c.json("bench", "record", "--quick", "--scenario", "crops", "--rounds", 1, "--memory", "64MiB")
    check_schema(record["machine"], machine, "machine")
    same([s["name"] for s in record["scenarios"]], ["crops"], "scenarios")
    for contender in record["scenarios"][0]["contenders"]:
        assert contender["mib_per_s"] > 0, contender["name"]
    alone = c.json("bench", "record", "--quick", "--alone", "--scenario", "crops", "--rounds", 1, "--memory", "64MiB")
    same([k["name"] for k in alone["scenarios"][0]["contenders"]], ["tidegate"], "alone")
    bench_apply(c)
    sweep = c.json("bench", "record", "--sweep", "--bytes", "4MiB", "--chunk-frames", "1,4", "--codec", "none", "--codec",
                   "zstd:1", "--shard", "none", "--shape", "64,64", "--report", "s.html")
    same(len(sweep["trials"]), 4, "trials")
    assert sweep["best"]["mib_per_s"] == max(t["mib_per_s"] for t in sweep["trials"])
    check_page(pathlib.Path(c.folder) / "s.html", 1)
    same([p.name for p in pathlib.Path(c.folder).iterdir()], ["s.html"], "what is left")


@test
def every_verb_fails_in_json(c):
    for verb in ("verify", "recover", "info", "ls", "cat", "clean"):
        check_error(c, verb, "nowhere.zarr", status=1, code="not found")
        check_error(c, verb, status=2, code="invalid argument", words="operand missing")
    check_error(c, "record", "x.zarr", status=2, code="invalid argument", words="--from is missing")
    check_error(c, "bench", "nothing", status=2, code="invalid argument")
    check_error(c, "bench", "limits", "--dir", "nowhere", status=2, code="invalid argument")
    check_error(c, "bench", "record", "--scenario", "z", status=2, code="invalid argument")
    check_error(c, "bench", "apply", "--scenario", "paced", status=2, code="invalid argument")
    c.run("record", "a.zarr", "--from", "test:40x30:u16", "--frames", 2)
    check_error(c, "record", "a.zarr", "--from", "test:40x30:u16", "--frames", 2, status=2, code="already exists")
    check_error(c, "cat", "a.zarr/0", "--memory", "1KiB", status=2, code="over the budget")
    check_error(c, "record", "b.zarr", "--from", "test:4096x4096:u16", "--memory", "16MiB", status=2, code="over the budget")
    assert not (pathlib.Path(c.folder) / "b.zarr").exists()


@test
def pixels_are_those_of_the_source(c):
    for dtype, n_bytes in (("u8", 1), ("u16", 2), ("i32", 4), ("u64", 8)):
        for layout in ([], ["--chunk-frames", 3], ["--tile", "4,6"], ["--frame-axis", "last"], ["--format", "zarr2"]):
            c.run("record", "a.zarr", "--overwrite", "--from", f"a=test:13x9:{dtype}", "--from", f"b=test:13x9:{dtype}",
                  "--frames", 5, *layout)
            last = "last" in layout
            out = subprocess.run([c.tidegate, "cat", "--npy", "--region", ":,:,3" if last else "3", "a.zarr/b/0"],
                                 cwd=c.folder, capture_output=True, check=True).stdout
            header, data = out[:out.index(b"\n") + 1], out[out.index(b"\n") + 1:]
            same(len(header) % 64, 0, "alignment of .npy")
            assert b"'shape': (9,13,)" in header, header
            same(data, source_frame(1, 3, 9 * 13 * n_bytes), f"frame 3 of b, {dtype} {layout}")


def wait_for(process, path):
    """Until the path is there, or the process has ended."""
    end = time.monotonic() + SECONDS
    while not path.exists() and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    assert path.exists(), path


@test
def a_signal_ends_an_endless_recording(c):
    for number in (signal.SIGINT, signal.SIGTERM):
        for asked, status in (([], 0), (["--frames", 100000], 3), (["--seconds", 60], 3)):
            process = c.start("record", "a.zarr", "--overwrite", "--from", "test:64x64:u8@200", "--json", *asked)
            wait_for(process, pathlib.Path(c.folder) / "a.zarr.tidegate")
            time.sleep(0.7)
            process.send_signal(number)
            out, err = process.communicate(timeout=SECONDS)
            same(process.returncode, status, f"exit status after {number!r} with {asked}: {err.decode()}")
            answer = json.loads(out)
            assert 0 < answer["offered"] < 100000, answer["offered"]
            same(answer["published"], answer["offered"], "published")
            same(c.json("info", "a.zarr/0")["shape"][0], answer["offered"], "shape")
            same(c.json("info", "a.zarr")["attributes"].get("complete"), True, "complete")
            assert not (pathlib.Path(c.folder) / "a.zarr.tidegate").exists()


@test
def a_second_signal_ends_at_once(c):
    """The close of a backlog that a slow codec has to take takes seconds; a second signal does not wait for it."""
    with open("/dev/urandom", "rb") as noise:
        process = c.start("record", "a.zarr", "--from", "-", "--shape", "512,512", "--dtype", "u8", "--codec", "zstd:22",
                          "--memory", "400MiB", "--threads", 1, stdin=noise)
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        assert process.poll() is None, "it closed too fast for a second signal"
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=SECONDS)
    same(process.returncode, -signal.SIGINT, "returncode")
    c.run("recover", "a.zarr")
    same(c.json("verify", "a.zarr")["bad"], 0, "bad")


@test
def a_paced_source_ends_after_its_seconds(c):
    answer = c.json("record", "a.zarr", "--from", "test:64x64:u8@100", "--seconds", "1.5")
    assert 100 <= answer["offered"] <= 170, answer["offered"]


@test
def progress_is_json_lines(c):
    out, err = c.run("record", "a.zarr", "--from", "test:64x64:u8@200", "--seconds", 2.5, "--progress", "json", "--json")
    answer, lines = json.loads(out), [json.loads(line) for line in err.splitlines()]
    lines = [line for line in lines if line.get("progress") == "record"]
    assert len(lines) >= 3, err
    for before, after in zip(lines, lines[1:]):
        assert before["done"] <= after["done"] and before["durable"] <= after["durable"], (before, after)
    for line in lines:
        assert line["durable"] <= line["done"] <= answer["offered"], line
    same(lines[-1]["durable"], answer["offered"], "durable at the end")
    out, err = c.run("record", "b.zarr", "--from", "test:64x64:u8@200", "--frames", 20, "--progress", "none")
    same(err, "", "standard error with --progress none")


@test
def a_full_or_closed_output_is_told(c):
    c.run("record", "a.zarr", "--from", "test:200x200:u8", "--frames", 20)
    with open("/dev/full", "wb") as full:
        c.run("cat", "a.zarr/0", status=1, stdout=full)
        c.run("info", "--json", "a.zarr", status=1, stdout=full)
        c.run("--version", status=1, stdout=full)
    process = c.start("cat", "a.zarr/0")
    process.stdout.read(10)
    process.stdout.close()
    err = process.stderr.read().decode()
    process.stderr.close()
    same(process.wait(timeout=SECONDS), 1, "exit status")
    assert "standard output" in err, err


@test
def a_file_size_limit_is_reported(c):
    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (2 * MIB, 2 * MIB))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)

    answer = c.json("record", "a.zarr", "--from", "test:512x512:u8", "--frames", 100, status=1, preexec_fn=limit)
    check_schema(answer["error"], ERROR, "error")
    same(answer["error"]["errno"], 27, "errno (EFBIG)")
    assert answer["published"] <= answer["durable"] < 100, answer


@test
def a_place_that_cannot_be_written_is_named(c):
    out, _ = c.run("record", "/proc/nothing.zarr", "--from", "test:4x4:u8", "--frames", 1, "--json", status=1)
    error = json.loads(out)["error"]
    check_schema(error, ERROR, "error")
    assert "/proc/nothing.zarr" in error["message"] and error["errno"] != 0, error


@test
def the_table_is_the_arrays(c):
    c.run("record", "a.zarr", "--from", "test:16x8:u8", "--frames", 30, "--column", 'note:string=a "b", c', "--column",
          "gain:f64=0.25", "--column", "lamp:bool=true", "--table", "t.csv")
    rows = list(csv.reader(open(pathlib.Path(c.folder) / "t.csv", newline="")))
    same(rows[0], ["sequence", "index", "time_device", "time_host", "status", "crc32c", "note", "gain", "lamp"], "header")
    same(len(rows), 31, "rows")
    for i, name in enumerate(rows[0]):
        items = c.json("cat", f"a.zarr/frames/{name}")["items"]
        text = [item if isinstance(item, str) else json.dumps(item) for item in items]
        same([row[i] for row in rows[1:]], text, name)
    same([row[0] for row in rows[1:]], [str(i) for i in range(30)], "sequence")
    same(rows[1][6:], ['a "b", c', "0.25", "true"], "user columns")


@test
def metadata_is_kept(c):
    meta = {"sample": "é 1", "list": [1, 2.5, None, True], "nested": {"a": {"b": -9223372036854775808}}}
    (pathlib.Path(c.folder) / "m.json").write_text(json.dumps(meta))
    c.run("record", "a.zarr", "--from", "test:16x8:u8", "--frames", 3, "--meta", "m.json", "--scale", "0.5,0.25", "--unit",
          "micrometer", "--channel", "DAPI")
    attributes = c.json("info", "a.zarr")["attributes"]
    same({k: attributes.get(k) for k in meta}, meta, "attributes")
    scale = attributes["ome"]["multiscales"][0]["datasets"][0]["coordinateTransformations"][0]["scale"]
    same(scale[-2:], [0.5, 0.25], "scale")
    (pathlib.Path(c.folder) / "bad.json").write_text('{"a":')
    c.run("record", "b.zarr", "--from", "test:16x8:u8", "--frames", 3, "--meta", "bad.json", status=2)
    assert not (pathlib.Path(c.folder) / "b.zarr").exists()


@test
def the_report_stands_alone(c):
    c.run("record", "a <b> & c.zarr", "--from", "test:128x128:u8@100", "--seconds", 1.2, "--report", "r.html")
    words = check_page(pathlib.Path(c.folder) / "r.html", 5)
    for part in ("a <b> & c.zarr", "source stopped", "p99", "budget", "MiB/s", "seconds since start"):
        assert part in words, part
    c.run("record", "e.zarr", "--from", "-", "--shape", "4,4", "--dtype", "u8", "--report", "e.html")
    check_page(pathlib.Path(c.folder) / "e.html", 3)


@test
def the_report_of_apply_stands_alone(c):
    c.run("create", "a.zarr", "--shape", "512,512", "--dtype", "u16", "--chunk", "64,64", "--dims", "y,x")
    c.run("apply", "a.zarr", "b <i>.zarr", "--rois", "grid:48/32", "--policy", "max", "--op", "add:value=7",
          "--report", "r.html")
    words = check_page(pathlib.Path(c.folder) / "r.html", 4)
    for part in ("b <i>.zarr", "calls/s", "Slowest regions", "grid:48/32", "add:value=7", "budget", "called once"):
        assert part in words, part
    _, err = c.run("apply", "a.zarr", "c.zarr", "--rois", "grid:64", "--op", "copy", "--report", "no/such/r.html",
                   status=1)
    assert "no/such/r.html" in err, err


@test
def what_a_dead_run_left_is_cleaned(c):
    process = c.start("record", "a.zarr", "--from", "test:256x256:u8@200", "--commit-interval", "200ms")
    time.sleep(1.5)
    process.kill()
    process.communicate(timeout=SECONDS)
    side = pathlib.Path(c.folder) / "a.zarr.tidegate"
    assert side.exists(), "no journal was there to be cleaned"
    dry = c.json("clean", "a.zarr", "--dry-run")
    assert dry["removed"] >= 1 and side.exists(), dry
    before = c.json("info", "a.zarr/0")["shape"][0]
    wet = c.json("clean", "a.zarr")
    same(wet["removed"], dry["removed"], "removed")
    assert not side.exists()
    after = c.json("info", "a.zarr/0")["shape"][0]
    assert after >= before and after > 100, (before, after)
    same(c.json("verify", "a.zarr")["bad"], 0, "bad")
    same(c.json("clean", "a.zarr")["removed"], 0, "removed the second time")


@test
def a_damaged_chunk_is_found(c):
    c.run("record", "a.zarr", "--from", "test:256x256:u8", "--frames", 12, "--shard", "none", "--chunk-frames", 1)
    chunk = pathlib.Path(c.folder) / "a.zarr/0/c/7/0/0"
    data = bytearray(chunk.read_bytes())
    data[1000] ^= 16
    chunk.write_bytes(data)
    answer = c.json("verify", "a.zarr", status=1)
    same(answer["bad"], 1, "bad")
    assert "0/c/7/0/0" in answer["bad_keys"][0]["key"], answer["bad_keys"]
    c.run("cat", "a.zarr/0", "--region", "6,:,:")
    error = check_error(c, "cat", "a.zarr/0", "--region", "7,:,:", status=1, code="corrupt data")["error"]
    assert "c/7/0/0" in error["key"], error


@test
def a_second_recorder_is_refused(c):
    first = c.start("record", "a.zarr", "--from", "test:64x64:u8@50")
    time.sleep(0.7)
    for mode in ("--append", "--overwrite"):
        answer = c.json("record", "a.zarr", "--from", "test:64x64:u8", "--frames", 1, mode, status=2)
        same(answer["error"]["code"], "in use", mode)
        assert str(first.pid) in answer["error"]["message"], answer["error"]["message"]
    c.run("clean", "a.zarr", status=2)
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=SECONDS)
    same(first.returncode, 0, "exit status of the first")


@test
def drops_are_counted(c):
    """A codec too slow for the source: what is dropped is in the counters, the table and the exit status."""
    answer = c.json("record", "a.zarr", "--from", "test:512x512:u16", "--seconds", 3, "--codec", "zstd:22", "--on-full",
                    "drop-new", "--memory", "32MiB", "--threads", 1, status=3)
    assert answer["dropped"] > 0 and answer["published"] > 0, answer
    same(answer["offered"], answer["published"] + answer["dropped"], "offered")
    status = c.json("cat", "a.zarr/frames/status")["items"]
    same(status.count(2), answer["dropped"], "rows with status 2")


MEMORY_TESTS = []


def memory_test(function):
    MEMORY_TESTS.append(function)
    return function


@memory_test
def record_holds_its_budget(c):
    for memory, options in ((24, []), (64, []), (64, ["--codec", "zstd:1"]), (64, ["--codec", "blosc:lz4:5:shuffle"]),
                            (96, ["--shard", "none"]), (64, ["--tile", "128,128"]), (64, ["--pyramid", "2:mean"])):
        for frames in (64, 1024):
            rss = c.rss("record", "a.zarr", "--overwrite", "--from", "test:1024x512:u8", "--frames", frames, "--memory",
                        f"{memory}MiB", "--progress", "none", *options)
            assert rss <= (memory + 16) * MIB, f"{memory} MiB, {frames} frames, {options}: {rss / MIB:.1f} MiB resident"


@memory_test
def reading_holds_its_budget(c):
    c.run("record", "a.zarr", "--from", "test:1024x512:u8", "--frames", 400, "--codec", "zstd:1")
    for args in (["verify", "a.zarr"], ["cat", "a.zarr/0", "--npy"], ["info", "a.zarr"], ["recover", "a.zarr"],
                 ["ls", "--tree", "a.zarr"]):
        rss = c.rss(*args, "--memory", "32MiB")
        assert rss <= 48 * MIB, f"{args}: {rss / MIB:.1f} MiB resident"


@memory_test
def many_threads_keep_no_blocks(c):
    """What a thread has freed leaves the process: glibc's own settings kept 80 MiB and more here."""
    for name, options in (("b.zarr", ["--codec", "blosc:lz4"]), ("d.zarr", ["--codec", "zstd", "--format", "zarr2"])):
        c.run("record", name, "--from", "test:1024x512:u8", "--frames", 300, *options)
        for args in (["verify", name], ["cat", f"{name}/0", "--npy"], ["info", name]):
            rss = c.rss(*args, "--memory", "12MiB", "--threads", 8)
            assert rss <= 28 * MIB, f"{args}: {rss / MIB:.1f} MiB resident"


@memory_test
def lists_of_regions_hold_their_budget(c):
    """Refused with both numbers where they do not fit, converted where they do."""
    with open(pathlib.Path(c.folder) / "many.csv", "w") as f:
        f.write("name,label,y0,y1,x0,x1\n")
        f.writelines(f"cell_{i},{i + 1},{i % 4000},{i % 4000 + 30},{i // 10},{i // 10 + 40}\n" for i in range(200000))
    for memory, status in ((16, 2), (64, 2), (160, 0)):
        rss = c.rss("rois", "many.csv", "--to", "many.json", "--memory", f"{memory}MiB", status=status)
        assert rss <= (memory + 16) * MIB, f"{memory} MiB: {rss / MIB:.1f} MiB resident"
    for memory, status in ((16, 2), (96, 0)):
        rss = c.rss("rois", "many.json", "--to", "many.geojson", "--memory", f"{memory}MiB", status=status)
        assert rss <= (memory + 16) * MIB, f"{memory} MiB: {rss / MIB:.1f} MiB resident"


# What is asked of apply with far more data than memory: cases 5, 19 and 40 of docs/apply-cases.md. IN: the array of small
# chunks, or that of large ones.
APPLY = {
    "a region a chunk": ("large", "--rois grid:1,512,512 --op add:value=7 --jobs 2"),
    "overlapping": ("large", "--rois grid:1,320,320/1,256,256 --policy mean --op gaussian:sigma=1"),
    "overlapping, through many planes": ("small", "--rois grid:3,200,200/2,150,150 --policy sum --op add:value=7"),
    "a halo on small chunks": ("small", "--rois grid:1,64,64 --halo 1 --op median:size=3"),
    "a slow function": ("large", "--rois grid:4,512,512 --exec 'sleep 0.05; cp {in} {out}' --jobs 4"),
    "a slow writer": ("large", "--rois grid:1,512,512 --op mul:value=3"),
    "labels": ("large", "--rois grid:1,200,200 --halo 8 --op label --policy labels"),
}
APPLY_MIB = 28


@memory_test
def apply_holds_its_budget(c):
    """Ten times as much data as memory; TG_SOAK: a hundred times."""
    times = 100 if "TG_SOAK" in os.environ else 10
    frames = times * APPLY_MIB // 2
    for name, chunk in (("large", "512,512"), ("small", "32,32")):
        share = frames if name == "large" else max(1, frames // 4)
        c.run("record", f"{name}.zarr", "--from", "test:1024x1024:u16", "--frames", share, "--tile", chunk, "--chunk-frames", 1,
              "--shard", "none" if name == "large" else "1frames", "--progress", "none")
    shim = str(c.measure.parent.parent / "fault" / "libtg_shim.so")
    for name, (source, ask) in APPLY.items():
        env = {"LD_PRELOAD": shim, "TG_SHIM_SLOW": "200", "TG_SHIM_UNDER": c.folder} if name == "a slow writer" else {}
        rss = c.rss("apply", f"{source}.zarr/0", "out.zarr", *shlex.split(ask), "--memory", f"{APPLY_MIB}MiB", "--threads", 2,
                    "--progress", "none", **env)
        print(f"       {name}: {rss / MIB:.1f} MiB resident")
        assert rss <= (APPLY_MIB + 16) * MIB, f"{name}, {times} times the memory: {rss / MIB:.1f} MiB resident"
        shutil.rmtree(pathlib.Path(c.folder) / "out.zarr")


def main():
    args = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    args.add_argument("tidegate", type=pathlib.Path)
    args.add_argument("measure", type=pathlib.Path)
    args.add_argument("--memory", action="store_true", help="the tests of memory, not the others")
    args.add_argument("name", nargs="*")
    args = args.parse_intermixed_args()
    failed, ran = 0, 0
    for function in MEMORY_TESTS if args.memory else TESTS:
        if args.name and function.__name__ not in args.name:
            continue
        ran += 1
        with tempfile.TemporaryDirectory(prefix="tidegate test ") as folder:
            try:
                function(Command(args.tidegate.resolve(), args.measure.resolve(), folder))
                print("ok  ", function.__name__, flush=True)
            except Exception as error:  # every failure is told, and the rest runs
                failed += 1
                where = traceback.extract_tb(error.__traceback__)[1].lineno
                print("FAIL", function.__name__, f"line {where}: {type(error).__name__}: {error}", flush=True)
    sys.exit(1 if failed or not ran else 0)


if __name__ == "__main__":
    main()
