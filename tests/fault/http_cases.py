#!/usr/bin/env python3
"""Reads over HTTP from a server on this machine: honest ones give what the file gives, each of the
hostile ones an error that says where, what came and what was wanted. usage: http_cases.py BUILD"""
import email.utils
import http.server
import json
import os
import pathlib
import re
import shutil
import socketserver
import subprocess
import sys
import tempfile
import threading

build = pathlib.Path(sys.argv[1])
tool = str(build / "tidegate")
source = pathlib.Path(__file__).resolve().parents[1] / "data/ims/pyimzml"
secret = "geheim"
failures = []


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):  # a client that leaves is no news
        pass


class Handler(http.server.BaseHTTPRequestHandler):
    """GET and HEAD with ranges. The first part of the path names how the server behaves."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def count(self):
        with self.server.lock:
            n = self.server.seen[self.path] = self.server.seen.get(self.path, 0) + 1
            self.server.requests += 1
            self.server.ranges.append(self.headers.get("Range"))
        return n

    def plain(self, status, *headers, body=b""):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_HEAD(self):
        self.answer()

    def do_GET(self):
        self.answer()

    def answer(self):
        mode, _, name = self.path.lstrip("/").partition("/")
        n = self.count()
        name = re.sub(r"%([0-9A-Fa-f]{2})", lambda m: chr(int(m.group(1), 16)), name)
        path = self.server.root / name
        ranged = self.headers.get("Range")
        ibd = name.endswith(".ibd")
        if mode == "redirect":
            return self.plain(302, ("Location", f"/plain/{name}"))
        if mode == "loop":
            return self.plain(302, ("Location", f"/loop/{name}"))
        if mode == "nowhere":
            return self.plain(302)
        if mode == "auth" and not self.headers.get("Authorization"):
            return self.plain(401, ("WWW-Authenticate", "Basic"))
        if mode in ("401", "403", "404", "500"):
            return self.plain(int(mode))
        if mode == "busy" and n % 2 == 1:
            return self.plain(503, ("Retry-After", "0"))
        if mode == "later":
            return self.plain(503, ("Retry-After", "100000"))
        if mode == "nohead" and self.command == "HEAD":
            return self.plain(405)
        if not path.is_file():
            return self.plain(404, body=b"not here")
        data = path.read_bytes()
        first, end, total = 0, len(data), len(data)
        if mode == "norange":
            ranged = None
        if mode == "big" and not name.endswith("imzML"):  # a body that never comes
            data, total = b"", 1 << 62
            end = total
        if ranged:
            a, b = ranged.split("=")[1].split("-")
            first, end = (max(0, total - int(b)), total) if not a else (int(a), min(int(b) + 1, total))
            if first >= total:
                return self.plain(416, ("Content-Range", f"bytes */{total}"))
        self.send_response(206 if ranged else 200)
        if mode == "changing" and ibd:
            self.send_header("ETag", f'"{n}"')
        elif mode == "dated":
            self.send_header("Last-Modified", email.utils.formatdate(n * 1000, usegmt=True))
        elif mode != "bare":
            self.send_header("ETag", '"one"')
        body = data[first:end]
        length = len(body)
        if mode == "growing" and ibd:
            total += n
        if ranged:
            shown = first
            if mode == "shifted" and ibd:
                shown += 1
            if mode == "nocontentrange":
                pass
            elif mode == "garbled":
                self.send_header("Content-Range", "bytes 5-2/99999999999999999999999")
            else:
                self.send_header("Content-Range", f"bytes {shown}-{end - 1}/{total}")
        if mode == "huge" and ibd and self.command == "GET":
            length = 1 << 62
        if mode == "big":
            length = end - first
        if mode == "gzip":
            self.send_header("Content-Encoding", "gzip")
        if mode == "chunked":
            self.send_header("Transfer-Encoding", "chunked")
        elif mode == "lengths":
            self.send_header("Content-Length", str(length))
            self.send_header("Content-Length", str(length + 1))
        else:
            self.send_header("Content-Length", str(length))
        self.end_headers()
        if self.command == "HEAD":
            return None
        if mode == "short" and ibd and len(body) > 20 or mode == "flaky" and n % 2 == 1 and len(body) > 20:
            body = body[: len(body) // 2]
            self.close_connection = True
        if mode == "stall" and len(body) > 20:
            self.wfile.write(body[:10])
            self.wfile.flush()
            self.server.stop.wait(120)  # until the test ends
            self.close_connection = True
            return None
        if mode == "reset":
            self.close_connection = True
            return None
        if mode == "chunked":
            for at in range(0, len(body), 4096):
                part = body[at : at + 4096]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.wfile.write(body)
        return None


def run(*args, tries=3, timeout=1):
    env = dict(os.environ, TIDEGATE_HTTP_TRIES=str(tries), TIDEGATE_HTTP_TIMEOUT=str(timeout), no_proxy="*")
    return subprocess.run([tool, *args], env=env, capture_output=True, text=True, timeout=110)


def check(ok, what, done=None):
    if not ok:
        failures.append(what)
        print(f"FAILED: {what}", *([] if done is None else [done.returncode, done.stdout[-600:], done.stderr[-600:]]), sep="\n  ")


def equal(what, local, remote):
    """The same but for the names of places."""
    a, b = run(*local), run(*remote)
    strip = lambda text: json.loads(re.sub(r'"(path|rss_bytes_peak)": ?("[^"]*"|\d+),?', "", text) or "0")
    check(a.returncode == b.returncode == 0, f"{what}: exit {a.returncode} and {b.returncode}", b)
    try:
        check(strip(a.stdout) == strip(b.stdout), f"{what}: differs", b)
    except ValueError:
        check(a.stdout == b.stdout, f"{what}: differs", b)


def refused(what, wants, *args, **how):
    done = run(*args, **how)
    text = done.stdout + done.stderr
    check(done.returncode in (1, 2), f"{what}: exit {done.returncode}", done)
    for want in ["127.0.0.1", *wants]:
        check(re.search(want, text), f"{what}: the message lacks {want!r}", done)
    check(secret not in text, f"{what}: prints the password", done)


# mode: what its message says, besides the URL
HOSTILE = {
    "norange": ["does not send parts", "answered 200, want 206", r"\d+ bytes at byte \d+"],
    "shifted": ["answered 206 with bytes 1-", "want bytes 0-"],
    "nocontentrange": ["without Content-Range"],
    "garbled": ["Content-Range: bytes 5-2"],
    "huge": ["4611686018427387904 bytes", "want bytes"],
    "short": ["at byte", r"got \d+ bytes", "tries"],
    "stall": ["at byte 30", "Operation too slow", "got 30 bytes of 23899", "3 tries"],
    "changing": ["changed while it was read", "ETag", "want"],
    "growing": ["changed while it was read", "bytes, and had"],
    "dated": ["changed while it was read", "Last-Modified", "want"],
    "loop": ["redirects"],
    "nowhere": ["302"],
    "404": ["answered 404"],
    "401": ["answered 401"],
    "403": ["answered 403"],
    "500": ["answered 500 after 3 tries"],
    "later": ["503", "100000 s"],
    "gzip": ["Content-Encoding gzip"],
    "reset": ["tries"],
}


def imzml_cases(url, folder, server):
    for name in ("Example_Continuous", "Example_Processed"):
        local = str(folder / f"{name}.imzML")
        for mode in ("plain", "redirect", "busy", "flaky", "nohead", "bare", "chunked"):
            remote = f"{url}/{mode}/{name}.imzML"
            equal(f"info of {mode} {name}", ["info", "--json", local], ["info", "--json", remote])
        done = run("verify", "--json", f"{url}/plain/{name}.imzML")
        check(done.returncode == 0 and json.loads(done.stdout)["bad"] == 0, f"verify {name}", done)
    with_user = url.replace("//", f"//somebody:{secret}@")
    done = run("verify", f"{with_user}/auth/Example_Continuous.imzML")
    check(done.returncode == 0 and secret not in done.stdout + done.stderr, "verify with a password", done)
    done = run("info", f"{url}/plain/with%20a%20blank.imzML")
    check(done.returncode == 0, "a name with a blank", done)
    for mode, wants in HOSTILE.items():
        refused(mode, wants, "verify", f"{with_user}/{mode}/long.imzML")
    done = run("info", f"{with_user}/auth/nothing.imzML", "--json")
    check(done.returncode != 0 and secret not in done.stdout + done.stderr, "a missing file", done)
    refused("nobody listens", ["onnect", "tries"], "info", "http://127.0.0.1:1/x.imzML")
    # a cut answer is not begun again from the front
    with server.lock:
        server.ranges.clear()
    run("verify", f"{url}/flaky/long.imzML")
    starts = [int(r.split("=")[1].split("-")[0]) for r in server.ranges if r]
    check(any(s not in (0, 16) for s in starts), f"goes on where the answer ended: {starts}")


def annotate_cases(url, folder):
    (folder / "db.csv").write_text("formula\nC6H12O6\nC37H71O8P\nC10H16N5O13P3\nC5H5N5\nC16H32O2\n")
    outputs = []
    for place in (str(folder / "Example_Processed.imzML"), f"{url}/plain/Example_Processed.imzML"):
        out = folder / f"out{len(outputs)}"
        done = run("annotate", place, str(out), "--db", str(folder / "db.csv"), "--polarity", "+", "--fdr", "1", "--json")
        check(done.returncode == 0, f"annotate {place}", done)
        found = out / "annotations.csv"
        outputs.append(found.read_bytes() if found.exists() else done.returncode)
    check(outputs[0] == outputs[1], "annotations differ")


def zarr_cases(url, folder):
    z = folder / "z.zarr"
    made = run("record", str(z), "--from", "test:64x48:uint16", "--frames", "6", "--chunk-frames", "2", "--codec", "zstd:1")
    check(made.returncode == 0, "record", made)
    for path in ("0",):
        local, remote = f"{z}/{path}", f"{url}/plain/z.zarr/{path}"
        equal(f"cat {path}", ["cat", local, "--region", "3:5,:,7"], ["cat", remote, "--region", "3:5,:,7"])
        equal(f"info {path}", ["info", "--json", local], ["info", "--json", remote])
        done = run("verify", remote, "--json")
        check(done.returncode == 0 and json.loads(done.stdout)["ok"] > 0, f"verify {path}", done)
        done = run("copy", remote, str(folder / "copied.zarr"), "--json")
        check(done.returncode == 0, f"copy {path}", done)
        equal("the copy", ["cat", local], ["cat", str(folder / "copied.zarr")])
    done = run("ls", f"{url}/plain/z.zarr")
    check(done.returncode != 0 and "cannot list" in done.stderr, "ls", done)
    refused("a write", ["read, not written"], "create", f"{url}/plain/new.zarr", "--shape", "2,2", "--dtype", "uint8")
    refused("a chunk that may not be read", ["answered 403"], "cat", f"{url}/403/z.zarr/0")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for path in source.glob("Example_*"):
            shutil.copy(path, folder / path.name)
        (folder / "with a blank.imzML").write_bytes((folder / "Example_Processed.imzML").read_bytes())
        (folder / "with a blank.ibd").write_bytes((folder / "Example_Processed.ibd").read_bytes())
        xml = (folder / "Example_Processed.imzML").read_bytes()
        (folder / "long.imzML").write_bytes(xml)
        # more bytes than are read whole from a server without ranges
        (folder / "long.ibd").write_bytes((folder / "Example_Processed.ibd").read_bytes() + bytes(2 << 20))
        server = Server(("127.0.0.1", 0), Handler)
        server.root, server.lock, server.seen, server.stop = folder, threading.Lock(), {}, threading.Event()
        server.requests, server.ranges = 0, []
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"http://127.0.0.1:{server.server_address[1]}"
        try:
            imzml_cases(url, folder, server)
            zarr_cases(url, folder)
            annotate_cases(url, folder)
        finally:
            server.stop.set()
            server.shutdown()
            server.server_close()
            thread.join()
        print(f"{server.requests} requests, {len(failures)} failures")
    sys.exit(bool(failures))


main()
