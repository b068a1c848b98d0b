"""A web server in threads that does what servers should not: which fault an answer has follows from a seed.

An object is a list of versions, one of which is current; it may change before any request. After a few faulty answers
in turn for an object comes a sound one, so whoever repeats requests gets on.
"""

from __future__ import annotations

import gzip
import hashlib
import random
import socket
import struct
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from tests.store.socket_server import listening

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Mapping, Sequence

__all__ = ["FAULTS", "Behaviour", "serving"]

_MOST_IN_TURN = 4
_NO_NUMBERS = ("5x", "-5", "9" * 30, "")

FAULTS = (
    "503", "429", "500", "latency", "reset", "close", "garbage", "redirect", "whole", "other range", "short range",
    "no total", "no range", "wrong words", "gzip", "multipart", "hints", "cut", "cut reset", "chunked", "cut chunks",
    "no length", "HTTP/1.0", "drip", "two lengths", "small letters", "204", "304",
    "no number",
)  # fmt: skip


class Behaviour(NamedTuple):
    """How a server behaves.

    Attributes:
        seed: Of everything that is left to chance.
        faults: Those that answers may have.
        share: Of answers with a fault.
        changes: Share of requests before which the object changes.
        tells: What tells a version: ``"etag"``, ``"weak"``, ``"modified"``.
        heads: Whether it answers HEAD.
    """

    seed: int
    faults: Sequence[str] = FAULTS
    share: float = 0.0
    changes: float = 0.0
    tells: str = "etag"
    heads: bool = True


