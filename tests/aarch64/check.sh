#!/bin/sh
# Cross-builds for aarch64 and runs the unit and recording tests under qemu-user.
set -eu
cd "$(dirname "$0")/../.."
./scripts/setup soak
./scripts/build aarch64
ctest --preset aarch64 -j "$(nproc)" -LE 'soak|sweep|nosan|law|slow|x86'
