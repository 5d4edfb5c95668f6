#!/bin/sh
# A job in N parts by GNU parallel, here or (PARALLEL='--sshlogin ...') on other machines; a part that
# fails is tried up to 3 times.
# usage: parts_parallel.sh N COMMAND... --part auto (or auto/N)
set -eu
n=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
exec parallel --will-cite --quote --max-replace-args 0 --jobs "$n" --retries 3 "$here/part.sh" "$@" ::: $(seq "$n")
