#!/usr/bin/env python3
"""Every case of docs/recording-cases.md names tests that exist: `check_cases.py ROOT`.

A row of the table is `| T1 | what | tests |`; a test is `path: name`, both in backquotes. The path is a file of the tests
that a CMakeLists.txt beside it names (or that pytest finds), the name one that stands in that file as a test: in its table of
tests or rows, as a function of Python, or as a word of its comments in a file of cases of the command."""
import pathlib
import re
import sys

CASES = [1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 19, 20, 22, 23, 25, 26, 28, 29, 31, 32, 34, 35, 37, 38, *range(40, 50)]
ROW = re.compile(r"^\| T(\d+) \|([^|]*)\|(.*)\|$")
TEST = re.compile(r"`([^`:]+): ([^`]+)`")


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
        return re.search(rf"^\s*def {word}\(|^    \"{word}\":|\"{word}\"", text, re.M) is not None
    if path.suffix == ".txt":
        return re.search(rf"\b{word}\b", text) is not None
    return re.search(rf"{{\s*\"{word}[\":,]", text) is not None


def problems(root):
    seen = {}
    for line in (root / "docs/recording-cases.md").read_text().splitlines():
        row = ROW.match(line)
        if not row:
            continue
        number, tests = int(row[1]), TEST.findall(row[3])
        if number in seen:
            yield f"T{number} stands there twice"
        seen[number] = tests
        if not tests:
            yield f"T{number} names no test"
        for file, name in tests:
            path = root / file
            if not path.is_file():
                yield f"T{number}: no file '{file}'"
            elif not is_run(path):
                yield f"T{number}: nothing runs '{file}'"
            elif not is_there(path, name):
                yield f"T{number}: no test '{name}' in '{file}'"
    yield from (f"T{number} is missing" for number in CASES if number not in seen)
    yield from (f"T{number} is no case" for number in seen if number not in CASES)


if __name__ == "__main__":
    found = list(problems(pathlib.Path(sys.argv[1])))
    print("\n".join(found) if found else f"{len(CASES)} cases, each with tests that exist")
    sys.exit(1 if found else 0)
