"""A web server that Prometheus scrapes."""

from __future__ import annotations

import os
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from typing import TYPE_CHECKING, Any, Self

from spdl._check import check_int, check_str

from .observed import check_observed, read
from .prometheus_text import CONTENT_TYPE, format_metrics

if TYPE_CHECKING:
    from types import TracebackType

    from .observed import Observables

__all__ = ["PrometheusServer"]

_PATH = "/metrics"
_MOST_PORTS = 65535
# A client that sends nothing keeps its thread no longer than this.
_SECONDS_FOR_A_REQUEST = 10.0
# How often the server looks whether it is to end, in seconds.
_LOOKS_EVERY = 0.1


class PrometheusServer:
    """A web server, in daemon threads of its own, whose page ``/metrics`` has what `prometheus_text` returns.

    It serves from its construction until `close`, or the end of a ``with`` block, and keeps the pipelines alive until
    then. Forked children do not serve. There is no password: who reaches the address sees the names of the stages and
    how fast they are, and nothing else.

    Args:
        pipelines: A pipeline or a loader, which is called ``pipeline``, or a mapping from names to such. The mapping is
            read at each request: pipelines may be added and taken out.
        port: Where to listen; 0 lets the system choose, and `url` tells.
        host: The address to listen at. By default only this machine reaches it; ``""`` lets every machine.

    Raises:
        OSError: If the address is in use, or is none of this machine.
        TypeError, ValueError: If an argument is not as described.

    Example:
        >>> import urllib.request
        >>> from spdl.observe import PrometheusServer
        >>> from spdl.pipeline import PipelineBuilder
        >>> pipeline = PipelineBuilder().add_source(range(3)).add_sink().build(num_threads=1)
        >>> with PrometheusServer(pipeline) as server, pipeline.auto_stop():
        ...     items = list(pipeline)
        ...     page = urllib.request.urlopen(server.url).read().decode()
        >>> 'spdl_stage_items_total{pipeline="pipeline",stage="sink",stage_index="1"} 3' in page
        True
    """

    def __init__(self, pipelines: Observables, *, port: int = 0, host: str = "127.0.0.1") -> None:
        self._observed = check_observed(pipelines)
        port = check_int("port", port, least=0, most=_MOST_PORTS)
        self._host = check_str("host", host)
        try:
            self._server = _Server((host, port), _handler(self))
        except OSError as error:
            # Python's own message does not tell the address.
            error.add_note(f"PrometheusServer could not listen at {host or '*'}:{port}; port=0 finds a free one.")
            raise
        self._process = os.getpid()
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_LOOKS_EVERY,), name="spdl_prometheus", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that it listens at."""
        port: int = self._server.server_address[1]
        return port

    @property
    def url(self) -> str:
        """The address of the page, for a program on this machine."""
        host = self._host or "127.0.0.1"
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}{_PATH}"

    def text(self) -> str:
        """Return what the page shows now."""
        return format_metrics(read(self._observed))

    def close(self) -> None:
        """Stop listening. A request that is being answered is answered. Further calls do nothing."""
        # In a forked child nobody serves, so nobody would answer.
        if os.getpid() == self._process:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        """Return the server itself, which serves already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        """Close it."""
        self.close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def server_bind(self) -> None:
        # HTTPServer's own looks up the name of the host, which may take seconds and is used for nothing here.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that went away."""


def _handler(server: PrometheusServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        timeout = _SECONDS_FOR_A_REQUEST

        def do_GET(self) -> None:
            self._answer(whole=True)

        def do_HEAD(self) -> None:
            self._answer(whole=False)

        def _answer(self, *, whole: bool) -> None:
            if self.path.partition("?")[0] != _PATH:
                self.send_error(HTTPStatus.NOT_FOUND, explain=f"The metrics are at {_PATH}.")
                return
            try:
                page = server.text().encode()
            except Exception as error:  # noqa: BLE001 - a pipeline's or mapping's own: whoever scrapes is told.
                self.send_error(HTTPStatus.INTERNAL_SERVER_ERROR, explain=f"{type(error).__name__}: {error}")
                return
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", CONTENT_TYPE)
            self.send_header("Content-Length", str(len(page)))
            self.end_headers()
            if whole:
                self.wfile.write(page)

        def log_message(self, *_: Any) -> None:
            """Write nothing to stderr for each request."""

    return Handler
