"""The annotation that a Python user puts together today, as one pipeline on one thread: pyimzML reads, numpy sorts,
scipy.sparse makes the images, cpyMSpec the centroids, cpyImagingMSpec the scores, by METASPACE's procedure v3.

    annotate_python.py DATA.imzML DB.csv [--expected expected_v3.csv] [--sigma .001238] [--instrument orbitrap] [--ppm 3]

Prints one JSON line: seconds of each stage, ions, and with --expected how far every value is from the table's.
"""

import argparse
import csv
import json
import os
import re
import time

for name in ("OMP", "OPENBLAS", "MKL"):  # before numpy is loaded
    os.environ[f"{name}_NUM_THREADS"] = "1"

import cpyImagingMSpec as scores
import cpyMSpec
import numpy as np
from pyimzml.ImzMLParser import ImzMLParser
from scipy.sparse import coo_matrix

import common

ADDUCTS = ["+H", "+Na", "+K"]
# METASPACE's candidates, in its order
DECOYS = ["+" + s for s in """He Li Be B C N O F Ne Mg Al Si P S Cl Ar Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb
    Sr Y Zr Nb Mo Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Sm Eu Gd Tb Dy Ho Ir Th Pt Os Yb Lu Bi Pb Re Tl Tm U W
    Au Er Hf Hg Ta""".split()]
SAMPLE, SEED, LEVELS, PEAKS = 20, 42, 30, 4
TO_FWHM = 2.3548200450309493


def read_peaks(imzml):
    """All peaks with an intensity, by m/z: equal ones in the order of the file."""
    parser = ImzMLParser(imzml, parse_lib="lxml")
    xy = np.array([c[:2] for c in parser.coordinates])
    xy -= xy.min(axis=0)
    width, height = xy.max(axis=0) + 1
    pixels = xy[:, 1] * width + xy[:, 0]
    arrays = [parser.getspectrum(i) for i in range(len(pixels))]
    mz = np.concatenate([a for a, _ in arrays]).astype(np.float64, copy=False)
    intensity = np.concatenate([b for _, b in arrays]).astype(np.float32, copy=False)
    pixel = np.repeat(pixels, [len(a) for a, _ in arrays])
    kept = np.flatnonzero(intensity > 0)
    order = kept[np.argsort(mz[kept], kind="stable")]
    return mz[order], intensity[order], pixel[order], np.unique(pixels), (int(height), int(width))


def ion_formula(formula, adduct):
    counts = {}
    for symbol, n in re.findall("([A-Z][a-z]*)([0-9]*)", formula) + [(adduct[1:], "1")]:
        counts[symbol] = counts.get(symbol, 0) + int(n or 1)
    first = [s for s in "CHNOPS" if s in counts]
    return "".join(s + (str(counts[s]) if counts[s] > 1 else "") for s in first + sorted(set(counts) - set("CHNOPS")))


def make_ions(formulas):
    """{ion: is it a decoy only}; [(formula, adduct, ion)] of targets and of decoys."""
    rng = np.random.RandomState(SEED)
    targets, decoys = [], []
    for formula in formulas:
        drawn = [a for a in DECOYS if a not in ADDUCTS]
        rng.shuffle(drawn)
        targets += [(formula, a, ion_formula(formula, a)) for a in ADDUCTS]
        decoys += [(formula, a, ion_formula(formula, a)) for a in drawn[:SAMPLE]]
    return targets, decoys


def centroids(ions, instrument, sigma):
    model = cpyMSpec.InstrumentModel(instrument, 200 / (sigma * TO_FWHM))
    found = {}
    for ion in ions:
        try:
            pattern = cpyMSpec.isotopePattern(ion)
            pattern.addCharge(1)
            pattern = pattern.centroids(model)
        except Exception:  # the library raises that
            continue
        pattern.trim(PEAKS)
        pattern.sortByMass()
        found[ion] = np.array(pattern.masses), np.array(pattern.intensities)
    return found


def score_ion(peaks, mz, theory, ppm):
    all_mz, intensity, pixel, sampled, (height, width) = peaks
    low, high = np.searchsorted(all_mz, mz - mz * ppm * 1e-6, "left"), np.searchsorted(all_mz, mz + mz * ppm * 1e-6, "right")
    if high[0] == low[0] or np.count_nonzero(high > low) < 2:
        return None
    dense = []
    for a, b in zip(low, high):
        rows, columns = np.divmod(pixel[a:b], width)
        dense.append(coo_matrix((intensity[a:b], (rows, columns)), shape=(height, width)).toarray())
    flat = [image.ravel()[sampled] for image in dense]
    n_pixels = [int(np.count_nonzero(f)) for f in flat]
    while len(flat) < PEAKS:
        flat.append(np.zeros_like(flat[0]))
        n_pixels.append(0)
    theory = np.append(theory, np.zeros(PEAKS - len(theory)))
    spectral = scores.isotope_pattern_match(flat, theory)
    spectral = 0 if not spectral > 0 or spectral == 1 else spectral
    spatial = scores.isotope_image_correlation(flat, weights=theory[1:]) if spectral > 0 else 0
    chaos = 0
    if spatial > 0:
        chaos = scores.measure_of_chaos(dense[0], LEVELS)
        chaos = 0 if np.isclose(chaos, 1) or np.isnan(chaos) else chaos
    return chaos * spatial * spectral, chaos, spatial, spectral, n_pixels


