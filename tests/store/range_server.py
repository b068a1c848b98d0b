"""A web server in a process of its own, with faults: by a seeded script, or where a path asks for them.

An object has the path ``SIZE/NAME``, and its content follows from both and from its version (`content`). A path
``@WORD,WORD/SIZE/NAME`` asks for a behaviour: ``chunked``, ``close``, ``endless`` (no length; the end of the connection
is the end), ``norange``, ``noetag``, ``nosize``. ``@FAULT*N/SIZE/NAME`` asks for a fault of the first N requests for
that path: a status, or one of the names of `Faults`. ``/_statistics`` answers what was counted, as JSON.

The program takes the faults as JSON, and prints its port.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import hashlib
import itertools
import json
import random
import socket
import struct
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

_BLOCK = random.Random(26).randbytes((1 << 20) + 7)  # noqa: S311 - content, no secret.
_SLICE = 1 << 16


class Faults(NamedTuple):
    """How the server behaves. Shares are of all requests; which ones follows from the seed.

    Attributes:
        seed: Of the script.
        latency: Seconds until an answer begins.
        bandwidth: Bytes per second, of all answers together; 0 if there is no limit.
        slow: Answers that begin a second later.
        stall: Answers that pause for a second in the middle.
        busy: Answers 503. Every second one says ``Retry-After``.
        cut: Answers that end in the middle.
        reset: Requests that are answered by a reset.
        wrong: Answers with another range than that asked for.
        redirect: Answers that name another place.
        change: Requests before which the object changes.
        gzip: Answers that are compressed.
        token: What requests have to authorise themselves with, as ``Bearer TOKEN/NUMBER``; each one is good for so many
            requests as `uses` says.
        uses: See `token`.
    """

    seed: int = 0
    latency: float = 0.0
    bandwidth: float = 0.0
    slow: float = 0.0
    stall: float = 0.0
    busy: float = 0.0
    cut: float = 0.0
    reset: float = 0.0
    wrong: float = 0.0
    redirect: float = 0.0
    change: float = 0.0
    gzip: float = 0.0
    token: str = ""
    uses: int = 0


_SCRIPTED = ("slow", "stall", "busy", "cut", "reset", "wrong", "redirect", "change", "gzip")


def content(path: str, version: int = 0) -> bytes:
    """Return the content of an object."""
    size = int(path.rpartition("/")[0].rpartition("/")[2])
    offset = int.from_bytes(hashlib.blake2b(f"{path} {version}".encode(), digest_size=4).digest()) % len(_BLOCK)
    whole = _BLOCK[offset : offset + size]
    while len(whole) < size:
        whole += _BLOCK[: size - len(whole)]
    return whole


class _Server:
    def __init__(self, faults: Faults) -> None:
        self.faults = faults
        self.random = random.Random(faults.seed)  # noqa: S311 - a script, no secret.
        self.counts = {"requests": 0, "connections": 0, "bytes": 0, **dict.fromkeys(_SCRIPTED, 0)}
        self.asked: dict[str, int] = {}
        self.versions: dict[str, int] = {}
        self.tokens: dict[str, int] = {}
        self.line_free = 0.0

    def fault(self, path: str) -> str:
        """Return the fault of the next request for a path, or ''."""
        word, star, count = path.partition("/")[0].removeprefix("@").partition("*")
        if star:
            self.asked[path] = self.asked.get(path, 0) + 1
            return word if self.asked[path] <= int(count) else ""
        number, fault = self.random.random(), ""
        for name in _SCRIPTED:
            share = getattr(self.faults, name)
            if 0 <= number < share:
                fault = name
            number -= share
        return fault

    def authorised(self, headers: dict[str, str]) -> bool:
        if not self.faults.token:
            return True
        given = headers.get("authorization", "")
        if not given.startswith(f"Bearer {self.faults.token}/"):
            return False
        self.tokens[given] = self.tokens.get(given, 0) + 1
        return self.tokens[given] <= self.faults.uses


class _Connection(asyncio.Protocol):
    def __init__(self, server: _Server) -> None:
        self.server = server
        self.data = b""
        self.task: asyncio.Task[None] | None = None

    def connection_made(self, transport: Any) -> None:
        self.transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.server.counts["connections"] += 1

    def connection_lost(self, exc: Exception | None) -> None:
        if self.task is not None:
            self.task.cancel()

    def data_received(self, data: bytes) -> None:
        self.data += data
        while b"\r\n\r\n" in self.data:
            head, _, self.data = self.data.partition(b"\r\n\r\n")
            self.task = asyncio.ensure_future(self.answer(head.decode("latin-1")))

    async def answer(self, head: str) -> None:  # noqa: C901, PLR0912 - one branch for each fault.
        first, *lines = head.split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        path = target.partition("?")[0].lstrip("/").replace("moved/", "")
        if path == "_statistics":
            self.write("200 OK", json.dumps(self.server.counts).encode(), {})
            return
        server, counts = self.server, self.server.counts
        counts["requests"] += 1
        fault = server.fault(path)
        if fault in counts:
            counts[fault] += 1
        pause = server.faults.latency + (fault == "slow") + 1000 * (fault == "hang")
        if pause:
            await asyncio.sleep(pause)
        if not server.authorised(headers):
            self.write("401 Unauthorized", b"who are you?", {})
        elif fault.isdigit():
            self.write(f"{fault} Fault", b"a fault\n of the script", {})
        elif fault == "busy":
            extra = {"Retry-After": "0.05"} if counts["busy"] % 2 else {}
            self.write("503 Slow Down", b"", extra)
        elif fault == "later":
            self.write("503 Slow Down", b"", {"Retry-After": "1"})
        elif fault == "reset":
            self.transport.get_extra_info("socket").setsockopt(
                socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0)
            )
            self.transport.abort()
        elif fault == "garbage":
            self.transport.write(b"SSH-2.0-OpenSSH\r\n\r\n")
            self.transport.close()
        elif fault == "redirect":
            self.write("302 Found", b"there", {"Location": f"/moved{target}"})
        elif fault == "circle":
            self.write("302 Found", b"", {"Location": target})
        else:
            if fault == "change":
                server.versions[path] = server.versions.get(path, 0) + 1
            await self.send_object(method, path, headers, fault)

    async def send_object(self, method: str, path: str, headers: dict[str, str], fault: str) -> None:  # noqa: C901 - the same.
        words = path.partition("/")[0].removeprefix("@").split(",") if path.startswith("@") else []
        version = self.server.versions.get(path, 0)
        try:
            whole = content(path, version)
        except ValueError:
            self.write("404 Not Found", b"no such object", {})
            return
        extra = {"ETag": f'"{hashlib.blake2b(path.encode(), digest_size=4).hexdigest()}-{version}"'}
        if "noetag" in words:
            extra = {}
        status, body = "200 OK", whole
        if "range" in headers and "norange" not in words:
            start, last = (int(each) for each in headers["range"].removeprefix("bytes=").split("-"))
            if start >= len(whole):
                self.write("416 Range Not Satisfiable", b"", {"Content-Range": f"bytes */{len(whole)}"})
                return
            stop = min(last + 1, len(whole))
            if fault == "wrong":
                start, stop = (start + 1, stop) if stop - start > 1 else (0, 0)
            status, body = "206 Partial Content", whole[start:stop]
            extra["Content-Range"] = f"bytes {start}-{stop - 1}/{len(whole)}"
        if fault == "gzip":
            body = gzip.compress(body, 1)
            extra["Content-Encoding"] = "gzip"
        if method == "HEAD":
            self.head(status, {**extra, **({} if "nosize" in words else {"Content-Length": str(len(body))})})
            return
        if "close" in words:
            extra["Connection"] = "close"
        if "chunked" in words:
            cuts = sorted({0, len(body), *(self.server.random.randrange(len(body) + 1) for _ in range(5))})
            parts = [body[a:b] for a, b in itertools.pairwise(cuts)]
            body = b"".join(b"%x;note=1\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\nTrailer: x\r\n\r\n"
            extra["Transfer-Encoding"] = "chunked"
        elif "endless" not in words:
            extra["Content-Length"] = str(len(body))
        self.head(status, extra)
        await self.send(body[: len(body) // 2] if fault == "cut" else body, stall=fault == "stall")
        if fault == "cut" or "close" in words or "endless" in words:
            self.transport.close()

    async def send(self, body: bytes, *, stall: bool) -> None:
        """Send a body in slices, each when the line is free."""
        loop, server, view = asyncio.get_running_loop(), self.server, memoryview(body)
        server.counts["bytes"] += len(body)
        for start in range(0, len(body), _SLICE):
            part = view[start : start + _SLICE]
            if server.faults.bandwidth:
                server.line_free = max(loop.time(), server.line_free) + len(part) / server.faults.bandwidth
                # A timer is not exact to more than about a millisecond.
                if (pause := server.line_free - loop.time()) > 0.0005:
                    await asyncio.sleep(pause)
            if stall and start + _SLICE >= len(body):
                await asyncio.sleep(1)
            self.transport.write(part)

    def write(self, status: str, body: bytes, extra: dict[str, str]) -> None:
        self.head(status, {**extra, "Content-Length": str(len(body))})
        self.transport.write(body)

    def head(self, status: str, headers: dict[str, str]) -> None:
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.transport.write(f"HTTP/1.1 {status}\r\nServer: faults\r\n{lines}\r\n".encode())


async def _serve(faults: Faults) -> None:
    server = _Server(faults)
    listening = await asyncio.get_running_loop().create_server(lambda: _Connection(server), "127.0.0.1", 0)
    print(listening.sockets[0].getsockname()[1], flush=True)  # noqa: T201
    # Ends with the process that holds the other end of the pipe.
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


@contextlib.contextmanager
def running(faults: Faults | None = None) -> Iterator[str]:
    """Run the server in a process, whose URL this yields."""
    faults = faults or Faults()
    command = [sys.executable, str(Path(__file__)), json.dumps(faults._asdict())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


if __name__ == "__main__":
    asyncio.run(_serve(Faults(**json.loads(sys.argv[1]))))
