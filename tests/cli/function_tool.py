"""What check_functions.py has `apply --exec` run: function_tool.py MODE IN OUT [say]. No numpy: .npy by hand."""
import ast
import json
import os
import subprocess
import sys
import time


def load(path):
    """Shape and items of a .npy file of uint16, as apply writes it."""
    data = open(path, "rb").read()
    assert data[:8] == b"\x93NUMPY\x01\0", data[:8]
    start = 10 + int.from_bytes(data[8:10], "little")
    assert start % 64 == 0, start
    header = ast.literal_eval(data[10:start].decode())
    assert header["descr"] == ("<u2" if sys.byteorder == "little" else ">u2") and header["fortran_order"] is False, header
    items = memoryview(data)[start:].cast("H")
    return header["shape"], list(items)


def file_of(header, data, version=1):
    size = 2 if version == 1 else 4
    header = header.encode() + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + len(header).to_bytes(size, "little") + header + data


def plain(shape, items, descr="<u2", fortran=False, order="little", size=2):
    return ({"descr": descr, "fortran_order": fortran, "shape": tuple(shape)},
            b"".join(v.to_bytes(size, order) for v in items))


def hang():
    """Until killed, and a child of ours, too. Each leaves a note that it was there."""
    if "child" not in sys.argv:
        subprocess.Popen([sys.executable, *sys.argv, "child"], stdin=subprocess.DEVNULL)
    start = open("/proc/self/stat").read().rpartition(")")[2].split()[19]
    with open(f"pid-{os.getpid()}", "w") as f:
        f.write(f"{os.getpid()} {start}\n")
    while True:
        time.sleep(600)


def made(mode, shape, items):
    """The bytes of the output file."""
    plus = [v + 2 for v in items]
    header, data = plain(shape, plus)
    text = repr(header)
    columns = [plus[y * shape[1] + x] for x in range(shape[1]) for y in range(shape[0])]
    big = b"".join(v.to_bytes(2, "big") for v in plus)
    before, region = ([int(v) for v in os.environ[f"TIDEGATE_{name}"].split(",")] for name in ("BEFORE", "REGION"))
    inner = [plus[(before[0] + y) * shape[1] + before[1] + x] for y in range(region[0]) for x in range(region[1])]
    good = plain(region, inner)
    as_text = repr(good[0])
    files = {
        "inner": lambda: file_of(as_text, good[1]),
        "swapped": lambda: file_of(text.replace("<", ">"), big),
        "fortran": lambda: file_of(text.replace("False", "True"), plain(shape, columns)[1]),
        "swapped-fortran": lambda: file_of(text.replace("<", ">").replace("False", "True"),
                                           b"".join(v.to_bytes(2, "big") for v in columns)),
        "version2": lambda: file_of(text, data, 2),
        "version3": lambda: file_of(text, data, 3),
        "python2": lambda: file_of('{"shape": (%dL, %dL), "descr": "<u2",\t"fortran_order":False}' % tuple(shape), data),
        "bytes": lambda: file_of(repr(plain(shape, [])[0]).replace("<u2", "|u1"), bytes(v & 255 for v in items)),
        "empty": lambda: b"",
        "text": lambda: b"this is no array at all, is it",
        "version9": lambda: file_of(as_text, good[1], 9),
        "huge-header": lambda: b"\x93NUMPY\x02\0\xff\xff\xff\xff{" + bytes(100),
        "long-header": lambda: (b"\x93NUMPY\x01\0" + (60000).to_bytes(2, "little") + b" " * 118)[:128],
        "no-shape": lambda: file_of("{'descr': '<u2', 'fortran_order': False}", good[1]),
        "twice": lambda: file_of(as_text.replace("'shape'", "'descr': '<u2', 'shape'"), good[1]),
        "code": lambda: file_of(as_text.replace("False", "exit()"), good[1]),
        "object": lambda: file_of(as_text.replace("<u2", "|O"), good[1]),
        "record": lambda: file_of(as_text.replace("'<u2'", "[('a', '<u2')]"), good[1]),
        "float": lambda: file_of(as_text.replace("<u2", "<f8"), good[1] * 4),
        "halo": lambda: file_of(text, data),
        "flat": lambda: file_of(repr(plain([len(inner)], [])[0]), good[1]),
        "scalar": lambda: file_of(repr(plain([], [])[0]), good[1][:2]),
        "enormous": lambda: file_of(repr(plain([2**64 - 1] * 2, [])[0]), good[1]),
        "truncated": lambda: file_of(as_text, good[1])[:-1],
        "longer": lambda: file_of(as_text, good[1] + b"x"),
    }
    return files[mode]()


def main():
    mode, path_in, path_out, *more = sys.argv[1:]
    if mode == "hang":
        hang()
    if mode == "fifo":
        os.mkfifo(path_out)
    elif mode == "folder":
        os.mkdir(path_out)
    elif mode == "link":
        os.symlink(path_in, path_out)
    elif mode != "nothing":
        shape, items = load(path_in)
        if "say" in more:
            said = {k[9:]: v for k, v in os.environ.items() if k.startswith("TIDEGATE_")}
            with open(f"said-{said['ROI']}", "w") as f:
                json.dump(dict(said, shape=shape), f)
        with open(path_out, "wb") as f:
            f.write(made(mode, shape, items))


main()
