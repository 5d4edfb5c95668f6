#!/bin/sh
# Installs a build into a folder of its own and compiles a program against it three ways: shared by
# pkg-config, static by pkg-config, and by CMake's find_package. usage: check.sh BUILD
set -eu
cd "$(dirname "$0")/../.."
build=$1
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

cmake --install "$build" --prefix "$root/usr"
PKG_CONFIG_PATH=$(dirname "$(find "$root/usr" -name tidegate.pc)")
LD_LIBRARY_PATH=$(dirname "$(find "$root/usr" -name libtidegate.so)")
export PKG_CONFIG_PATH LD_LIBRARY_PATH

# shellcheck disable=SC2046
cc -std=c99 -Wall -Wextra -Werror tests/install/program.c -o "$root/shared" $(pkg-config --cflags --libs tidegate)
"$root/shared"
# shellcheck disable=SC2046
cc -std=c99 tests/install/program.c -o "$root/static" -Wl,-Bstatic -ltidegate -Wl,-Bdynamic \
    $(pkg-config --cflags --static --libs tidegate | sed 's/-ltidegate//')
env -u LD_LIBRARY_PATH "$root/static"
# shellcheck disable=SC2046
c++ -std=c++17 -Wall -Wextra -Werror -x c++ tests/install/program.c -o "$root/cxx" $(pkg-config --cflags --libs tidegate)
"$root/cxx"
cmake -S tests/install -B "$root/build" -DCMAKE_PREFIX_PATH="$root/usr" >/dev/null
cmake --build "$root/build"
"$root/build/program"
"$root/usr/bin/tidegate" --version
