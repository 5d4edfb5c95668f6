#!/bin/sh
# Fail on a file that clang-format would change. usage: check_format.sh [CLANG-FORMAT]
set -eu
cd "$(dirname "$0")/.."
find include src tests examples bench -name '*.[ch]' -print0 2>/dev/null |
    xargs -0 -n 16 -P 2 "${1:-clang-format}" --dry-run -Werror
