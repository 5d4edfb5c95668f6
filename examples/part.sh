#!/bin/sh
# One part of a job: a command, run again for up to 120 s as long as it says "try again" (exit 75:
# another run, perhaps one that is just dying, still has this part).
# usage: part.sh COMMAND...
end=$(($(date +%s) + 120))
while :; do
    "$@"
    status=$?
    [ "$status" -eq 75 ] || exit "$status"
    [ "$(date +%s)" -lt "$end" ] || exit 75
    sleep 1
done
