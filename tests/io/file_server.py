"""A web server for the files of a folder, which answers ranges, and notes what it was asked for."""

from __future__ import annotations

import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from tests.io.inside import forget_stores

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["FileServer", "forget_stores", "serving"]

_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


class FileServer(ThreadingHTTPServer):
    """The server. Requests for ``refused/...`` are answered by 403.

    Attributes:
        url: Of the folder.
        gets: The path of each answered GET, and the bytes of its answer.
    """

    daemon_threads = False

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.folder = folder
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.gets: list[tuple[str, int]] = []

    @property
    def sent(self) -> int:
        """The bytes of all answers to GET."""
        return sum(size for _, size in self.gets)


class _Handler(BaseHTTPRequestHandler):
    server: FileServer
    protocol_version = "HTTP/1.1"
    # Otherwise the content of an answer waits until the receiver has confirmed its headers.
    disable_nagle_algorithm = True
    wbufsize = -1

    def do_HEAD(self) -> None:
        self._answer(with_content=False)

    def do_GET(self) -> None:
        self._answer(with_content=True)

    def _answer(self, *, with_content: bool) -> None:
        path = unquote(urlsplit(self.path).path).lstrip("/")
        file = self.server.folder / path
        if path.startswith("refused/") or not file.is_file():
            self._send(403 if path.startswith("refused/") else 404, b"", {"Content-Length": "0"})
            return
        content = file.read_bytes()
        headers = {"ETag": f'"{file.stat().st_mtime_ns}"', "Accept-Ranges": "bytes"}
        found = _RANGE.fullmatch(self.headers.get("Range", ""))
        status = 200
        if found and content:
            first = int(found[1])
            part = content[first : int(found[2]) + 1 if found[2] else None]
            headers["Content-Range"] = f"bytes {first}-{first + len(part) - 1}/{len(content)}"
            status, content = 206, part
        headers["Content-Length"] = str(len(content))
        if with_content:
            self.server.gets.append((path, len(content)))
        self._send(status, content if with_content else b"", headers)

    def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving(folder: Path) -> Iterator[FileServer]:
    """Run a server of a folder in a thread. At the end, `spdl.io` forgets the stores that URLs have named."""
    with FileServer(folder) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            forget_stores()
            server.shutdown()
            thread.join()
