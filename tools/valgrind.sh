#!/bin/sh
# Runs the tests of a build that have the label valgrind under memcheck: no error, no definite leak.
# usage: valgrind.sh BUILD
set -eu
build=$1
names=$(ctest --test-dir "$build" -N -L valgrind | sed -n 's/^ *Test *#[0-9]*: //p')
[ -n "$names" ] || { echo "valgrind: no test has the label" >&2; exit 1; }
for name in $names; do
    program=$(find "$build/tests" -type f -name "test_$name")
    [ -n "$program" ] || { echo "valgrind: test_$name is not built" >&2; exit 1; }
    echo "$program"
done | xargs -P "$(nproc)" -n 1 valgrind -q --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite >"$build/valgrind.log"
