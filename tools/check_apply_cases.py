#!/usr/bin/env python3
"""Every test that docs/apply-cases.md names exists. usage: check_apply_cases.py BUILD"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
listing = subprocess.run(["ctest", "--test-dir", sys.argv[1], "-N"], capture_output=True, text=True, check=True)
known = set(re.findall(r"Test +#\d+: (\S+)", listing.stdout))
named, missing = 0, []
with open(os.path.join(ROOT, "docs", "apply-cases.md"), encoding="utf-8") as f:
    for line in f:
        if not line.startswith("| "):
            continue
        for name in re.findall(r"`([^`]+)`", line.rstrip(" |\n").rsplit("|", 1)[-1]):
            named += 1
            there = os.path.exists(os.path.join(ROOT, name)) if "/" in name else name in known
            missing += [] if there else [name]
if missing or named == 0:
    sys.exit(f"docs/apply-cases.md names {named} tests, and these do not exist: {', '.join(missing)}")
print(f"{named} tests named, all there")
