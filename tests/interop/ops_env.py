"""The Python that has scipy and scikit-image, for tests that compare operations with them."""
import json
import os
import subprocess

import numpy as np

from peers import ROOT

PYTHON = os.environ.get("TG_OPS_PYTHON", os.path.join(ROOT, "build", "venv", "ops", "bin", "python"))
PEER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ops_peer.py")


def evaluate(folder, arrays, expressions):
    """Values of Python expressions over the arrays and over np, ndi (scipy.ndimage) and ski."""
    jobs, out = os.path.join(folder, "jobs.npz"), os.path.join(folder, "out.npz")
    np.savez(jobs, expressions=np.array(json.dumps(expressions)), **arrays)
    done = subprocess.run([PYTHON, PEER, jobs, out], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-4000:]
    with np.load(out) as values:
        return {k: values[k] for k in values.files}
