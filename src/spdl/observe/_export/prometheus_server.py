"""A web server that Prometheus scrapes."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from socketserver import TCPServer, ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from spdl._check import check_int, check_str
from spdl.observe._export.observed import Observables, UntilClosed

from .prometheus import PrometheusPage

_MOST_PORTS = 65535
# No client keeps a thread longer than this: not one that sends or reads nothing, and not one that does so bit by bit.
_SECONDS_FOR_A_REQUEST = 10.0
# Seconds between two checks whether the server should end.
_LOOKS_EVERY = 0.1


class PrometheusServer(UntilClosed):
    """A web server, in its own daemon threads, whose page ``/metrics`` has the text of `prometheus_text`.

    It serves from its construction until `close`, or the end of a ``with`` block, and keeps the pipelines alive until
    then. Forked children do not serve. There is no password: everyone with the address sees the names of the stages and
    how fast they are, and nothing else. A request that takes longer than 10 seconds is cut off.

    Args:
        pipelines: A pipeline or a loader, which is called ``pipeline``, or a mapping from names to such. The mapping is
            read at each request: pipelines may be added and taken out.
        port: The port; with 0 the system chooses one, and `url` has it.
        host: The address to listen at. By default only this machine reaches it; ``""`` lets every machine.

    Raises:
        ModuleNotFoundError: If prometheus_client is not installed: ``pip install 'spdl-turbo[prometheus]'``.
        OSError: If the address is in use, or does not belong to this machine.
        TypeError, ValueError: If an argument is not as described.

    Example:
        >>> import urllib.request
        >>> from spdl.observe import PrometheusServer
        >>> from spdl.pipeline import PipelineBuilder
        >>> pipeline = PipelineBuilder().add_source(range(3)).add_sink().build(num_threads=1)
        >>> with PrometheusServer(pipeline) as server, pipeline.auto_stop():
        ...     items = list(pipeline)
        ...     page = urllib.request.urlopen(server.url).read().decode()
        >>> 'spdl_stage_items_total{pipeline="pipeline",stage="sink",stage_index="1"} 3.0' in page
        True
    """

    def __init__(self, pipelines: Observables, *, port: int = 0, host: str = "127.0.0.1") -> None:
        self._page = PrometheusPage(pipelines, "PrometheusServer")
        port = check_int("port", port, least=0, most=_MOST_PORTS)
        self._host = check_str("host", host)
        try:
            self._server = _Server(host, port)
        except OSError as error:
            # Python's own message does not tell the address.
            error.add_note(f"PrometheusServer could not listen at {host or '*'}:{port}; port=0 finds a free one.")
            raise
        self._server.set_app(self._page.app())
        self._process = os.getpid()
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_LOOKS_EVERY,), name="spdl_prometheus", daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """The port that it listens at."""
        return self._server.server_port

    @property
    def url(self) -> str:
        """The address of the page, for a program on this machine."""
        host = self._host or "127.0.0.1"
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/metrics"

    def text(self) -> str:
        """Return what the page shows now."""
        return self._page.text()

    def close(self) -> None:
        """Stop listening. A request that is being answered is answered. Further calls do nothing."""
        # A forked child has no thread that would answer.
        if os.getpid() == self._process:
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()


class _Server(ThreadingMixIn, WSGIServer):
    """Beside the server of prometheus_client, it cuts off clients, and prints nothing of those that went away."""

    daemon_threads = True

    def __init__(self, host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    def server_bind(self) -> None:
        # HTTPServer's own looks up the name of the host, which may take seconds and is used for nothing here.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Answer a request, or cut it off when its time is over."""
        timer = threading.Timer(_SECONDS_FOR_A_REQUEST, _cut_off, (request,))
        timer.daemon = True
        timer.start()
        try:
            super().finish_request(request, client_address)
        finally:
            timer.cancel()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that went away."""


def _cut_off(request: socket.socket) -> None:
    with contextlib.suppress(OSError):  # It may have ended just now.
        request.shutdown(socket.SHUT_RDWR)


class _Handler(WSGIRequestHandler):
    def log_message(self, *_: Any) -> None:
        """Write nothing to stderr for each request."""
