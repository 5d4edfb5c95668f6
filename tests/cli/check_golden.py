#!/usr/bin/env python3
"""Print arrays made by zarr-python and tensorstore with `tidegate cat` and compare every byte.

    check_golden.py TIDEGATE GOLDEN.zip

NAME.raw beside each array holds its items in C order, little-endian; strings with their length in front.
"""
import json
import struct
import subprocess
import sys
import zipfile


def strings_of(raw):
    found, at = [], 0
    while at < len(raw):
        (length,) = struct.unpack_from("<I", raw, at)
        found.append(raw[at + 4:at + 4 + length].decode())
        at += 4 + length
    return found


def cat(tidegate, path, *options):
    done = subprocess.run([tidegate, "cat", *options, path], capture_output=True, timeout=60, check=False)
    return done.stdout if done.returncode == 0 else sys.exit(f"{path}: {done.stderr.decode()}")


def main():
    tidegate, golden = sys.argv[1:]
    archive = zipfile.ZipFile(golden)
    wrong, n = [], 0
    for entry in archive.namelist():
        if not entry.endswith(".raw"):
            continue
        name, raw, n = entry[:-4], archive.read(entry), n + 1
        path = f"{golden}|zip:{name}"
        if "strings" in name:
            got = [json.loads(line) for line in cat(tidegate, path).decode().split("\n")[:-1]]
            wrong += [] if got == strings_of(raw) else [name]
        else:
            out = cat(tidegate, path, "--npy")
            wrong += [] if out[out.index(b"\n") + 1:] == raw else [name]
    print(f"{n} arrays, wrong: {wrong}")
    sys.exit(1 if wrong or n < 100 else 0)


if __name__ == "__main__":
    main()
