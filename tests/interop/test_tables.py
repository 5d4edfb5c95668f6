"""Tables and lists of regions that we write, read by anndata and ngio; those that they write, read
by us. They live in an environment of their own: what uses them is tables_peer.py."""
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
