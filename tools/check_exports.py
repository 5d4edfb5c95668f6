#!/usr/bin/env python3
"""Fail if the shared library does not export exactly the functions marked TG_API.

usage: check_exports.py ROOT LIBRARY"""
import pathlib
import re
import subprocess
import sys

root, library = pathlib.Path(sys.argv[1]), sys.argv[2]
marked = set()
for path in (root / "include/tidegate").glob("*.h"):
    text = re.sub(r"/\*.*?\*/", "", path.read_text(), flags=re.S)
    text = re.sub(r"^#.*$", "", text, flags=re.M)
    for declaration in re.findall(r"\bTG_API\b([^;]*);", text):
        name = re.search(r"(\w+)\s*(?:\(|\[|$)", declaration.replace("TG_MUST_USE", ""))
        if name:
            marked.add(name.group(1))
nm = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True)
exported = {line.split()[-1].split("@")[0] for line in nm.stdout.splitlines() if line.split()[-2] in "TDBRV"}
for name in sorted(marked - exported):
    print(f"{name} is marked TG_API and not exported: it has no definition")
for name in sorted(exported - marked):
    print(f"{name} is exported and not marked TG_API")
sys.exit(marked != exported)
