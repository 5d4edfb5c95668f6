#!/bin/sh
# clang-format, clang-tidy and cppcheck over the whole tree; any finding fails. usage: lint.sh BUILD
set -eu
cd "$(dirname "$0")/.."
build=$1
jobs=$(nproc)

sources() { git ls-files -co --exclude-standard "$@" | while read -r f; do [ -f "$f" ] && echo "$f"; done; }

sources '*.c' '*.h' | xargs -P "$jobs" -n 20 clang-format --dry-run -Werror
sources 'src/*.c' | xargs -P "$jobs" -n 4 clang-tidy --quiet -p "$build"
cppcheck --quiet -j "$jobs" --std=c11 --language=c --enable=warning,performance,portability --inline-suppr \
    --suppressions-list=tools/cppcheck.txt --error-exitcode=1 -I include -I src --max-configs=4 src
if command -v shellcheck >/dev/null 2>&1; then
    sources 'scripts/*' 'tools/*.sh' 'tests/*.sh' '.ci/run' | xargs shellcheck
fi