def false_discovery_rates(targets, decoys):
    """v3: (D + 1) / 20 / (T + 1) over all scores, then the running minimum from the lowest up."""
    targets, decoys = np.sort(targets), np.sort(decoys)
    steps = np.unique(np.concatenate([targets, decoys]))
    above_t, above_d = len(targets) - np.searchsorted(targets, steps), len(decoys) - np.searchsorted(decoys, steps)
    return dict(zip(steps, np.minimum.accumulate((above_d + 1) / SAMPLE / (above_t + 1))))


def rank(targets, decoys, scored):
    by_formula = {}
    for formula, _, ion in decoys:
        by_formula.setdefault(formula, []).append(ion)
    rows = []
    for adduct in ADDUCTS:
        mine = [(f, ion) for f, a, ion in targets if a == adduct]
        good = [(f, ion, scored[ion]) for f, ion in mine if ion in scored and scored[ion][0] > 0]
        false = [scored[ion][0] for f, _ in mine for ion in by_formula[f] if ion in scored and scored[ion][0] > 0]
        rates = false_discovery_rates([s[0] for _, _, s in good], false)
        rows += [(f, adduct, ion, s, rates[s[0]]) for f, ion, s in good]
    return rows


def agreement(rows, patterns, expected):
    """Largest distances from the table of a run by the reference procedure."""
    with open(expected, newline="") as f:
        want = {(r["formula"], r["modifier"]): r for r in csv.DictReader(f)}
    got = {(f, a): (ion, s, fdr) for f, a, ion, s, fdr in rows}
    worst = dict.fromkeys(("mz_relative", "chaos", "spatial", "spectral", "msm", "fdr"), 0.0)
    counts = 0
    for key in want.keys() & got.keys():
        row, (ion, (msm, chaos, spatial, spectral, n_pixels), fdr) = want[key], got[key]
        pairs = [("mz_relative", mz / float(row[f"mz{k}"]), 1) for k, mz in enumerate(patterns[ion][0])]
        pairs += [(name, value, float(row[name])) for name, value in
                  (("chaos", chaos), ("spatial", spatial), ("spectral", spectral), ("msm", msm), ("fdr", fdr))]
        for name, value, true in pairs:
            worst[name] = max(worst[name], abs(value - true))
        counts += n_pixels != [int(n) for n in row["n_pixels"].split()]
    return {"rows_expected": len(want), "rows_equal": len(want.keys() & got.keys()), "rows_more": len(got.keys() - want.keys()),
            "pixel_counts_other": counts, "largest_difference": worst}


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("imzml")
    p.add_argument("database")
    p.add_argument("--expected")
    p.add_argument("--sigma", type=float, default=0.001238)
    p.add_argument("--instrument", default="orbitrap")
    p.add_argument("--ppm", type=float, default=3)
    args = p.parse_args()

    seconds, clock = {}, time.perf_counter
    start = last = clock()

    def lap(name):
        nonlocal last
        seconds[name], last = clock() - last, clock()

    peaks = read_peaks(args.imzml)
    lap("read and sort")
    with open(args.database, newline="") as f:
        formulas = sorted({row["formula"] for row in csv.DictReader(f)})
    targets, decoys = make_ions(formulas)
    ions = dict.fromkeys(ion for _, _, ion in targets + decoys)
    lap("ions")
    patterns = centroids(ions, args.instrument, args.sigma)
    lap("centroids")
    scored = {ion: s for ion, (mz, theory) in patterns.items() if (s := score_ion(peaks, mz, theory, args.ppm)) is not None}
    lap("images and scores")
    rows = rank(targets, decoys, scored)
    lap("rank")
    result = {"seconds": clock() - start, "stages": seconds, "peaks": len(peaks[0]), "ions": len(ions), "rows": len(rows),
              "rss_bytes_peak": common.peak_rss_bytes(),
              "versions": {n: common.version_of(n) for n in ("pyimzML", "numpy", "scipy", "cpyMSpec", "cpyImagingMSpec")}}
    if args.expected:
        result["agreement"] = agreement(rows, patterns, args.expected)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
