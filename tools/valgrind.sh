#!/bin/sh
# Runs the unit and contract tests of a build under valgrind memcheck: no error, no definite leak.
# usage: valgrind.sh BUILD
set -eu
build=$1
ctest --test-dir "$build" -N -L valgrind | awk '/Test +#/ { print $NF }' >"$build/valgrind.txt"
[ -s "$build/valgrind.txt" ] || { echo "valgrind: no test has the label" >&2; exit 1; }
ctest --test-dir "$build" -L valgrind -T memcheck --overwrite MemoryCheckCommandOptions="--error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite -q" -j "$(nproc)"
