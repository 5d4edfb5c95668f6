"""Rows of tables that `apply` writes: measure against scikit-image's regionprops_table, stats against
numpy; in every format; after kills the same bytes."""
import csv
import json
import os
import signal
import subprocess

import numpy as np
import pytest
import zarr

from ops_env import PYTHON, evaluate
from peers import BUILD, pattern

TIDEGATE = os.path.join(BUILD, "tidegate")
pytestmark = [
    pytest.mark.skipif(not os.path.exists(TIDEGATE), reason=f"no tidegate in {BUILD}"),
    pytest.mark.skipif(not os.path.exists(PYTHON), reason="no environment ops"),
]
PROPERTIES = ["label", "area", "bbox", "centroid", "intensity_mean", "intensity_min",
              "intensity_max", "intensity_std"]


def apply(*args, code=0, env=None):
    done = subprocess.run([TIDEGATE, "apply", *map(str, args), "--json"], capture_output=True,
                          text=True, env=None if env is None else {**os.environ, **env})
    assert done.returncode == code, f"{args}: {done.returncode} {done.stdout} {done.stderr}"
    return done


def read_csv(path):
    with open(path, newline="") as f:
        rows = list(csv.reader(f))
    out = {}
    for i, name in enumerate(rows[0]):
        column = [r[i] for r in rows[1:]]
        try:
            out[name] = np.array(column, dtype=np.float64)
        except ValueError:
            out[name] = np.array(column)
    return out


def make(path, a, axes, chunks=7):
    z = zarr.create_array(str(path), shape=a.shape, chunks=tuple(min(n, chunks) for n in a.shape),
                          dtype=a.dtype, dimension_names=axes, compressors=None)
    z[...] = a


