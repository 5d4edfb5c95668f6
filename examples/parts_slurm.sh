#!/bin/sh
# A job in N parts as a Slurm job array, one task a part; tasks whose node fails are queued again.
# usage: parts_slurm.sh N COMMAND... --part auto (or auto/N)
#        parts_slurm.sh 8 tidegate run smooth.plan --part auto
# Ends when all tasks have; its exit status is the highest of theirs.
set -eu
n=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
quoted=
for word in "$here/part.sh" "$@"; do
    quoted="$quoted '$(printf %s "$word" | sed "s/'/'\\\\''/g")'"
done
exec sbatch --wait --requeue --array="0-$((n - 1))" --output='part-%a.log' --open-mode=append --wrap="exec $quoted"
