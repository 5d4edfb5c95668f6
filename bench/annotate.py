"""Annotation beside what a Python user has today, one thread each, in interleaved rounds; prints JSON.

    bench/annotate.py --ims IMS_DATA [--tidegate build/release/tidegate] [--python build/venv/peers-ims/bin/python]
                      [--dir WORK] [--rounds 3] [--only whole parts again segment formats] [--big PREFIX]

IMS_DATA holds synthetic/ and synthetic-own/; WORK wants 6 GB free on the disk to be measured. PREFIX: of a set that
`tidegate bench annotate --generate PREFIX --shape 300,400 --fill 500` made; without it one is made. Standard library only.
"""

import argparse
import csv
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
SEGMENTS = [5, 10, 20, 50, 100]  # MB: the question of the seed


class Bench:
    def __init__(self, args, folder):
        self.args, self.folder, self.n = args, pathlib.Path(folder), 0
        self.ims = pathlib.Path(args.ims).resolve()

    def json_of(self, *command):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        run = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, env=environment)
        if run.returncode != 0:
            raise SystemExit(f"exit {run.returncode}: {' '.join(map(str, command))}\n{run.stdout.decode()}")
        return json.loads(run.stdout)

    def ours(self, *arguments):
        return self.json_of(self.args.tidegate, *arguments, "--threads", 1, "--progress", "none", "--json")

    def peer(self, script, *arguments):
        return self.json_of(self.args.python, "-W", "ignore", HERE / "peers" / script, *arguments)

    def new_name(self, what):
        self.n += 1
        return self.folder / f"{what}{self.n}"

    def fresh(self, prefix):
        """The data set under a new name, for which no sorted peaks are there."""
        to = self.new_name("set")
        for ending in (".imzML", ".ibd"):
            try:
                os.link(f"{prefix}{ending}", f"{to}{ending}")
            except OSError:  # another file system
                shutil.copy(f"{prefix}{ending}", f"{to}{ending}")
        return f"{to}.imzML"

    def annotate(self, imzml, database, *options):
        """A run into a new folder, which stays until the end: file systems look for what was just removed."""
        start = time.perf_counter()
        out = self.ours("annotate", imzml, self.new_name("out"), "--db", database, *options)
        return {"wall_seconds": time.perf_counter() - start, **out}

    def generated(self, *options):
        prefix = self.new_name("made")
        self.ours("bench", "annotate", "--generate", prefix, *options)
        return prefix

    # --- Scenarios ---------------------------------------------------------------------------

    def whole(self):
        """The synthetic set from its files to FDRs: ours with all its outputs, and without images, beside the pipeline."""
        data = self.ims / "synthetic"
        runs = {"tidegate": [], "tidegate, no images": [], "python": []}
        for _ in range(self.args.rounds):
            for name, more in (("tidegate", ()), ("tidegate, no images", ("--images", "none"))):
                runs[name].append(self.annotate(self.fresh(data / "synthetic"), data / "db.csv", *more))
            start = time.perf_counter()
            python = self.peer("annotate_python.py", data / "synthetic.imzML", data / "db.csv", "--expected", data / "expected_v3.csv")
            runs["python"].append({"wall_seconds": time.perf_counter() - start, **python})
        medians = {name: statistics.median(r["wall_seconds"] for r in of) for name, of in runs.items()}
        inside = {name: statistics.median(r["seconds"] for r in of) for name, of in runs.items()}
        last = runs["python"][-1]
        return {
            "wall_seconds": medians,
            "seconds_without_start": inside,
            "rounds": {name: [r["wall_seconds"] for r in of] for name, of in runs.items()},
            "ratio": medians["python"] / medians["tidegate"],
            "ratio_no_images": medians["python"] / medians["tidegate, no images"],
            "wanted": 20,
            "rss_bytes_peak": {name: max(r["rss_bytes_peak"] for r in of) for name, of in runs.items()},
            "python": {k: last[k] for k in ("stages", "peaks", "ions", "rows", "versions", "agreement")},
        }

    def parts(self):
        """Each part alone, beside the library that does it."""
        formulas = self.folder / "500.csv"
        with open(self.ims / "synthetic-own" / "all_formulas.csv") as f:
            formulas.write_text("".join(f.readlines()[:501]))
        imzml = f"{self.big()}.imzML"
        sizes, chaos, rounds = {"256x256": (256, 256), "400x300": (300, 400)}, {}, []
        for _ in range(self.args.rounds):
            one = {"cpyMSpec": self.peer("mass_spec.py", "centroids", formulas)["formulas_per_s"],
                   "IsoSpecPy": self.peer("mass_spec.py", "centroids", formulas, "--set=library=IsoSpecPy")["formulas_per_s"]}
            for name, (height, width) in sizes.items():
                image = self.folder / f"{name}.f32"
                of = self.peer("mass_spec.py", "metrics", f"--set=side={height}", f"--set=width={width}", f"--set=save={image}")
                one[f"chaos {name} cpyImagingMSpec"] = 1e6 / of["us_per_ion"]["chaos"]
                small = ("--parts", f"{self.ims}/synthetic-own/synthetic.imzML", "--from", image, "--shape", f"{height},{width}")
                mine = self.ours("bench", "annotate", *small, "--db", formulas, "--rounds", 1, "--dir", self.folder)
                rate = {p["name"]: p["per_second"] for p in mine["parts"]}
                one |= {f"chaos {name}": rate["chaos"], "centroids": rate["centroids"], "metrics-400px": rate["metrics-400px"]}
                chaos[name] = {"tidegate": mine["chaos"], "cpyImagingMSpec": of["chaos"]}
            mine = self.ours("bench", "annotate", "--parts", imzml, "--rounds", 1, "--dir", self.folder)
            one |= {p["name"]: p["per_second"] for p in mine["parts"] if p["name"] in ("xml", "expat", "sort")}
            rounds.append(one)
        pyimzml = self.peer("mass_spec.py", "imzml", self.ims / "synthetic-own" / "synthetic.imzML", "--set=repeat=20", f"--dir={self.folder}")
        of = {name: statistics.median(r[name] for r in rounds) for name in rounds[0]}

        def ratio(a, b):
            return statistics.median(r[a] / r[b] for r in rounds)

        return {
            "per_second": {**of, "pyimzML bytes": pyimzml["mb_per_s"] * 1e6},
            "xml_of_expat": {"ratio": ratio("xml", "expat"), "wanted": 0.9},
            "xml_of_pyimzml": {"ratio": of["xml"] / (pyimzml["mb_per_s"] * 1e6)},
            "sort_peaks_per_s": {"value": of["sort"], "wanted": 8e6},
            "centroids_of_cpymspec": {"ratio": ratio("centroids", "cpyMSpec"), "wanted": 2},
            "centroids_of_isospecpy": {"ratio": ratio("centroids", "IsoSpecPy"), "note": "isotopologues only, no instrument"},
            "metrics_ions_per_s": {"value": of["metrics-400px"], "wanted": 20000},
            **{f"chaos_{n}": {"ratio": ratio(f"chaos {n}", f"chaos {n} cpyImagingMSpec"), "wanted": 2.5, "values": chaos[n]} for n in sizes},
            "rounds": rounds,
        }

    def big(self):
        if self.args.big is None:
            self.args.big = self.generated("--shape", "300,400", "--fill", 500)
        return pathlib.Path(self.args.big).resolve()

    def again(self):
        """60 M peaks: sorted and annotated, then annotated from the sorted peaks with 400 formulas."""
        database = self.folder / "400.csv"
        with open(f"{self.big()}.db.csv", newline="") as f:
            names = [row["formula"] for row in csv.DictReader(f)]
        with open(self.ims / "synthetic-own" / "all_formulas.csv", newline="") as f:
            names += [row["formula"] for row in csv.DictReader(f) if row["formula"] not in set(names)]
        database.write_text("formula\n" + "\n".join(names[:400]) + "\n")
        kept = ("seconds", "sort_seconds", "score_seconds", "rank_seconds", "image_seconds", "peaks", "ions", "images", "segments", "requests")
        imzml, out = self.fresh(self.big()), {}
        for name, more in (("images", ()), ("no images", ("--images", "none"))):
            first = self.annotate(imzml, database, *more) if name == "images" else None
            runs = [self.annotate(imzml, database, *more) for _ in range(self.args.rounds)]
            out["first"] = {k: first[k] for k in kept} if first else out["first"]
            middle = sorted(runs, key=lambda r: r["seconds"])[len(runs) // 2]
            out[name] = {**{k: middle[k] for k in kept}, "rounds": [r["seconds"] for r in runs],
                         "ratio": middle["seconds"] / out["first"]["seconds"]}
        return {**out, "wanted": 0.1}

    def segment(self):
        """--segment from 5 MB to 100 MB: requests and time of the first run and of the next."""
        prefix, rows = self.generated("--shape", "200,300", "--fill", 200), []
        for mb in SEGMENTS:
            imzml = self.fresh(prefix)
            more = ("--segment", mb * 1000000, "--memory", "512MiB")
            first = self.annotate(imzml, f"{prefix}.db.csv", *more)
            runs = [self.annotate(imzml, f"{prefix}.db.csv", *more) for _ in range(self.args.rounds)]
            rows.append({"segment_mb": mb, "first_seconds": first["seconds"], "first_requests": first["requests"],
                         "again_seconds": statistics.median(r["seconds"] for r in runs), "again_requests": runs[0]["requests"],
                         "segments_read": runs[0]["segments"], "rss_bytes_peak": max(r["rss_bytes_peak"] for r in [first, *runs])})
        return {"peaks": first["peaks"], "sizes": rows}

    def formats(self):
        """Ways to keep ion images: bytes, time, memory."""
        own = self.ims / "synthetic-own"
        return self.ours("bench", "annotate", "--formats", self.fresh(own / "synthetic"), "--db", own / "db.csv", "--dir", self.folder)


SCENARIOS = ["whole", "parts", "again", "segment", "formats"]


def machine(folder):
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    return {"cpu": cpu, "cores": os.cpu_count(), "kernel": os.uname().release, "architecture": os.uname().machine,
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "file_system": subprocess.run(["stat", "-f", "-c", "%T", folder], stdout=subprocess.PIPE, text=True).stdout.strip()}


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--ims", required=True)
    p.add_argument("--tidegate", default="build/release/tidegate")
    p.add_argument("--python", default="build/venv/peers-ims/bin/python")
    p.add_argument("--dir", default=".")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--only", nargs="+", choices=SCENARIOS, default=SCENARIOS)
    p.add_argument("--big")
    args = p.parse_args()
    folder = tempfile.mkdtemp(prefix="annotate-bench-", dir=args.dir)
    result = {"machine": machine(folder), "rounds": args.rounds}
    try:
        bench = Bench(args, folder)
        for name in args.only:
            print(name, file=sys.stderr, flush=True)
            result[name] = getattr(bench, name)()
    finally:
        shutil.rmtree(folder)
    json.dump(result, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
