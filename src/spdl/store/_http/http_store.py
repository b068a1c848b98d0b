"""Web servers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from spdl._check import check_str, refuse, shown
from spdl._not_here import require
from spdl.store._http.address import NO_FOLDERS, Credentials, Headers, parse_address
from spdl.store._identity import SecretAddress, without_secrets, without_signature
from spdl.store._remote import RemoteStore
from spdl.store._requests import Transport
from spdl.store._server_limits import RequestCounters
from spdl.store._store import Entry, StoreError, check_prefix


class HTTPStore(RemoteStore):
    """The files of a web server, below an address.

    Connections are kept and used again. Requests that fail are repeated, with pauses; those that take longer than
    nearly all others are sent a second time. Answers are checked: their length, range and version. The server
    should answer to ``Range``, as nearly all do. How many requests are under way at once follows the server, up to as
    many as there are threads that read.

    In a process that is forked from this one, the store begins again, with new connections and counters.

    Args:
        base_url: The address that paths are relative to. Its query, such as a signature, is sent with every path. If it
            ends with a quoted slash, ``%2F``, paths follow that one without another.
        headers: Headers that say who asks, or a function that returns them. The function is called at first, and
            again when the server answers 401 or 403. If the server names another one, that is not sent them.
        timeout: Seconds that a request may take from when it is asked for, with all repetitions; by default two
            minutes. Objects of more than 8 MiB take several requests.

    Raises:
        ModuleNotFoundError: If urllib3 2.2.1 or newer is not installed; ``pip install 'spdl-turbo[http]'`` installs it.
        ValueError: If the address is invalid.

    Example:
        >>> import functools, http.server, os, tempfile, threading
        >>> folder = tempfile.TemporaryDirectory()
        >>> with open(os.path.join(folder.name, "a.bin"), "wb") as file:
        ...     _ = file.write(b"0123456789")
        >>> class Handler(http.server.SimpleHTTPRequestHandler):
        ...     def log_message(self, *arguments): pass
        >>> handler = functools.partial(Handler, directory=folder.name)
        >>> with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        ...     thread = threading.Thread(target=server.serve_forever)
        ...     thread.start()
        ...     store = HTTPStore(f"http://127.0.0.1:{server.server_port}")
        ...     print(store.size("a.bin"), bytes(store.get("a.bin")), store.statistics().requests)
        ...     server.shutdown()
        ...     thread.join()
        10 b'0123456789' 2
        >>> store.close()
        >>> folder.cleanup()
    """

    def __init__(self, base_url: str, *, headers: Headers = None, timeout: float = 120.0) -> None:
        if "@" in re.split("[/?#]", check_str("base_url", base_url).partition("://")[2])[0]:
            refuse(
                ValueError, "base_url", "a URL without a user name or password", shown(base_url),
                "Give them by `headers`, such as {'Authorization': 'Basic ...'}.",
            )  # fmt: skip
        try:
            self._address = parse_address(base_url)
        except ValueError:
            refuse(ValueError, "base_url", "the URL of a folder, such as 'https://example.com/data'", base_url)
        if "#" in base_url:
            refuse(ValueError, "base_url", "a URL without a fragment", base_url, "Write the '#' of a name as %23.")
        self._headers = headers
        place = SecretAddress(base_url, headers)
        require("urllib3", f"reading {place}", extra="http", least="2.2.1")
        super().__init__(place, timeout)

    def __repr__(self) -> str:
        return f"HTTPStore({self._place!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), self._place.url, headers=self._headers, timeout=self._timeout), ()

    def identity(self) -> str:
        """Return what tells this store from others; see `LocalStore.identity`.

        It has the whole address, but for a signature in its query, and the headers, but for those whose names say that
        they are secret, and for a function's.
        """
        path, _, query = self._address.target.partition("?")
        headers = None if callable(self._headers) else without_secrets(dict(self._headers or {}))
        return repr((self._address.origin, path.rstrip("/"), without_signature(query), headers))

    def _make_transport(self, counters: RequestCounters) -> Transport:
        from spdl.store._http.transport import HTTPTransport  # noqa: PLC0415 - it imports an extra.

        credentials = Credentials(self._headers, self._place.learn)
        return HTTPTransport(repr(self), self._address, credentials, counters.count, self._place.learn)

    def list(self, prefix: str) -> Iterator[Entry]:
        """Return an iterator over the file of this very path, if there is one. Web servers list no folders.

        Args:
            prefix: A file. Its ``etag`` is the server's, or else the time of its last change.

        Raises:
            StoreError: If it is the whole store, or cannot be looked at. Keep a list of the files beside them.
        """
        path = check_prefix(prefix)
        if path != prefix or not path:
            raise StoreError(f"{self!r}: {NO_FOLDERS}")
        return self._list(path)

    def _list(self, path: str) -> Iterator[Entry]:
        with suppress(FileNotFoundError):
            yield self._look(path)