class _Server:
    def __init__(self, objects: Mapping[str, Sequence[bytes]], behaviour: Behaviour) -> None:
        self.objects = objects
        self.behaviour = behaviour
        self.random = random.Random(behaviour.seed)  # noqa: S311 - a script, no secret.
        self.lock = threading.Lock()
        self.current = dict.fromkeys(objects, 0)
        self.in_turn = dict.fromkeys(objects, 0)

    def draw(self, path: str) -> tuple[random.Random, str, int]:
        """Return chance, a fault and the version for one answer."""
        with self.lock:
            chance = random.Random(self.random.random())  # noqa: S311 - the same.
            fault = ""
            if chance.random() < self.behaviour.share and self.in_turn[path] < _MOST_IN_TURN:
                fault = chance.choice(self.behaviour.faults)
            self.in_turn[path] = self.in_turn[path] + 1 if fault else 0
            if chance.random() < self.behaviour.changes:
                self.current[path] = (self.current[path] + 1) % len(self.objects[path])
            return chance, fault, self.current[path]

    def version(self, body: bytes, number: int) -> dict[str, str]:
        name = f'"{hashlib.sha256(body).hexdigest()[:8]}"'
        if self.behaviour.tells == "modified":
            return {"Last-Modified": f"Wed, 21 Oct 2015 07:{number:02}:00 GMT"}
        return {"ETag": f"W/{name}" if self.behaviour.tells == "weak" else name}

    def serve(self, connection: socket.socket) -> None:
        data = b""
        while True:
            while b"\r\n\r\n" not in data:
                more = connection.recv(65536)
                if not more:
                    return
                data += more
            head, _, data = data.partition(b"\r\n\r\n")
            method, target, _ = head.decode().partition("\r\n")[0].split(" ")
            wanted = head.decode().partition("Range: bytes=")[2].partition("\r\n")[0]
            if not self.answer(connection, method, target.lstrip("/"), wanted):
                return

    def answer(self, connection: socket.socket, method: str, path: str, wanted: str) -> bool:  # noqa: C901, PLR0911, PLR0912 - a branch for each fault.
        """Send an answer, and return whether the connection stays."""
        if path not in self.objects:
            return _send(connection, "404 Not Found", {"Content-Length": "4"}, b"" if method == "HEAD" else b"gone")
        chance, fault, number = self.draw(path)
        if method == "HEAD" and not self.behaviour.heads:
            return _send(connection, "405 Method Not Allowed", {"Content-Length": "0"})
        if fault == "latency":
            time.sleep(0.02 * chance.random())
        elif fault in ("503", "500"):
            return _send(connection, f"{fault} Oops", {"Content-Length": "0"})
        elif fault == "429":
            return _send(connection, "429 Slow", {"Content-Length": "0", "Retry-After": chance.choice("0-x")})
        elif fault == "reset":
            return _reset(connection)
        elif fault == "close":
            return False
        elif fault == "garbage":
            connection.sendall(chance.randbytes(50) + b"\r\n\r\n")
            return False
        elif fault == "redirect":
            return _send(connection, "307 There", {"Location": f"/{path}", "Content-Length": "0"})
        elif fault in ("204", "304"):
            return _send(connection, f"{fault} Nothing", {})
        elif fault == "hints":
            connection.sendall(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
        body = self.objects[path][number]
        headers = self.version(body, number)
        status, start, stop = "200 OK", 0, len(body)
        if wanted and fault != "whole":
            first, _, last = wanted.partition("-")
            start, stop = int(first), min(len(body), int(last) + 1)
            if start >= len(body):
                return _send(
                    connection, "416 No", {**headers, "Content-Length": "0", "Content-Range": f"bytes */{len(body)}"}
                )
            if fault == "other range":
                length, start = stop - start, chance.randrange(len(body))
                stop = min(len(body), start + length)
            elif fault == "short range":
                stop = chance.randint(start + 1, stop)
            status = "206 Part"
            headers["Content-Range"] = f"bytes {start}-{stop - 1}/{'*' if fault == 'no total' else len(body)}"
            if fault == "no range":
                del headers["Content-Range"]
            elif fault == "wrong words":
                headers["Content-Range"] = chance.choice(["bytes x-y/z", "bytes 5-2/1", f"bytes {start}-{stop - 1}"])
        content = body[start:stop]
        if fault == "gzip":
            content, headers["Content-Encoding"] = gzip.compress(content), "gzip"
        elif fault == "multipart" and wanted:
            content = b"--X\r\n\r\n" + content + b"\r\n--X--\r\n"
            headers = {"Content-Type": "multipart/byteranges; boundary=X"}
        if method == "HEAD":
            said = str(len(content)) if fault != "no number" else chance.choice(_NO_NUMBERS)
            return _send(connection, status, {**headers, "Content-Length": said})
        return _send_faulty(connection, status, headers, content, fault=fault, chance=chance)


def _send_faulty(  # noqa: PLR0911 - a branch for each fault.
    connection: socket.socket,
    status: str,
    headers: dict[str, str],
    content: bytes,
    *,
    fault: str,
    chance: random.Random,
) -> bool:
    cut = chance.randrange(len(content) + 1)
    if fault in ("chunked", "cut chunks"):
        _send(connection, status, {**headers, "Transfer-Encoding": "chunked"})
        sent = content if fault == "chunked" else content[:cut]
        for start in range(0, len(sent), 1 + len(sent) // 3):
            part = sent[start : start + 1 + len(sent) // 3]
            connection.sendall(b"%x;note=1\r\n%b\r\n" % (len(part), part))
        connection.sendall(b"0\r\nTrailer: x\r\n\r\n" if fault == "chunked" else b"ff\r\nabc")
        return fault == "chunked"
    lengths = {"no length": {}, "no number": {"Content-Length": chance.choice(_NO_NUMBERS)}}
    if fault in lengths:
        _send(connection, status, {**headers, **lengths[fault]}, content)
        return False
    headers["Content-Length"] = str(len(content))
    if fault in ("cut", "cut reset"):
        _send(connection, status, headers, content[:cut])
        return cut == len(content) or (fault == "cut reset" and _reset(connection))
    if fault == "HTTP/1.0":
        _send(connection, status, headers, content, protocol="HTTP/1.0")
        return False
    if fault == "two lengths":
        _send(connection, f"{status}\r\nContent-Length: {len(content) + 1}", headers, content)
        return False
    if fault == "small letters":
        return _send(connection, status, {name.lower(): value for name, value in headers.items()}, content)
    if fault == "drip":
        _send(connection, status, headers)
        for start in range(0, len(content), 1 + len(content) // 5):
            connection.sendall(content[start : start + 1 + len(content) // 5])
            time.sleep(0.002)
        return True
    return _send(connection, status, headers, content)


def _send(
    connection: socket.socket, status: str, headers: dict[str, str], body: bytes = b"", *, protocol: str = "HTTP/1.1"
) -> bool:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    connection.sendall(f"{protocol} {status}\r\n{lines}\r\n".encode() + body)
    return True


def _reset(connection: socket.socket) -> bool:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return False


def serving(objects: Mapping[str, Sequence[bytes]], behaviour: Behaviour) -> contextlib.AbstractContextManager[str]:
    """Run a server, whose URL this yields."""
    return listening(_Server(objects, behaviour).serve)
