#!/usr/bin/env python3
"""Fail if a test was skipped for a reason that is not on the repo's list.

usage: check_skips.py LIST JUNIT.xml
LIST: one line each, `test-name-pattern<TAB>reason`; # begins a comment. A ctest program gives its
reason as its last line that begins with "skipped: "."""
import fnmatch
import sys
import xml.etree.ElementTree as ET

allowed = [
    line.rstrip("\n").split("\t")
    for line in open(sys.argv[1], encoding="utf-8")
    if line.strip() and not line.startswith("#")
]
bad = ran = 0
for case in ET.parse(sys.argv[2]).iter("testcase"):
    ran += 1
    skip = case.find("skipped")
    if skip is None:
        continue
    out = case.findtext("system-out") or ""
    said = [line[9:] for line in out.splitlines() if line.startswith("skipped: ")]
    reason = said[-1].strip() if said else (skip.get("message") or "").strip()
    name = case.get("name", "")
    if any(fnmatch.fnmatch(name, n) and r in reason for n, r in allowed):
        continue
    print(f"skipped without a listed reason: {name}: {reason!r}", file=sys.stderr)
    bad += 1
if ran == 0:
    print("no test ran", file=sys.stderr)
sys.exit(bad != 0 or ran == 0)
