"""Tables and lists of regions that we write, read by anndata and ngio; those that they write, read
by us. They live in an environment of their own: what uses them is tables_peer.py."""
import json
import os
import subprocess

import pytest

from peers import BUILD, ROOT

TOOL = os.path.join(BUILD, "tests", "interop", "tables_tool")
PYTHON = os.environ.get("TG_TABLES_PYTHON",
                        os.path.join(ROOT, "build", "venv", "tables", "bin", "python"))
PEER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tables_peer.py")

pytestmark = [
    pytest.mark.skipif(not os.path.exists(TOOL), reason=f"no tables_tool in {BUILD}"),
    pytest.mark.skipif(not os.path.exists(PYTHON), reason="no environment tables"),
]


def peer(what, *args):
    done = subprocess.run([PYTHON, PEER, what, *map(str, args)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.parametrize("fmt", [2, 3])
@pytest.mark.parametrize("kind", ["dense", "csr", "csc", "none"])
def test_anndata_reads_ours(tmp_path, fmt, kind):
    done = subprocess.run([TOOL, tmp_path / "a.zarr", "", str(fmt), kind], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stderr
    peer("check_anndata", tmp_path / "a.zarr", kind)


# --- Lists of regions ------------------------------------------------------------------------------

TIDEGATE = os.path.join(BUILD, "tidegate")
needs_command = pytest.mark.skipif(not os.path.exists(TIDEGATE), reason=f"no tidegate in {BUILD}")
VERSIONS = ["0.4", "0.5"]


def rois(*args):
    done = subprocess.run([TIDEGATE, "rois", *map(str, args), "--json"], capture_output=True,
                          text=True)
    assert done.returncode == 0, done.stdout
    return json.loads(done.stdout)


def boxes(got):
    return [(r["name"], r.get("label", 0), [tuple(pair) for pair in r["box"]])
            for r in got["regions"]]


@needs_command
@pytest.mark.parametrize("version", VERSIONS)
def test_we_read_tables_of_ngio(tmp_path, version):
    image = tmp_path / "i.zarr"
    peer("make_tables", image, version)
    for backend in ("anndata", "csv", "json"):
        got = rois(f"table:roi_{backend}", "--image", image)
        assert (got["axes"], got["unit"], got["array"]) == (["z", "y", "x"], "micrometer", "0")
        assert boxes(got) == [("A", 0, [(0, 3), (1.5, 9.75), (0, 16)]),
                              ("B", 0, [(1, 2), (0, 2), (7, 16)])]
        assert (got["not_snapped"], got["first_not_snapped"]) == (1, 0)
        got = rois(f"table:mask_{backend}", "--image", image, "--pixels")
        assert got["labels"] == "labels/nuclei"
        assert boxes(got) == [("3", 3, [(0, 1), (0, 16), (2, 6)]),
                              ("70000", 70000, [(0, 3), (4, 12), (10, 15)])]


@needs_command
@pytest.mark.parametrize("version", VERSIONS)
def test_we_read_tables_of_older_tasks(tmp_path, version):
    image = tmp_path / "i.zarr"
    peer("make_legacy", image, version)
    got = rois("table:FOV_ROI_table", "--image", image)
    assert got["axes"] == ["t", "z", "y", "x"]
    assert boxes(got) == [("A", 5, [(4, 6), (0, 3), (1.5, 9.75), (0, 16)]),
                          ("B", 0, [(1, 4), (1, 2), (0, 2), (7, 16)])]


@needs_command
@pytest.mark.parametrize("version", VERSIONS)
def test_ngio_reads_our_tables(tmp_path, version):
    image, csv = tmp_path / "i.zarr", tmp_path / "b.csv"
    peer("make_labels", image, version)
    csv.write_text('name,label,y0,y1,x0,x1\na,7,0,64,32,64\n"b, c",9,10,20,30,40\n')
    backends = ["anndata", "csv", "json"]
    for backend in backends:
        rois(csv, "--image", image, "--to", f"table:t_{backend}", "--backend", backend)
        rois("labels:labels/nuclei", "--image", image, "--to", f"table:m_{backend}", "--backend",
             backend)
    peer("check_tables", image, ",".join(backends))
    for backend in backends:  # and what it says is what we read back
        got = rois(f"table:t_{backend}", "--image", image, "--pixels")
        assert boxes(got) == [("a", 7, [(0, 64), (32, 64)]), ("b, c", 9, [(10, 20), (30, 40)])]