def labels_of(shape, n, seed=3, dtype="uint32"):
    """Blobs and dust; ids with gaps; some objects in several pieces, over many regions."""
    rng = np.random.RandomState(seed)
    out = np.zeros(shape, dtype)
    ids = np.cumsum(rng.randint(1, 5, n))
    for i in ids:
        low = [rng.randint(0, s) for s in shape]
        high = [min(s, a + 1 + rng.randint(0, max(2, s // 2))) for s, a in zip(shape, low)]
        box = tuple(slice(a, b) for a, b in zip(low, high))
        out[box] = np.where(rng.rand(*out[box].shape) < 0.7, i, out[box])
    return out


def check_table(got, want, exact):
    names = [k for k in want if k.split("-")[0] in
             ("label", "area", "bbox", "intensity_min", "intensity_max")]
    assert set(want) <= set(got)
    for k in names:
        np.testing.assert_array_equal(got[k], want[k].astype(np.float64), err_msg=k)
    for k in set(want) - set(names):
        np.testing.assert_allclose(got[k], want[k], rtol=1e-12 if exact else 1e-9, atol=1e-9,
                                   err_msg=k)


@pytest.mark.parametrize("shape", [(37, 41), (9, 21, 23), (53,)], ids=str)
@pytest.mark.parametrize("dtype", ["uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64",
                                   "float32", "float64"])
def test_measure(tmp_path, shape, dtype):
    axes = ["z", "y", "x"][-len(shape):]
    image, labels = pattern(dtype, shape), labels_of(shape, 14)
    if image.dtype.kind == "f":
        image[~np.isfinite(image)] = 3
    if len(shape) == 1: # regionprops wants two dimensions at least
        expression = ("ski.measure.regionprops_table(labels[None], image[None], properties=%r)" %
                      (PROPERTIES,))
    else:
        expression = "ski.measure.regionprops_table(labels, image, properties=%r)" % (PROPERTIES,)
    want = evaluate(tmp_path, {"image": image.astype(np.float64) if dtype in ("int64", "uint64", "float32")
                               else image, "labels": labels}, {"t": expression})
    want = {k[2:]: v for k, v in want.items()}
    if len(shape) == 1:
        for k in ("bbox-0", "bbox-2", "centroid-0"):
            del want[k]
        want["bbox-0"], want["bbox-1"] = want.pop("bbox-1"), want.pop("bbox-3")
        want["centroid-0"] = want.pop("centroid-1")
    make(tmp_path / "a.zarr", image, axes)
    make(tmp_path / "l.zarr", labels, axes, 5)
    grid = "grid:" + ",".join(["6"] * len(shape))
    apply(tmp_path / "a.zarr", "--op", f"measure:labels={tmp_path}/l.zarr", "--rois", grid,
          "--table", tmp_path / "t.csv")
    check_table(read_csv(tmp_path / "t.csv"), want, dtype not in ("float32", "float64"))
    assert sorted(os.listdir(tmp_path)) == ["a.zarr", "jobs.npz", "l.zarr", "out.npz", "t.csv"]
    # The same whatever divides the work.
    for threads, memory in (("1", "4MiB"), ("4", "64MiB")):
        apply(tmp_path / "a.zarr", "--op", f"measure:labels={tmp_path}/l.zarr", "--rois", grid,
              "--table", tmp_path / f"{threads}.csv", "--threads", threads, "--memory", memory)
        assert (tmp_path / f"{threads}.csv").read_bytes() == (tmp_path / "t.csv").read_bytes()
    # IN as the label image: no intensity.
    apply(tmp_path / "l.zarr", "--op", "measure", "--rois", grid, "--table", tmp_path / "l.csv")
    got = read_csv(tmp_path / "l.csv")
    assert not any(k.startswith("intensity") for k in got)
    check_table(got, {k: v for k, v in want.items() if not k.startswith("intensity")}, True)


def test_more_labels_than_have_room(tmp_path):
    """Each pixel its own label: rows of a region in many records, sorted outside memory."""
    shape = (300, 400)
    labels = (np.random.RandomState(1).permutation(shape[0] * shape[1]) + 1).reshape(shape)
    labels = labels.astype("uint32")
    labels[:, 200:] = labels[:, :200]
    make(tmp_path / "l.zarr", labels, ["y", "x"], 100)
    apply(tmp_path / "l.zarr", "--op", "measure", "--rois", "grid:100", "--table",
          tmp_path / "l.csv", "--memory", "8MiB")
    got = read_csv(tmp_path / "l.csv")
    ids, first = np.unique(labels, return_index=True)
    np.testing.assert_array_equal(got["label"], ids)
    np.testing.assert_array_equal(got["area"], 2)
    np.testing.assert_array_equal(got["bbox-0"], first // 400)
    np.testing.assert_array_equal(got["bbox-3"] - got["bbox-1"], 201)
    np.testing.assert_array_equal(got["centroid-1"], first % 400 + 100)


def test_channels_and_regions(tmp_path):
    """Labels that lack an axis of IN: a row for each place along it. per=region: for each region."""
    image, labels = pattern("uint16", (3, 20, 24)), labels_of((20, 24), 9)
    make(tmp_path / "a.zarr", image, ["c", "y", "x"])
    make(tmp_path / "l.zarr", labels, ["y", "x"])
    op = f"measure:labels={tmp_path}/l.zarr"
    apply(tmp_path / "a.zarr", "--op", op, "--rois", "grid:7,9", "--table", tmp_path / "t.csv")
    got = read_csv(tmp_path / "t.csv")
    ids = [i for i in np.unique(labels) if i]
    np.testing.assert_array_equal(got["label"], np.repeat(ids, 3))
    np.testing.assert_array_equal(got["c"], np.tile([0, 1, 2], len(ids)))
    for k, (i, c) in enumerate(zip(got["label"], got["c"])):
        values = image[int(c)][labels == i]
        assert got["area"][k] == len(values) and got["intensity_sum"][k] == values.sum()
        assert abs(got["intensity_std"][k] - values.std()) < 1e-9
    csv_boxes = tmp_path / "r.csv"
    csv_boxes.write_text("name,y0,y1,x0,x1\nleft,0,20,0,14\n\"a,b\",5,20,10,24\n")
    apply(tmp_path / "a.zarr", "--op", op + ",per=region", "--rois", csv_boxes, "--policy", "last",
          "--table", tmp_path / "r.json")
    got = json.loads((tmp_path / "r.json").read_text())
    want = [(name, int(i), c, int((part == i).sum()))
            for name, part in (("left", labels[:, :14]), ("a,b", labels[5:, 10:]))
            for i in np.unique(part) if i for c in range(3)]
    assert list(zip(got["region"], got["label"], got["c"], got["area"])) == want


def test_stats(tmp_path):
    for dtype in ("bool", "int8", "uint16", "int64", "float16", "float32", "float64"):
        a = pattern(dtype, (30, 31))
        make(tmp_path / f"{dtype}.zarr", a, ["y", "x"])
        apply(tmp_path / f"{dtype}.zarr", "--op", "stats", "--rois", "grid:9/7", "--table",
              tmp_path / f"{dtype}.csv")
        got = read_csv(tmp_path / f"{dtype}.csv")
        regions = [a[y:y + 9, x:x + 9] for y in range(0, 22, 7) for x in range(0, 29, 7)]
        with np.errstate(all="ignore"):
            values = [r.astype(np.float64).ravel() for r in regions]
            for name in ("min", "max", "mean", "std", "sum"):
                want = np.array([getattr(np, name)(v) for v in values])
                np.testing.assert_allclose(got[name], want, rtol=1e-9, atol=1e-9,
                                           err_msg=f"{dtype} {name}")
        np.testing.assert_array_equal(got["count"], [len(v) for v in values])


def test_a_large_offset_costs_nothing(tmp_path):
    a = np.full((40, 40), 65500, "uint16")
    a[::2] += 1
    make(tmp_path / "a.zarr", a, ["y", "x"])
    make(tmp_path / "f.zarr", a.astype("float64") * 1e9, ["y", "x"])
    for name, std in (("a", 0.5), ("f", 0.5e9)):
        apply(tmp_path / f"{name}.zarr", "--op", "stats", "--rois", "grid:40", "--table",
              tmp_path / f"{name}.csv")
        assert read_csv(tmp_path / f"{name}.csv")["std"] == [std]


@pytest.mark.parametrize("backend", ["anndata", "csv", "json"])
def test_table_of_an_image(tmp_path, backend):
    image, labels = pattern("uint16", (30, 30)), labels_of((30, 30), 6)
    root = zarr.create_group(str(tmp_path / "i.zarr"))
    scale = [{"type": "scale", "scale": [0.5, 0.5]}]
    axes = [{"name": n, "type": "space", "unit": "micrometer"} for n in "yx"]
    ome = {"version": "0.5", "multiscales": [{"axes": axes, "datasets": [
        {"path": "0", "coordinateTransformations": scale}]}]}
    root.attrs["ome"] = ome
    make(tmp_path / "i.zarr" / "0", image, ["y", "x"])
    group = root.create_group("labels").create_group("cells")
    group.attrs["ome"] = {**ome, "image-label": {}}
    make(tmp_path / "i.zarr" / "labels" / "cells" / "0", labels, ["y", "x"])
    args = (tmp_path / "i.zarr", "--op", "measure:labels=labels/cells", "--rois", "grid:8", "--table",
            "table:features", "--backend", backend)
    apply(*args)
    table = zarr.open_group(str(tmp_path / "i.zarr" / "tables" / "features"), mode="r")
    assert zarr.open_group(str(tmp_path / "i.zarr" / "tables"), mode="r").attrs["tables"] == ["features"]
    assert table.attrs["type"] == "feature_table" and table.attrs["instance_key"] == "label"
    assert table.attrs["region"] == {"path": "../labels/cells"}
    ids = [i for i in np.unique(labels) if i]
    means = [image[labels == i].mean() for i in ids]
    if backend == "csv":
        got = read_csv(tmp_path / "i.zarr" / "tables" / "features" / "table.csv")
        label, mean = got["label"], got["intensity_mean"]
    elif backend == "json":
        label, mean = table["table"].attrs["label"], table["table"].attrs["intensity_mean"]
    else:
        names = list(table["var/_index"][...])
        label = [int(v) for v in table["obs/label"][...]]
        mean = table["X"][...][:, names.index("intensity_mean")]
    np.testing.assert_array_equal(label, ids)
    np.testing.assert_allclose(mean, means, rtol=1e-12)
    apply(*args, code=2)
    apply(*args, "--overwrite")
    assert sorted(os.listdir(tmp_path)) == ["i.zarr"]


@pytest.mark.parametrize("args, says", [
    (("--op", "measure"), "--table"), (("--op", "add:value=1", "--table", "t.csv"), "no rows"),
    (("--op", "stats", "--table", "t.txt"), "FILE.csv"),
    (("--op", "stats", "--table", "there.csv"), "overwrite"),
    (("--op", "measure", "--table", "t.csv", "--policy", "last"), "overlap"),
    (("--op", "measure:per=pixel", "--table", "t.csv"), "per"),
    (("--op", "measure:labels=none.zarr", "--table", "t.csv"), "none.zarr"),
    (("--op", "stats", "--table", "t.csv", "--memory", "300KiB"), "memory")])
def test_refused(tmp_path, args, says):
    make(tmp_path / "a.zarr", pattern("uint8", (20, 20)), ["y", "x"])
    (tmp_path / "there.csv").write_text("mine")
    done = subprocess.run([TIDEGATE, "apply", "a.zarr", "--rois", "grid:8", *args],
                          capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == (1 if says == "none.zarr" else 2), done.stderr
    assert says in done.stderr, done.stderr
    assert sorted(os.listdir(tmp_path)) == ["a.zarr", "there.csv"]
    assert (tmp_path / "there.csv").read_text() == "mine"


def test_the_same_bytes_after_kills(tmp_path):
    """Killed at every crash point, run again to the end: the table of a run that nobody killed."""
    image, labels = pattern("float32", (40, 40)), labels_of((40, 40), 20)
    make(tmp_path / "a.zarr", image, ["y", "x"], 16)
    make(tmp_path / "l.zarr", labels, ["y", "x"], 16)
    args = (tmp_path / "a.zarr", "--op", f"measure:labels={tmp_path}/l.zarr", "--rois", "grid:13",
            "--threads", "2")
    apply(*args, "--table", tmp_path / "want.csv")
    killed = 0
    for point in range(1, 200):
        table = tmp_path / f"{point}.csv"
        done = subprocess.run([TIDEGATE, "apply", *map(str, args), "--table", str(table)],
                              capture_output=True, env={**os.environ, "TG_CRASH_AT": str(point)})
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
        killed += 1
        # Killed between the last mark of the run and the end of the tidying: it is a new one.
        over = ["--overwrite"] if table.exists() and not os.path.exists(
            f"{table}.tidegate/apply/rows-0") else []
        apply(*args, "--table", table, *over)
        assert table.read_bytes() == (tmp_path / "want.csv").read_bytes(), point
        assert not os.path.exists(f"{table}.tidegate")
    assert killed >= 18, killed
    # Other parameters over an unfinished run are refused.
    table = tmp_path / "other.csv"
    subprocess.run([TIDEGATE, "apply", *map(str, args), "--table", str(table)], capture_output=True,
                   env={**os.environ, "TG_CRASH_AT": "9"})
    done = apply(*args[:1], "--op", "stats", "--rois", "grid:13", "--table", table, code=2)
    assert "unfinished" in done.stderr + done.stdout
