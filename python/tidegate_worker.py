"""Functions over regions for `tidegate apply --worker`, in Python.

A file with a function is enough:

    tidegate apply in.zarr/0 out.zarr --rois grid:512 --worker 'python3 tidegate_worker.py smooth.py:smooth'

The function is called as smooth(block, call) and returns an array of call.output's shape, or fills call.output and
returns None. `block` is the region with its halo, as a numpy array that cannot be written to; block[call.inner] is the
region itself. Or a program calls serve() when it has made ready what its function needs (a model, a GPU):

    import tidegate_worker
    model = load()
    tidegate_worker.serve(lambda block, call: model(block)[call.inner], dtype="float32", halo=(16, 16))

An exception fails its region, with its text as the reason; the worker goes on. Each worker is a process of its own, so
that the interpreter's lock is not shared. Standard output goes nowhere, the last line of standard error is named when
the worker dies. What the function is given lives in memory that is used again for the next call: copy what is kept.

docs/functions.md has the protocol. Needs numpy and nothing else.
"""
import importlib
import importlib.util
import json
import mmap
import os
import socket
import sys

import numpy as np

PROTOCOL = 1
SOCKET, MEMORY = 3, 4  # the descriptors that tidegate passes

__all__ = ["Call", "serve", "main"]


class Call:
    """What one call is about. Lists have a number for each axis, slowest first."""

    def __init__(self, message, array, output, axes):
        self.roi = message["roi"]  # position in the list, from 0
        self.rois = message["rois"]  # how many there are
        self.name = message["name"]
        self.label = message["label"]  # 0: none
        self.axes = axes
        self.in_start = tuple(message["in_start"])  # of the block, in IN
        self.out_start = tuple(message["out_start"])  # of the output, in OUT
        self.before = tuple(message["before"])  # how much of the halo is before the region
        self.region = tuple(message["region"])  # its extent
        self.scale = tuple(message["scale"])  # of one item, in the axis' unit
        self.inner = tuple(slice(b, b + n) for b, n in zip(self.before, self.region))
        self.block = array
        self.output = output  # to be filled, or returned


def _dtype(name):
    return np.dtype(f"V{int(name[1:]) // 8}") if name[0] == "r" else np.dtype(name)


def _name(dtype):
    dtype = np.dtype(dtype)
    return f"r{dtype.itemsize * 8}" if dtype.kind == "V" else dtype.name


class _Memory:
    """The memory that tidegate and we have mapped; it only grows."""

    def __init__(self):
        self.map = None

    def view(self, wanted, size):
        if self.map is None or len(self.map) < size:
            self.map = mmap.mmap(MEMORY, size)  # the old one goes with the last array on it
        return np.ndarray(wanted["shape"], _dtype(wanted["dtype"]), self.map, wanted["offset"], wanted["strides"])


def _call(function, message, memory, axes):
    block = memory.view(message["in"], message["memory"])
    output = memory.view(message["out"], message["memory"])
    block.flags.writeable = False
    result = function(block, Call(message, block, output, axes))
    if result is None or result is output:
        return
    result = np.asarray(result)
    if result.shape != output.shape:
        raise ValueError(f"the function makes an array of shape {result.shape}, want {output.shape}")
    if not np.can_cast(result.dtype, output.dtype, "safe"):
        raise TypeError(f"the function makes {result.dtype}, want {output.dtype} (--dtype says which)")
    output[...] = result


def serve(function, dtype=None, halo=None):
    """Answer calls until tidegate closes the socket. dtype: what the function makes (else IN's, or what --dtype says);
    halo: the least that it must see around its region, a number for each of the last axes."""
    try:
        channel = socket.socket(fileno=SOCKET)
    except OSError:
        sys.exit("tidegate_worker: to be run by `tidegate apply --worker`, which passes descriptors 3 and 4")
    for fd in (SOCKET, MEMORY):
        os.set_inheritable(fd, False)  # what the function starts must not keep them open
    lines = channel.makefile("rb")
    hello = json.loads(lines.readline() or b"{}")

    def say(**message):
        channel.sendall(json.dumps(message).encode() + b"\n")

    if hello.get("tidegate_worker") != PROTOCOL:
        say(error=f"version {hello.get('tidegate_worker')} of the protocol, this tidegate_worker.py speaks {PROTOCOL}")
        return
    ready = {"ready": PROTOCOL}
    if dtype is not None:
        ready["dtype"] = _name(dtype)
    if halo is not None:
        ready["halo"] = [int(n) for n in np.atleast_1d(halo)]
    say(**ready)
    memory = _Memory()
    for line in lines:
        message = json.loads(line)
        try:
            _call(function, message, memory, hello["axes"])
        except Exception as e:  # noqa: BLE001 - the region's failure, whatever it is
            say(call=message["call"], error=f"{type(e).__name__}: {e}"[:1000])
        else:
            say(call=message["call"], ok=True)


def _load(text):
    """FILE.py:FUNCTION or MODULE:FUNCTION."""
    where, colon, name = text.rpartition(":")
    if not colon or not where or not name:
        sys.exit(f"tidegate_worker: '{text}': want FILE.py:FUNCTION or MODULE:FUNCTION")
    if where.endswith(".py"):
        sys.path.insert(0, os.path.dirname(os.path.abspath(where)))
        spec = importlib.util.spec_from_file_location(os.path.basename(where)[:-3], where)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    else:
        sys.path.insert(0, os.getcwd())
        module = importlib.import_module(where)
    return getattr(module, name)


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: tidegate_worker.py FILE.py:FUNCTION, run by `tidegate apply --worker`")
    function = _load(sys.argv[1])
    serve(function, getattr(function, "dtype", None), getattr(function, "halo", None))


if __name__ == "__main__":
    main()
