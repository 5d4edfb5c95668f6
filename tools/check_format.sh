#!/bin/sh
# Fail on a file that clang-format would change. usage: check_format.sh [CLANG-FORMAT]
# Version 14 reads past the end of a table of its own when it aligns arrays, and now and then dies of
# it: one file a process, and a process that a signal ended is run again.
set -eu
cd "$(dirname "$0")/.."
TG_FORMAT=${1:-clang-format}
export TG_FORMAT
# shellcheck disable=SC2016
find include src tests examples bench -name '*.[ch]' -print0 2>/dev/null | xargs -0 -n 1 -P 2 sh -c '
    for try in 1 2 3 4 5; do
        status=0
        "$TG_FORMAT" --dry-run -Werror "$1" 2>"/tmp/tidegate-format.$$" || status=$?
        [ "$status" -ge 128 ] || break
    done
    [ "$status" = 0 ] || cat "/tmp/tidegate-format.$$" >&2
    rm -f "/tmp/tidegate-format.$$"
    exit "$status"' sh
