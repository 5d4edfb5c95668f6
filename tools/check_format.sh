#!/bin/sh
# Fail on a file that clang-format would change. usage: check_format.sh CLANG-FORMAT
# One file a process: version 14 reads past the end of a table of its own when it aligns arrays, and
# dies of it in one run over many files.
set -eu
cd "$(dirname "$0")/.."
find include src tests examples bench -name '*.[ch]' -print0 2>/dev/null | xargs -0 -n 1 -P 2 "$1" --dry-run -Werror
