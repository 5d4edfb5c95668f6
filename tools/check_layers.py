#!/usr/bin/env python3
"""Fail if a file under src/ includes a layer that its own may not see."""
import pathlib
import re
import sys

ZARR = {"base", "nd", "store", "codec", "zarr"}  # zarr and below
JOB = ZARR | {"exec", "table", "ome"}  # a job sees all below it, and no other job

# layer: the layers it may include, besides itself and the public headers
MAY_SEE = {
    "base": set(),
    "nd": {"base"},
    "store": {"base"},
    "codec": {"base", "nd"},
    "exec": {"base"},
    "chem": {"base"},
    "zarr": ZARR,
    "table": ZARR,
    "ome": ZARR,
    "stream": JOB,
    "region": JOB,
    "tree": JOB,
    "ims": JOB | {"chem"},
    "lib": {"codec"},  # the shared library's own words: version and features
    "cli": set(),  # public headers only
}

root = pathlib.Path(sys.argv[1])
bad = 0
for path in sorted((root / "src").rglob("*.[ch]")):
    layer = path.relative_to(root / "src").parts[0]
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = re.match(r'\s*#\s*include\s+"([a-z0-9_]+)/', line)
        other = found and found.group(1)
        if other and other not in ({layer, "tidegate"} | MAY_SEE[layer]):
            print(f"{path.relative_to(root)}:{number}: {layer} may not include {other}")
            bad += 1
sys.exit(bad != 0)
