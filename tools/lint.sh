#!/bin/sh
# clang-format, clang-tidy and cppcheck over the whole tree; any finding fails. usage: lint.sh BUILD
set -eu
cd "$(dirname "$0")/.."
build=$1
jobs=$(nproc)
bad=0

sources() { git ls-files -co --exclude-standard "$@" | while read -r f; do [ -f "$f" ] && echo "$f"; done; }

./tools/check_format.sh || bad=1
# Only what this build compiles: optional sources have no command without their library.
sources 'src/*.c' | while read -r f; do grep -qF "/$f\"" "$build/compile_commands.json" && echo "$f"; done |
    xargs -P "$jobs" -n 4 clang-tidy --quiet -p "$build" 2>"$build/clang-tidy.log" || bad=1
cppcheck --quiet -j "$jobs" --std=c11 --language=c --enable=warning,performance,portability --inline-suppr \
    --suppressions-list=tools/cppcheck.txt --error-exitcode=1 -I include -I src --max-configs=4 src || bad=1
if command -v shellcheck >/dev/null 2>&1; then
    sources 'scripts/*' 'tools/*.sh' 'tests/*.sh' '.ci/run' | xargs shellcheck -S warning || bad=1
fi
exit "$bad"
