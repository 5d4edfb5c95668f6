#!/bin/bash
# powercut.sh FS CYCLES SHUTDOWN WRITE CHECK: cut the power under a writer.
#
# FS        ext4 or xfs, made in a file and mounted through a loop device
# SHUTDOWN  the fs_shutdown program
# WRITE     command, by sh -c; {mnt}: where the file system is mounted, {out}: a
#           folder in memory that survives the cut, where it notes what was
#           acknowledged; killed after the cut
# CHECK     command after the file system is mounted again; exit 0: all is well
#
# POWERCUT_SOAK: cycles if TG_SOAK=1 is set. WRITE and CHECK find the cycle in POWERCUT_CYCLE.
# POWERCUT_MAX_MS: latest moment of the cut (default 300). SEED: replays the moments.
# Exit 77: cannot be done here (not root, no loop device, no mkfs).
set -u
fs=$1 cycles=$2 shutdown=$3 write=$4 check=$5
seed=${SEED:-1} max=${POWERCUT_MAX_MS:-300}

[ "${TG_SOAK:-}" = 1 ] && cycles=${POWERCUT_SOAK:-$cycles}

skip() { echo "skipped: $1"; exit 77; }
[ "$(id -u)" = 0 ] || skip "not root"
command -v "mkfs.$fs" >/dev/null || skip "no mkfs.$fs"

work=$(mktemp -d "${TMPDIR:-/tmp}/powercut-XXXXXX")
out=$(mktemp -d /dev/shm/powercut-XXXXXX)
mnt=$work/mnt loop=
cleanup() {
    mountpoint -q "$mnt" && umount "$mnt"
    [ -n "$loop" ] && losetup -d "$loop"
    rm -rf "$work" "$out"
}
trap cleanup EXIT
mkdir "$mnt"
size=96M
[ "$fs" = xfs ] && size=320M
truncate -s $size "$work/image"
"mkfs.$fs" -q "$work/image" || skip "mkfs.$fs failed"
loop=$(losetup -f --show "$work/image" 2>/dev/null) || { loop=; skip "no loop device"; }
mount -t "$fs" "$loop" "$mnt" 2>/dev/null || skip "cannot mount $fs on a loop device"

fill() { local s=${1//\{mnt\}/$mnt}; echo "${s//\{out\}/$out}"; }

RANDOM=$seed
failed=0 cuts=0
for i in $(seq "$cycles"); do
    export POWERCUT_CYCLE=$i
    rm -rf "${mnt:?}"/* "${out:?}"/*
    sync -f "$mnt"
    sh -c "exec $(fill "$write")" >"$work/write.out" 2>&1 &
    writer=$!
    ms=$((RANDOM * max / 32768 + 1))
    sleep "$(printf '%d.%03d' $((ms / 1000)) $((ms % 1000)))"
    "$shutdown" "$mnt" && cuts=$((cuts + 1))
    kill -KILL $writer 2>/dev/null
    wait $writer 2>/dev/null
    umount "$mnt" && mount -t "$fs" "$loop" "$mnt" || { echo "FAIL cycle $i: does not mount again"; exit 1; }
    if ! sh -c "$(fill "$check")" >"$work/check.out" 2>&1; then
        failed=$((failed + 1))
        echo "FAIL cycle $i, cut after $ms ms: $(tail -c 400 "$work/check.out")"
    fi
    cat "$work/check.out" >>"$work/all.out"
done
acked=$(awk '/ acknowledged/ { n += $1 } END { print n + 0 }' "$work/all.out")
echo "power cuts on $fs: seed $seed, $cuts of $cycles, $acked acknowledged, $failed cycles failed"
[ "$cuts" = "$cycles" ] && [ "$failed" = 0 ] && [ "$acked" -gt 0 ]
