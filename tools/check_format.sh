#!/bin/sh
# Fail on a file that clang-format would change. usage: check_format.sh CLANG-FORMAT
set -eu
cd "$(dirname "$0")/.."
find include src tests examples bench -name '*.[ch]' 2>/dev/null | xargs -n 50 "$1" --dry-run -Werror
