"""Run by the Python that has scipy and scikit-image: JOBS.npz holds arrays and, as one JSON text, a
dict of expressions over them and over np, ndi, ski; their values go to OUT.npz."""
import json
import sys
import warnings

import numpy as np
import scipy.ndimage as ndi
import skimage as ski
import skimage.exposure
import skimage.filters
import skimage.measure

warnings.filterwarnings("ignore")
jobs = dict(np.load(sys.argv[1]))
names = {"np": np, "ndi": ndi, "ski": ski}
names.update({k: v for k, v in jobs.items() if k != "expressions"})
out = {}
for name, text in json.loads(str(jobs["expressions"])).items():
    value = eval(text, names)
    for key, part in value.items() if isinstance(value, dict) else [("", value)]:
        out[f"{name}/{key}" if key else name] = np.asarray(part)
np.savez(sys.argv[2], **out)
