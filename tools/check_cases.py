#!/usr/bin/env python3
"""Every test that the tables of cases in docs/ name exists: `check_cases.py ROOT [BUILD]`.

A row is `| key, key | what | tests |`; a test is one of, in backquotes,

    path: name    a test of that name in a file that something runs: in its table of tests or rows, a function of Python,
                  a word of a file of cases of the command
    path          a whole file
    name          a test of ctest's in BUILD; not looked up without one

No case of a closed table may be missing, nor be without a test."""
import pathlib
import re
import subprocess
import sys

RECORDING = [1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 19, 20, 22, 23, 25, 26, 28, 29, 31, 32, 34, 35, 37, 38, *range(40, 50)]
ANNOTATION = [1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 19, 20, 22, 23, 25, 26, 28, 29, 31, 32, 34, 35, 37, 38, 40, 41, 43, 44, 46,
              47, 49, 50]
TABLES = {  # file: its cases; None: an open table
    "docs/recording-cases.md": [f"T{n}" for n in RECORDING],
    "docs/apply-cases.md": None,
    "docs/annotation-cases.md": [f"S{n}" for n in range(1, 10)] + [f"O{n}" for n in range(1, 13)] +
                                [str(n) for n in ANNOTATION] + [f"D{n}" for n in range(1, 4)],
}
ROW = re.compile(r"^\| ((?:[A-Z]?\d+)(?:, [A-Z]?\d+)*) \|(.*)\|([^|]*)\|$")
TEST = re.compile(r"`([^`]+)`")


def is_run(path):
    """Named where tests are registered, or found by pytest."""
    if path.suffix == ".txt":
        return path.parent.name == "cases"
    if path.name.startswith("test_") and path.suffix == ".py":
        return True
    return path.name in (path.parent / "CMakeLists.txt").read_text()


def is_there(path, name):
    text = path.read_text()
    word = re.escape(name)
    if path.suffix == ".py":
        return re.search(rf"^\s*def {word}\(|\"{word}\"", text, re.M) is not None
    if path.suffix == ".txt":
        return re.search(rf"\b{word}\b", text) is not None
    return re.search(rf"{{\s*\"{word}[\":,]", text) is not None


def wrong(root, known, test):
    """What is wrong with the test that a row names, or None."""
    file, colon, name = test.partition(": ")
    if not colon and "/" not in file:
        return None if known is None or file in known else f"no test '{file}'"
    path = root / file
    if not path.is_file():
        return f"no file '{file}'"
    if not is_run(path):
        return f"nothing runs '{file}'"
    return None if not colon or is_there(path, name) else f"no test '{name}' in '{file}'"


def problems(root, known, table, cases):
    seen = set()
    for line in (root / table).read_text().splitlines():
        row = ROW.match(line)
        if not row:
            continue
        tests = TEST.findall(row[3])
        for key in row[1].split(", "):
            if key in seen:
                yield f"{key} stands there twice"
            seen.add(key)
        if cases is not None and not tests:
            yield f"{row[1]} names no test"
        yield from (f"{row[1]}: {words}" for words in (wrong(root, known, test) for test in tests) if words)
    if not seen:
        yield "no row"
    yield from (f"{key} is missing" for key in cases or [] if key not in seen)
    yield from (f"{key} is no case" for key in sorted(seen) if cases is not None and key not in cases)


def tests_of(build):
    listing = subprocess.run(["ctest", "--test-dir", build, "-N"], capture_output=True, text=True, check=True)
    return set(re.findall(r"Test +#\d+: (\S+)", listing.stdout))


if __name__ == "__main__":
    names = tests_of(sys.argv[2]) if len(sys.argv) > 2 else None
    found = [f"{t}: {p}" for t, cases in TABLES.items() for p in problems(pathlib.Path(sys.argv[1]), names, t, cases)]
    print("\n".join(found) if found else "the tables of cases name tests that exist")
    sys.exit(1 if found else 0)
