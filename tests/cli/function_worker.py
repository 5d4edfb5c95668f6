"""What check_functions.py has `apply --worker` run: function_worker.py MODE [REGION...]. The protocol of
docs/functions.md by hand, without numpy; MODE says what goes wrong, where REGION (1) is asked for."""
import ctypes
import json
import mmap
import os
import signal
import socket
import subprocess
import sys
import time

MODE, *REGIONS = sys.argv[1:]
REGIONS = [int(r) for r in REGIONS if r != "child"] or [1]
MEMORY = 4


def note(name="pid"):
    start = open("/proc/self/stat").read().rpartition(")")[2].split()[19]
    with open(f"{name}-{os.getpid()}", "w") as f:
        f.write(f"{os.getpid()} {start}\n")


def start_child():
    subprocess.Popen([sys.executable, *sys.argv, "child"], close_fds=False, stdin=subprocess.DEVNULL)


def sleep():
    while True:
        time.sleep(600)


def add(call, items, value=2, before=None):
    """IN's region, or what lies elsewhere in the block, plus 2, into OUT."""
    before = before or call["before"]
    rows, columns = call["region"]
    size = 1 if call["out"]["dtype"] == "uint8" else 2
    for y in range(rows):
        for x in range(columns):
            at = (before[0] + y) * call["in"]["strides"][0] + (before[1] + x) * 2
            v = int.from_bytes(items[at:at + 2], sys.byteorder) + value
            to = call["out"]["offset"] + y * call["out"]["strides"][0] + x * size
            items[to:to + size] = (v & 255 if size == 1 else v).to_bytes(size, sys.byteorder)


def corner(call, items):
    """The item one up and two to the left, where there is one."""
    rows, columns = call["region"]
    top, left = call["before"]
    for y in range(rows):
        for x in range(columns):
            at = max(top + y - 1, 0) * call["in"]["strides"][0] + max(left + x - 2, 0) * 2
            items[call["out"]["offset"] + y * columns + x] = items[at if sys.byteorder == "little" else at + 1]


def shrink():
    """Tidegate has it mapped: a shorter file would be its end."""
    try:
        os.ftruncate(MEMORY, 0)
    except PermissionError:
        return
    sys.exit("the memory can be made shorter")


def punch():
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate(MEMORY, 3, ctypes.c_long(0), ctypes.c_long(1 << 20))  # PUNCH_HOLE | KEEP_SIZE


def before_answer(say, call, items):
    """What goes wrong instead of an answer."""
    n = call["call"]
    if MODE == "junk":
        say("this is no answer")
    elif MODE == "bytes":
        channel.sendall(b"\xff\xfe\n")
    elif MODE == "number":
        say("7")
    elif MODE == "error":
        say(json.dumps({"call": n, "error": "no cells\n\x1bhere [31m"}))
        return
    elif MODE == "other-call":
        say(json.dumps({"call": 9, "ok": True}))
    elif MODE == "not-ok":
        say(json.dumps({"call": n, "ok": False}))
    elif MODE == "two-lines":
        channel.sendall(b'{"call": %d, "ok": true}\n{"call": 3, "ok": true}\n' % n)
    elif MODE == "long":
        channel.sendall(b" " * 100000)
    elif MODE == "close":
        os.closerange(3, 64)
    elif MODE == "half":
        channel.sendall(b'{"call": %d' % n)
        sys.exit(0)
    elif MODE == "exit":
        print("hello\nbye", file=sys.stderr)
        sys.exit(7)
    elif MODE == "exception":
        print(1 // 0)
    elif MODE == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    elif MODE in ("hang", "wait"):
        note("hangs")
    sleep()


def beside_answer(call, items):
    """What is done beside the answer."""
    if MODE == "say":
        with open(f"said-{call['roi']}", "w") as f:
            json.dump({"hello": hello, "call": call}, f)
    elif MODE == "scribble":  # all but what is asked for
        end = call["out"]["offset"] + call["out"]["shape"][0] * call["out"]["strides"][0]
        items[:call["out"]["offset"]] = b"\xff" * call["out"]["offset"]
        items[end:] = b"\xff" * (len(items) - end)
    elif MODE == "shrink":
        shrink()
    elif MODE == "grow":
        os.ftruncate(MEMORY, 1 << 24)
    elif MODE == "punch" and call["roi"] != 2:  # its own result is lost; so it is made once more
        punch()
        return True
    elif MODE == "chatter":
        print("y" * 200000)
        print("x" * 1000000, file=sys.stderr, flush=True)
    elif MODE == "starts-children":
        start_child()
    return False


BAD = ("junk", "bytes", "number", "error", "other-call", "not-ok", "two-lines", "long", "close", "half", "exit", "exception",
       "kill", "hang", "wait")


def answer(say, call):
    items = mmap.mmap(MEMORY, call["memory"])
    if MODE in BAD and (call["roi"] in REGIONS or MODE == "wait") and not (MODE == "wait" and os.path.exists("go")):
        before_answer(say, call, items)
        return
    kept = items[:]
    corner(call, items) if MODE == "corner" else add(call, items)
    if beside_answer(call, items):
        items[:] = kept
        add(call, items)
    say(json.dumps({"call": call["call"], "ok": True}))
    if MODE == "ends-after":
        sys.exit(3)
    if MODE == "junk-after":
        time.sleep(0.05)
        say("and another thing")
    if MODE == "stays":
        sleep()


note()
if "child" in sys.argv:
    sleep()
if MODE in ("hang", "wait", "stays", "never-ready"):
    start_child()
if MODE == "never-ready":
    sleep()
channel = socket.socket(fileno=3)
lines = channel.makefile("rb")
hello = json.loads(lines.readline())


def speak(text):
    channel.sendall(text.encode() + b"\n")


speak(json.dumps({"ready": 1, "dtype": "uint8", "halo": [1, 2]} if MODE == "corner" else {"ready": 1}))
for line in lines:
    answer(speak, json.loads(line))
