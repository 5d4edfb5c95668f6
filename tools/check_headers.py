#!/usr/bin/env python3
"""Fail if a public header is missing from tidegate.h, or from the list that is installed."""
import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
headers = {p.name for p in (root / "include/tidegate").glob("*.h")}
umbrella = set(re.findall(r'#include "tidegate/(\w+\.h)"', (root / "include/tidegate/tidegate.h").read_text()))
listed = set(re.findall(r"^  (\w+\.h)$", (root / "src/lib/CMakeLists.txt").read_text(), re.M))
wrong = [f"tidegate.h does not include {h}" for h in sorted(headers - umbrella - {"tidegate.h"})]
wrong += [f"src/lib/CMakeLists.txt does not list {h}" for h in sorted(headers - listed)]
print("\n".join(wrong))
sys.exit(bool(wrong))
