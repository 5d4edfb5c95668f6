#!/bin/sh
# A job in N parts as ranks of an MPI job (OpenMPI), one rank a part; the command need not know MPI.
# When a rank dies mpirun ends the others: all are started again, up to 3 times, and parts that are
# done say so at once. Before that every process of the old job must be gone, for one that is still
# dying has the lock of its part.
# usage: parts_mpi.sh N COMMAND... --part auto (or auto/N)      (MPIRUN: other options of mpirun)
set -u
n=$1
shift
here=$(cd "$(dirname "$0")" && pwd)

alive() { # is any process of this session there? (zombies hold nothing)
    cat /proc/[0-9]*/stat 2>/dev/null | sed 's/.*) //' | awk -v s="$1" '$1 != "Z" && $4 == s { n++ } END { exit n == 0 }'
}

try=1
while :; do
    # shellcheck disable=SC2086
    setsid ${MPIRUN:-mpirun} -n "$n" "$here/part.sh" "$@" &
    session=$!
    wait "$session"
    status=$?
    while alive "$session"; do sleep 1; done
    [ "$status" -ne 0 ] && [ "$try" -lt 3 ] || exit "$status"
    echo "parts_mpi: exit $status, starting again" >&2
    try=$((try + 1))
done
