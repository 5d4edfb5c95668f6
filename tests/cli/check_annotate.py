#!/usr/bin/env python3
"""`tidegate annotate` as a user calls it, on the project's own synthetic data set.

    check_annotate.py TIDEGATE DATA [NAME...]

DATA: the folder tests/data/ims. Names are those of the functions below without `check_`.
"""
import array
import csv
import fcntl
import hashlib
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

from page import check_page

TIDEGATE, DATA = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
OWN = DATA / "synthetic-own"
SECONDS = 300


def call(*args, want=0, env=None):
    """Run the command; its JSON."""
    done = subprocess.run([TIDEGATE, *map(str, args), "--json", "--progress", "none"], capture_output=True, text=True,
                          timeout=SECONDS, env=dict(os.environ, **(env or {})))
    if done.returncode != want:
        sys.exit(f"{args}: exit {done.returncode}, want {want}\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout) | {"stderr": done.stderr}


def start(*args):
    return subprocess.Popen([TIDEGATE, *map(str, args), "--json", "--progress", "none"], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)


def data():
    """The data set, copied: its sorted peaks lie beside it."""
    for ending in ("imzML", "ibd"):
        if not pathlib.Path(f"own.{ending}").exists():
            shutil.copy(OWN / f"synthetic.{ending}", f"own.{ending}")
    return ["annotate", "own.imzML"]


OPTIONS = ["--db", OWN / "db.csv", "--adducts", "+H,+Na,+K", "--fdr", "0.1"]


def whole():
    if not pathlib.Path("whole").exists():
        call(*data(), "whole", *OPTIONS)
    return pathlib.Path("whole")


def files(folder):
    folder = pathlib.Path(folder)
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def check_json():
    """Every member that docs/command.md names."""
    out = call(*data(), "j", *OPTIONS, "--images", "none")
    names = ("spectra peaks formulas ions annotated databases segments requests spilled_bytes rss_bytes_peak seconds "
             "fraction_done").split()
    assert all(n in out for n in names), out
    assert list(out["annotated"]) == ["fdr05", "fdr10", "fdr20", "fdr50"], out
    assert out["databases"][0]["name"] == "db" and out["databases"][0]["annotated"] == out["annotated"], out
    assert out["spectra"] == 1693 and out["formulas"] == 400 and out["fraction_done"] == 1, out
    rows = list(csv.DictReader(open("j/annotations.csv")))
    assert list(rows[0]) == ("database formula adduct neutral_loss chem_mod ion mz fdr msm chaos spatial spectral n_pixels "
                             "mz_err_abs mz_err_rel min_intensity max_intensity total_intensity molecule_names "
                             "molecule_ids").split()
    assert len(rows) == out["annotated"]["fdr10"], (len(rows), out["annotated"])


def check_manifest():
    """The digest of each file that was written, and nothing beside."""
    listed = json.loads((whole() / "manifest.json").read_text())["files"]
    there = files(whole())
    del there["manifest.json"]
    assert sorted(listed) == sorted(there), sorted(set(listed) ^ set(there))[:9]
    for name, content in there.items():
        assert listed[name] == {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}, name


def check_parts():
    """Four processes at the same time; a fifth that comes again; whoever is last merges."""
    want = files(whole())
    parts = [start(*data(), "parts", *OPTIONS, "--part", f"{i}/4") for i in range(4)]
    told = [p.communicate(timeout=SECONDS) for p in parts]
    assert [p.returncode for p in parts] == [0] * 4, told
    assert any(json.loads(out)["whole"] for out, _ in told), told
    assert files("parts") == want
    assert not pathlib.Path("parts.tidegate").exists()
    again = call(*data(), "parts", *OPTIONS, "--part", "2/4", "--resume")
    assert again["whole"] and again["rows"] == json.loads(told[0][0] if json.loads(told[0][0])["whole"] else
                                                          [o for o, _ in told if json.loads(o)["whole"]][0])["rows"]
    assert "other data or options" in call(*data(), "parts", *OPTIONS, "--ppm", "2", "--resume", want=2)["error"]["message"]
    assert "holds an annotation" in call(*data(), "parts", *OPTIONS, want=2)["error"]["message"]
    few = call(*data(), "parts", *OPTIONS[:-1], "0.01", "--overwrite")  # nothing stays of the images before
    assert few["images"] == len(list(pathlib.Path("parts/images").iterdir())) < len(want), few["images"]


def check_auto():
    """The index out of the environment; a merge by hand that counts the parts itself."""
    want = files(whole())
    bare = call(*data(), "auto", *OPTIONS, "--part", "auto", want=2)
    assert "--part auto/n" in bare["error"]["message"], bare
    none = {k: "" for k in ("SLURM_ARRAY_TASK_ID",)}
    assert "SLURM_ARRAY_TASK_ID" in call(*data(), "auto", *OPTIONS, "--part", "auto/2", want=2, env=none)["error"]["message"]
    first = call(*data(), "auto", *OPTIONS, "--part", "auto/2", env={"SLURM_ARRAY_TASK_ID": "1"})
    assert not first["whole"] and 0 < first["fraction_done"] < 1, first
    early = call(*data(), "auto", *OPTIONS, "--merge", want=75)
    assert "not all parts have ended" in early["error"]["message"], early
    assert call(*data(), "auto", *OPTIONS, "--part", "auto/2", env={"SLURM_ARRAY_TASK_ID": "0"})["whole"]
    assert files("auto") == want


def check_deadline():
    """Partial results and 3; taken up again, the same bytes as without a stop."""
    want = files(whole())
    out = call(*data(), "late", *OPTIONS, "--deadline", "1ms", want=3)
    assert out["fraction_done"] < 1, out
    rows = list(csv.DictReader(open("late/annotations.partial.csv")))
    assert all(r["fdr"] == "" for r in rows)
    assert call(*data(), "late", *OPTIONS, "--resume")["whole"]
    assert files("late") == want


def png(content):
    """Size, grey and alpha values, text chunks of a 16-bit grey+alpha PNG (filters undone)."""
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    at, text, packed = 8, {}, b""
    while at < len(content):
        n, kind = struct.unpack(">I4s", content[at:at + 8])
        body = content[at + 8:at + 8 + n]
        assert struct.unpack(">I", content[at + 8 + n:at + 12 + n])[0] == zlib.crc32(kind + body), kind
        if kind == b"IHDR":
            w, h, depth, color = struct.unpack(">IIBB", body[:10])
            assert (depth, color) == (16, 4)
        elif kind == b"tEXt":
            key, value = body.split(b"\0")
            text[key.decode()] = value.decode()
        elif kind == b"IDAT":
            packed += body
        at += 12 + n
    raw, stride = zlib.decompress(packed), 4 * w
    rows, above = [], bytearray(stride)
    for y in range(h):
        kind, line = raw[y * (stride + 1)], bytearray(raw[y * (stride + 1) + 1:(y + 1) * (stride + 1)])
        for i in range(stride):
            a, b, c = line[i - 4] if i >= 4 else 0, above[i], above[i - 4] if i >= 4 else 0
            p = a + b - c
            paeth = a if abs(p - a) <= abs(p - b) and abs(p - a) <= abs(p - c) else b if abs(p - b) <= abs(p - c) else c
            line[i] = (line[i] + (0, a, b, (a + b) // 2, paeth)[kind]) & 255
        rows.append([struct.unpack(">HH", line[i:i + 4]) for i in range(0, stride, 4)])
        above = line
    return rows, text


def check_png():
    """Grey times the scale of the text chunks gives the intensities of the table back."""
    rows = [r for r in csv.DictReader(open(whole() / "annotations.csv"))]
    for row in rows[:5]:
        pixels, text = png((whole() / "images" / f"{row['ion']}_0.png").read_bytes())
        assert text["ims:ion"] == row["ion"] and text["ims:peak"] == "0", text
        low, high = float(text["ims:min"]), float(text["ims:max"])
        assert abs(high - float(row["max_intensity"])) <= 1e-6 * high and low == 0, (text, row)
        flat = [p for line in pixels for p in line]
        assert sum(a == 65535 for _, a in flat) == 1693 and sum(a == 0 for _, a in flat) == len(flat) - 1693
        assert max(g for g, _ in flat) == 65535
        step = (high - low) / 65535
        total = sum(low + g * step for g, a in flat if a)
        lit = sum(g > 0 for g, _ in flat)
        assert abs(total - float(row["total_intensity"])) <= step * (lit + 1) * 1.01, (total, row)
    pixels, text = png((whole() / "tic.png").read_bytes())
    assert float(text["ims:max"]) > 0 and "ims:ion" not in text


def check_channels():
    """The stack's planes are named, in order, with the greatest intensity of each; OME-NGFF's rules hold."""
    told = json.loads((whole() / "ion_images.zarr" / "zarr.json").read_text())["attributes"]
    channels, most = told["ome"]["omero"]["channels"], {}
    for row in csv.DictReader(open(whole() / "annotations.csv")):
        most[row["ion"]] = float(row["max_intensity"])
    assert [c["label"] for c in channels] == told["tidegate_ions"] and set(most) == set(told["tidegate_ions"])
    for c in channels:
        window, want = c["window"], most[c["label"]]
        assert window["min"] == window["start"] == 0 and window["max"] == window["end"], window
        assert abs(window["end"] - want) <= 1e-6 * want, (c, want)
    assert call("validate", whole() / "ion_images.zarr")["valid"]


def check_ion():
    """One ion without a database: the numbers of the table, the images of the whole run."""
    row = next(csv.DictReader(open(whole() / "annotations.csv")))
    out = call(*data(), "one", "--ion", row["formula"] + row["adduct"])
    assert out["ion"] == row["ion"] and out["images"] >= 2, out
    for name in ("msm", "chaos", "spatial", "spectral", "mz_err_abs", "mz_err_rel"):
        assert out[name] == float(row[name]), (name, out, row)
    first = out["peaks"][0]
    assert first["mz"] == float(row["mz"]) and first["n_pixels"] == int(row["n_pixels"]), (first, row)
    for name in ("min", "max", "total"):
        assert abs(first[name] - float(row[name + "_intensity"])) <= 1e-6 * first["max"], (name, first, row)
    want = {k.removeprefix("images/"): v for k, v in files(whole()).items() if k.startswith(f"images/{row['ion']}_")}
    assert files("one") == want and want, sorted(files("one"))
    assert call(*data(), "--ion", row["formula"] + row["adduct"])["images"] == 0
    assert call(*data(), "--ion", "C500H900+Na")["msm"] == 0  # nothing there
    for ion, words in (("+H", "want formula"), ("C6H12O6-H50", "taken away"), ("C6Xx2+H", "Xx"), ("C6H12O6+", "'+'")):
        told = call(*data(), "--ion", ion, want=2)["error"]["message"]
        assert words in told, (ion, told)
    assert "holds an annotation" in call(*data(), whole(), "--ion", "C6H12O6+Na", want=2)["error"]["message"]
    assert "OUT is missing" in call(*data(), "--db", OWN / "db.csv", want=2)["error"]["message"]


def check_kept():
    """Images are kept while ions are scored where their FDR is not known; what is lost of them is extracted again."""
    want = files(whole())
    assert call(*data(), "single", *OPTIONS)["images_kept"] == 0
    everything = call(*data(), "all", *OPTIONS, "--images", "all")
    assert everything["images_kept"] == everything["images"] > 400 and everything["spilled_bytes"] > 100000, everything
    assert not pathlib.Path("all.tidegate").exists()
    for i in range(2):
        call(*data(), "kept", *OPTIONS, "--part", f"{i}/3")
    spill = pathlib.Path("kept.tidegate/spill")
    first, second = sorted(spill.iterdir(), key=lambda p: p.stat().st_size)
    first.write_bytes(first.read_bytes()[:-9])  # as a kill would leave it
    damaged = bytearray(second.read_bytes())
    for at in range(1000, len(damaged) - 20000, 5000):
        damaged[at] ^= 0x20
    second.write_bytes(damaged)
    (spill / "1-2-000000.blk").write_bytes(b"")
    out = call(*data(), "kept", *OPTIONS, "--part", "2/3")
    assert out["whole"] and 0 < out["images_kept"] < out["images"], out
    assert files("kept") == want
    assert not pathlib.Path("kept.tidegate").exists()
    assert files("single") == want


def check_clean():
    """What a dead run left goes, kept images too; a live one's stays."""
    call(*data(), "part", *OPTIONS, "--part", "0/2")
    side = pathlib.Path("part.tidegate")
    there = files(side)
    assert any(name.startswith("spill/") for name in there), sorted(there)
    with open(side / "part-0-of-2.lock", "r+") as lock:  # as a process at work holds it
        fcntl.fcntl(lock, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
        told = call("clean", "part", want=2)
        assert "a process is at work" in told["error"]["message"], told
        busy = call(*data(), "part", *OPTIONS, "--part", "0/2", "--resume", want=75)
        assert "another process is at it" in busy["error"]["message"], busy
    assert files(side) == there
    assert call("clean", "part", "--dry-run")["removed"] == len(there) and files(side) == there
    assert call("clean", "part")["removed"] == len(there) and not side.exists()


def check_plan():
    """Memory of each stage: never less than a run then reserves, never more than the ceiling; nothing is written."""
    few = ["--memory", "64MiB", "--segment", "256KiB", "--threads", "2"]
    for more, sorted_before in (([], False), ([], True), (["--images", "all"], True)):
        there = sorted(pathlib.Path().iterdir())
        plan = call(*data(), "p", *OPTIONS, *few, *more, "--plan")
        assert sorted(pathlib.Path().iterdir()) == sorted({*there, pathlib.Path("own.imzML"), pathlib.Path("own.ibd")})
        assert plan["sorted_before"] == sorted_before and plan["spectra"] == 1693, plan
        out = call(*data(), "p", *OPTIONS, *few, *more, "--overwrite")
        assert out["sorted_before"] == sorted_before and plan["ions"] >= out["ions"], (plan, out)
        if sorted_before:
            assert plan["peaks"] == out["peaks"] and plan["segments"] > 10, plan
        for stage, key in zip(plan["stages"], ("sort", "score", "rank", "image")):
            said, took = stage["memory_bytes"], out[f"{key}_memory"]
            assert stage["seconds"] >= 0 and said <= 64 << 20, plan
            assert took <= said or (stage["name"], sorted_before) == ("sort", True), (stage, took, more)
        assert plan["memory_bytes"] == max(s["memory_bytes"] for s in plan["stages"])
    refused = call(*data(), "p", *OPTIONS, "--memory", "4MiB", "--plan", want=2)
    assert "bytes" in refused["error"]["message"], refused


def check_formats():
    """The ways to keep an image, each on the same images."""
    data()
    out = call("bench", "annotate", "--formats", "own.imzML", "--db", OWN / "db.csv", "--memory", "64MiB")
    of = {f["name"]: f for f in out["formats"]}
    assert list(of) == ["raw", "deflate", "zstd", "bits", "png16"] and out["images"] > 200, out
    assert of["raw"]["bytes"] == 8 * out["pixels"] and [n for n, f in of.items() if not f["exact"]] == ["png16"], of
    # 1693 pixels: 11 bits each, and a float; a byte more an image at most
    assert 0 <= of["bits"]["bytes"] - out["pixels"] * 43 / 8 <= out["images"], of
    assert 4 * out["pixels"] < of["zstd"]["bytes"] < of["raw"]["bytes"] > of["deflate"]["bytes"], of
    assert all(0 < f["memory_bytes"] < 64 << 20 and f["seconds"] >= 0 for f in of.values()), of


def check_timed():
    """The parts alone: what is counted is what there is; nothing stays in the folder."""
    imzml = data()[1]
    pathlib.Path("dots.f32").write_bytes(array.array("f", [0, 1, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0] * 4).tobytes())
    before = sorted(os.listdir())
    out = call("bench", "annotate", "--parts", imzml, "--db", OWN / "db.csv", "--from", "dots.f32", "--shape", "6,8", "--rounds", "2")
    of = {p["name"]: p for p in out["parts"]}
    assert list(of) == ["xml", "expat", "sort", "centroids", "metrics-400px", "chaos"], of
    assert of["xml"]["count"] == of["expat"]["count"] == 3 * os.path.getsize(imzml), of
    assert of["sort"]["count"] == call("info", imzml)["imzml"]["values"] and all(len(p["rounds"]) == 2 and p["per_second"] > 0 for p in of.values()), of
    assert out["centroids"] > 2 * of["centroids"]["count"] > 400 and out["refused"] == 0 and 0 <= out["chaos"] < 1, out
    assert sorted(os.listdir()) == before
    bad = call("bench", "annotate", "--parts", imzml, "--from", "dots.f32", want=2)
    assert "--shape" in bad["error"]["message"], bad


def check_report():
    """The page stands alone: images of the best ions, charts of FDR, errors, masses, time and memory."""
    out = call(*data(), "r <1>", *OPTIONS, "--report", "r.html")
    words = check_page(pathlib.Path("r.html"), 5, images=25)  # the 24 best, and the sum of intensities
    rows = sorted(csv.DictReader(open("r <1>/annotations.csv")), key=lambda r: (float(r["fdr"]), -float(r["msm"])))
    for row in rows[:24]:
        assert row["ion"] in words and f"m/z {float(row['mz']):.4f}" in words, row
    for part in ("r <1>", "Every ion was scored", "false discovery rate", "db +Na", "ppm", "ceiling 256 MiB", "score",
                 "annotations by m/z"):
        assert part in words or part in pathlib.Path("r.html").read_text(), part
    assert all(0 < out[f"{s}_memory"] <= 256 << 20 for s in ("sort", "score", "rank", "image")), out
    call(*data(), "r <1>", *OPTIONS, "--resume", "--report", "again.html")  # of what is whole
    assert rows[0]["ion"] in check_page(pathlib.Path("again.html"), 5, images=25)
    call(*data(), "none", *OPTIONS, "--images", "none", "--report", "none.html")
    assert "no image here" in check_page(pathlib.Path("none.html"), 5)
    call(*data(), "late", *OPTIONS, "--deadline", "1ms", "--report", "late.html", want=3)
    assert "--resume goes on" in check_page(pathlib.Path("late.html"), 2)
    bad = call(*data(), "bad", *OPTIONS, "--images", "none", "--report", "no/such/r.html", want=1)
    assert "no/such/r.html" in bad["error"]["message"], bad


def main():
    names = sys.argv[3:] or [n.removeprefix("check_") for n in globals() if n.startswith("check_")]
    with tempfile.TemporaryDirectory(prefix="tg-annotate-") as folder:
        os.chdir(folder)
        for name in names:
            globals()["check_" + name]()
            print("ok  ", name, flush=True)
        os.chdir("/")


main()
