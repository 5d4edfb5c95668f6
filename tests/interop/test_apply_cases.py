"""Black-box cases of `apply` that no other test holds (docs/apply-cases.md), with zarr-python beside it."""
import json
import os
import subprocess

import numpy as np
import pytest

zarr = pytest.importorskip("zarr", reason="no environment zarr3")

from peers import BUILD  # noqa: E402

COMMAND = os.path.join(BUILD, "tidegate")
LIMIT = 240  # seconds until something has hung
pytestmark = [pytest.mark.skipif(not os.path.exists(COMMAND), reason=f"no tidegate in {BUILD}"),
              pytest.mark.filterwarnings("ignore")]


class Place:
    """A folder, and tidegate in it."""

    def __init__(self, folder):
        self.folder = folder

    def __truediv__(self, name):
        return self.folder / name

    def start(self, *args, **kinds):
        return subprocess.Popen([COMMAND, *map(str, args)], cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, **kinds)

    def run(self, *args, status=0, **kinds):
        process = self.start(*args, "--json", **kinds)
        out, err = process.communicate(timeout=LIMIT)
        assert process.returncode == status, f"{args}: exit {process.returncode}, want {status}: {out} {err[-600:]}"
        return json.loads(out)

    def apply(self, *args, **kinds):
        return self.run("apply", *args, **kinds)

    def array(self, name, values, chunks, shards=None, **options):
        values = np.asarray(values)
        a = zarr.create_array(str(self / name), shape=values.shape, dtype=values.dtype, chunks=chunks, shards=shards,
                              overwrite=True, dimension_names=["t", "z", "y", "x"][-values.ndim:], **options)
        a[...] = values
        return a

    def read(self, name):
        return zarr.open_array(str(self / name), mode="r")[...]


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def run_parts(place, parts, *skip):
    for i in range(parts):
        if i not in skip:
            place.run("run", "p", "--part", f"{i}/{parts}")


def test_56_writes_that_were_dropped(place):
    """56: units that a part has written are not there when all is merged: `finish` names them, exit 1, and nothing is called done."""
    place.array("a.zarr", np.arange(64 * 64, dtype="uint16").reshape(64, 64), (16, 16))
    place.run("plan", "a.zarr", "b.zarr", "--out", "p", "--parts", 3, "--rois", "grid:16", "--op", "add:value=1")
    run_parts(place, 3, 2)
    gone = sorted((place / "b.zarr/c").glob("*/*"))[:2]
    kept = [path.read_bytes() for path in gone]
    gone[0].unlink()
    gone[1].write_bytes(kept[1][:-1])
    answer = place.run("run", "p", "--part", "2/3", status=1)
    for path in gone:
        assert str(path.relative_to(place / "b.zarr")) in answer["error"]["message"], answer
    answer = place.run("finish", "p", status=1)
    assert not place.run("status", "p")["finished"]
    for path, data in zip(gone, kept):
        path.write_bytes(data)
    assert place.run("finish", "p")["merged"]
    np.testing.assert_array_equal(place.read("b.zarr"), place.read("a.zarr") + 1)
