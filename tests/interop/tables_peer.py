"""Run in the environment `tables` by test_tables.py: what anndata and ngio make of our files, and
files of theirs. Prints nothing and ends with 0 if all is as it should be."""
import sys
import warnings

import numpy as np

warnings.filterwarnings("ignore")


def check_anndata(path, kind):
    """What tables_tool.c wrote."""
    import anndata

    a = anndata.read_zarr(path)
    want = np.array([[0 if (7 * i + j) % 3 == 0 else i + j / 8 for j in range(7)]
                     for i in range(10)], "f4")
    if kind == "none":
        assert a.X is None and a.shape == (10, 7)
    else:
        x = a.X if kind == "dense" else a.X.toarray()
        assert x.dtype == np.float32 and np.array_equal(x, want)
        if kind != "dense":
            assert a.X.format == kind and a.X.nnz == np.count_nonzero(want)
            assert np.array_equal((a.X @ np.ones((7, 1), "f4"))[:, 0], want.sum(1))
        assert np.array_equal(np.asarray(a[2:5, "ioné3"].X.todense() if kind != "dense"
                                         else a[2:5, "ioné3"].X).ravel(), want[2:5, 3])
    for frame, prefix, n in ((a.obs, "cell", 10), (a.var, "ion", 7)):
        assert list(frame.columns) == ["f", "id", "word", "yes"]
        assert list(frame.index) == [f"{prefix}é{i}" for i in range(n)]
        assert list(frame["word"]) == list(frame.index)
        assert list(frame["f"]) == [i / 4 for i in range(n)]
        assert frame["id"].dtype == np.int64 and list(frame["id"]) == [100 - i for i in range(n)]
        assert frame["yes"].dtype == bool and list(frame["yes"]) == [i % 2 == 0 for i in range(n)]


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
