#!/usr/bin/env python3
"""Fail on calls and constructs that the project does without (CONTRIBUTING.md).

A line that needs one says why behind it: `/* allowed: reason */`."""
import collections
import pathlib
import re
import sys

CALLS = [  # what, where it is allowed (prefixes below the root), instead
    (r"malloc|calloc|realloc|free|aligned_alloc|posix_memalign|strdup|strndup", ["src/base/mem.c", "src/cli/"], "tg_alloc()"),
    (r"printf|puts|putchar|perror|vprintf", ["src/cli/"], "an error or the log callback"),
    (r"exit|abort|_exit|_Exit", ["src/base/sync.h", "src/cli/"], "an error"),
    (r"sprintf|vsprintf|strcpy|strcat|strncpy|strncat|gets", [], "snprintf()"),
    (r"atoi|atol|atof|atoll", [], "tg_parse_*()"),
    (r"strtok|strerror|rand|srand|asctime|ctime|gmtime|localtime|setlocale|system|alloca|longjmp", [], "its thread-safe form"),
]
THIRD_PARTY = r"json-c/|zstd|lz4|libdeflate|zlib|blosc|curl/|expat|arv|openssl/"

root = pathlib.Path(sys.argv[1])
found = []
users = collections.defaultdict(set)


def without_comments(text):
    """The same lines with comments and the insides of strings taken out."""
    text = re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)
    return re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)


for path in sorted([*(root / "src").rglob("*.[ch]"), *(root / "include").rglob("*.h")]):
    name = str(path.relative_to(root))
    raw = path.read_text()
    for header in re.findall(rf"#\s*include\s+<((?:{THIRD_PARTY})[^>]*)>", raw):
        users[header, path.parent.name].add(name)
    lines, raw_lines = without_comments(raw).splitlines(), raw.splitlines()
    in_function, has_goto, has_try = None, 0, 0
    for number, line in enumerate(lines, 1):
        if "allowed:" in raw_lines[number - 1]:
            continue
        for calls, where, instead in CALLS:
            m = re.search(rf"(?<![\w.>])({calls})\s*\(", line)
            if m and not any(name.startswith(w) for w in where):
                found.append(f"{name}:{number}: {m.group(1)}(): use {instead}")
        if re.search(r"\bTG_AUTO(_PTR)?\([^)]*\)\s*\w+\s*;", line):
            found.append(f"{name}:{number}: TG_AUTO without an initialiser")
        if name.startswith("include/") and re.search(r"\b(off_t|ssize_t)\b", line):
            found.append(f"{name}:{number}: off_t or ssize_t in a public header")
        if re.match(r"\s*#\s*include\s+<threads.h>", raw_lines[number - 1]):
            found.append(f"{name}:{number}: <threads.h>: use base/sync.h")
        if line.startswith("}"):
            if has_goto and has_try:
                found.append(f"{name}:{in_function}: goto and TG_TRY in one function")
            in_function, has_goto, has_try = None, 0, 0
        elif in_function is None and line.startswith("{"):
            in_function = number
        has_goto += bool(re.search(r"\bgoto\b", line))
        has_try += "TG_TRY(" in line

for (header, layer), files in users.items():
    if len(files) > 1:
        found.append(f"<{header}> is included by {len(files)} files of {layer}: {', '.join(sorted(files))}")
print("\n".join(found))
sys.exit(bool(found))
