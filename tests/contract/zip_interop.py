#!/usr/bin/env python3
"""What tidegate writes into a ZIP, Python's zipfile reads, and the reverse."""
import io
import os
import struct
import subprocess
import sys
import tempfile
import warnings
import zipfile
import zlib

TOOL = sys.argv[1]
failures = 0


def check(what, ok, detail=""):
    global failures
    if not ok:
        failures += 1
        print(f"FAIL {what}: {detail}", file=sys.stderr)


def read_with_us(path):
    """key -> (size, crc) as tidegate reads them."""
    done = subprocess.run([TOOL, "read", path], capture_output=True, text=True)
    values = {}
    for line in done.stdout.splitlines():
        size, crc, key = line.split(" ", 2)
        values[key] = (int(size), int(crc, 16))
    return values


def same_as_zipfile(what, path):
    with zipfile.ZipFile(path) as z:
        check(what, z.testzip() is None, "testzip")
        want = {}
        for info in z.infolist():
            if not info.is_dir():
                data = z.read(info.filename)
                want[info.filename] = (len(data), zlib.crc32(data))
    got = read_with_us(path)
    check(what, got == want, f"got {got}, want {want}")
    return want


def ours_to_zipfile(folder):
    path = os.path.join(folder, "ours.zip")
    subprocess.run([TOOL, "write", path], check=True)
    want = same_as_zipfile("written by us", path)
    check("first round", len(want) == 7 and want["first/4"][0] == 3000000, want)
    with zipfile.ZipFile(path) as z:
        check("stored", all(i.compress_type == zipfile.ZIP_STORED for i in z.infolist()))
        check("same", z.read("same") == b"older")
        check("name", z.read("ä/星") == b"utf-8")
        info = z.getinfo("first/4")
        with open(path, "rb") as f:
            f.seek(info.header_offset)
            header = f.read(30)
        n, extra = struct.unpack("<HH", header[26:30])
        check("aligned", (info.header_offset + 30 + n + extra) % 4096 == 0)
    subprocess.run([TOOL, "write", path], check=True)  # append to our own
    want = same_as_zipfile("appended by us", path)
    with zipfile.ZipFile(path) as z:
        check("replaced", z.read("same") == b"newer")
        check("one record a name", len(z.namelist()) == len(set(z.namelist())) == 12, z.namelist())


def zipfile_to_ours(folder):
    path = os.path.join(folder, "python.zip")
    with zipfile.ZipFile(path, "w") as z:
        z.comment = b"a comment" * 7000
        z.writestr("stored", os.urandom(5000))
        z.writestr("deflated", b"zarr" * 9999, zipfile.ZIP_DEFLATED)
        z.writestr("empty", b"", zipfile.ZIP_DEFLATED)
        z.writestr("ünï/cødé", b"name")
        z.mkdir("folder") if hasattr(z, "mkdir") else z.writestr("folder/", b"")
        with z.open("large/form", "w", force_zip64=True) as f:
            f.write(b"x" * 100000)
    same_as_zipfile("by zipfile", path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the duplicate, which is the point
        with zipfile.ZipFile(path, "a") as z:
            z.writestr("stored", b"the newest of two")
    got = read_with_us(path)
    check("last of two", got["stored"] == (17, zlib.crc32(b"the newest of two")), got)
    subprocess.run([TOOL, "write", path], check=True)  # we append to theirs
    want = same_as_zipfile("theirs, appended by us", path)
    check("kept", {"deflated", "large/form", "second/4"} <= set(want), want)
    with zipfile.ZipFile(path) as z:
        check("comment kept", z.comment == b"a comment" * 7000)
        check("the older is gone", z.namelist().count("stored") == 1, z.namelist())
        check("folders kept", "folder/" in z.namelist())


class Pipe(io.RawIOBase):
    """An output that cannot go back: sizes follow the data, in descriptors."""

    def __init__(self, file):
        self.file = file

    def writable(self):
        return True

    def write(self, data):
        return self.file.write(data)


def descriptors(folder):
    path = os.path.join(folder, "piped.zip")
    with open(path, "wb") as f, zipfile.ZipFile(Pipe(f), "w") as z:
        z.writestr("a", b"stored")
        z.writestr("b", b"deflated" * 100, zipfile.ZIP_DEFLATED)
    same_as_zipfile("descriptors", path)


def refused(folder):
    path = os.path.join(folder, "bad.zip")
    for name in ("../out", "/etc/x", "a\\b", "a/../b", "C:/x"):
        with zipfile.ZipFile(path, "w") as z:
            info = zipfile.ZipInfo("plain")
            info.filename = name
            z.writestr(info, b"x")
        done = subprocess.run([TOOL, "read", path], capture_output=True, text=True)
        check(name, done.returncode == 1 and done.stdout == "corrupt data\n", done)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as z:
        z.writestr("packed", b"x" * 1000)
        z.writestr("plain", b"y", zipfile.ZIP_STORED)
    done = subprocess.run([TOOL, "read", path], capture_output=True, text=True)
    check("lzma", "not supported: packed" in done.stdout and " plain" in done.stdout, done)


def many(folder):
    path = os.path.join(folder, "many.zip")
    with zipfile.ZipFile(path, "w") as z:
        for i in range(70000):  # more than 16 bits count
            z.writestr(str(i), b"")
    got = read_with_us(path)
    check("70000 entries", len(got) == 70000, len(got))


with tempfile.TemporaryDirectory() as folder:
    ours_to_zipfile(folder)
    zipfile_to_ours(folder)
    descriptors(folder)
    refused(folder)
    many(folder)
print("ok" if failures == 0 else f"{failures} failed")
sys.exit(failures != 0)
