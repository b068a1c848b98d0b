"""Buckets of S3, Google Cloud Storage and Azure, by the package obstore."""

from __future__ import annotations

import importlib
import os
import re
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

from spdl._check import check_str, without_user
from spdl._not_here import require
from spdl.store._identity import SecretAddress, named_servers, secrets_of
from spdl.store._remote import RemoteStore
from spdl.store._requests import Answer, Crew, FailedAttemptError, Request, SentRequest, Transport
from spdl.store._server_limits import RequestCounters
from spdl.store._store import Entry, StoreError, not_found

_SILENCE_SECONDS = 20.0
_BUSY = re.compile(r"\b(429|503)\b|SlowDown|Too Many Requests|ServiceUnavailable")
_REFUSED = re.compile(r"\bstatus(?: code)?:? 4\d\d\b")
# obstore's message for a request that it does not send.
_UNBUILT = "builder error"
# Where obstore asks for credentials if neither the settings nor the environment have any.
_INSTANCE = "/latest/api/token"
_NO_CREDENTIALS = (
    "No credentials were found, so the machine's own were asked for: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, "
    "or AWS_SKIP_SIGNATURE=true for a public bucket"
)
_PLAIN = "{'client_options': {'allow_http': True}}"
_FINAL = (
    "PermissionDeniedError",
    "UnauthenticatedError",
    "InvalidPathError",
    "NotSupportedError",
    "UnknownConfigurationKeyError",
)


_process = {"used": False, "unusable": False}
"""Whether obstore has threads, and whether this process was forked from one where it had: here they do not exist."""

os.register_at_fork(after_in_child=lambda: _process.update(unusable=_process["used"]))


def note_use() -> None:
    """Note that obstore is going to be used in this process; StoreError if it would wait forever."""
    if _process["unusable"]:
        raise StoreError(
            "obstore was used before this process was forked, and its threads do not exist here. Start processes by "
            "'spawn' or 'forkserver', or read in the new process only"
        )
    _process["used"] = True


class ObstoreAttempt(SentRequest):
    """A request that obstore carries, in another thread: its calls cannot be ended, but need not be waited for."""

    def __init__(self, transport: ObstoreTransport, request: Request, crew: Crew) -> None:
        self._transport = transport
        self._request = request
        self._crew = crew
        self._answer: Future[Answer] = Future()

    def abort(self) -> None:
        self._answer.cancel()

    def run(self) -> Answer:
        self._crew.fulfil(self._answer, self._ask)
        while not self._answer.done():
            silent = self.first_byte_at is None
            wait([self._answer], _SILENCE_SECONDS)
            if silent and self.first_byte_at is None and not self._answer.done():
                raise FailedAttemptError("late", f"nothing was heard for {_SILENCE_SECONDS:g} s")
        try:
            return self._answer.result()
        except Exception as error:
            raise translated(error, self._request.path, self._transport.store) from error

    def _ask(self) -> Answer:
        import obstore  # noqa: PLC0415 - an extra.

        path, start, length, _ = self._request
        store = self._transport.source
        if length is None:
            return _of_meta(obstore.head(store, path))
        try:
            result = obstore.get(store, path, options={"range": (start, start + length)})
            self.first_byte_at = time.monotonic()
            meta = result.meta
            content = memoryview(result.bytes())
        except FileNotFoundError:
            raise
        except Exception as error:
            if type(error).__name__ != "GenericError":
                raise
            # A range beyond the end, or of an empty object, is an error like any other.
            if (answer := _of_meta(obstore.head(store, path))).size > start:
                raise
            return answer
        expected = min(length, meta["size"] - start)
        if len(content) != expected:
            raise FailedAttemptError("cut", f"{len(content)} bytes came instead of {expected}")
        return Answer(content, meta["size"], meta["e_tag"])


def _of_meta(meta: Any) -> Answer:
    return Answer(memoryview(b""), meta["size"], meta["e_tag"])


class ObstoreTransport(Transport):
    """Has obstore ask, which keeps connections as it likes, and is of no use in a forked process."""

    def __init__(self, store: str, source: Any) -> None:
        self.store = store
        # obstore's own object.
        self.source = source

    def prepare(self, until: float, crew: Crew) -> None:  # noqa: ARG002
        note_use()

    def attempt(self, request: Request, until: float, crew: Crew) -> ObstoreAttempt:  # noqa: ARG002 - `run` is aborted.
        return ObstoreAttempt(self, request, crew)


def translated(error: Exception, path: str, store: str) -> Exception:
    if isinstance(error, FileNotFoundError):
        return not_found(path, store)
    if isinstance(error, StoreError):
        return error
    text = " ".join(str(error).partition("Debug source")[0].split())[:500]
    if _INSTANCE in text:
        text = f"{text}. {_NO_CREDENTIALS}"
    if type(error).__name__ in _FINAL or isinstance(error, PermissionError):
        return StoreError(text)
    if _UNBUILT in text:
        return StoreError(f"{text}. If the endpoint is http://, config={_PLAIN} allows it, or AWS_ALLOW_HTTP=true does")
    if _BUSY.search(text):
        return FailedAttemptError("throttled", text)
    return StoreError(text) if _REFUSED.search(text) else FailedAttemptError("broken", text)


# Requests are repeated by `answer_all`, which knows when to stop.
_ONCE = {"max_retries": 0, "retry_timeout": timedelta(0)}
_AT_ONCE = 16


class ObstoreStore(RemoteStore):
    """A bucket of S3, Google Cloud Storage or Azure, or a folder of one, read by the package obstore.

    The package's own core, in Rust, speaks to the server; what arrives is not copied. Plans, limits, repetitions,
    second requests and counters are the same as in `HTTPStore`. ``pip install 'spdl-turbo[obstore]'`` installs it. S3
    is tested with moto and Azure with Azurite; Google Cloud Storage is untested. Listings have the order of the server;
    S3 sorts them by path.

    Its threads do not survive a fork. In a process forked from one that has used it, reading is a `StoreError`.

    Args:
        url: Such as ``"s3://bucket/folder"``, ``"gs://bucket"`` or ``"az://container"``, whose account is a setting.
        config: Settings that obstore's ``from_url`` takes, such as ``region``, ``endpoint``, ``account_name``,
            ``skip_signature`` or ``credential_provider``. Without them obstore reads the environment
            (``AWS_ACCESS_KEY_ID`` and others).
        timeout: Seconds that a request may take from when it is asked for, with all repetitions; by default two
            minutes. Objects of more than 8 MiB take several requests.

    Raises:
        ModuleNotFoundError: If obstore is not installed.
        StoreError: If obstore refuses the URL or a setting.

    Example:
        >>> def open_training_data(bucket: str) -> ObstoreStore:
        ...     return ObstoreStore(f"s3://{bucket}/train", config={"region": "eu-west-1"})
    """

    def __init__(self, url: str, *, config: Mapping[str, Any] | None = None, timeout: float = 120.0) -> None:
        place = SecretAddress(check_str("url", url), secrets_of(config))
        self._config = dict(config or {})
        self._obstore = require("obstore", f"reading {place}")
        stores = importlib.import_module("obstore.store")
        with place.hiding():
            try:
                self._source = stores.from_url(url, **{"retry_config": _ONCE, **self._config})
            except Exception as error:
                raise StoreError(f"{place}: {' '.join(str(error).split())[:500]}") from error
        super().__init__(place, timeout)

    def __repr__(self) -> str:
        return f"ObstoreStore({self._place!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), self._place.url, config=self._config, timeout=self._timeout), ()

    def identity(self) -> str:
        """Return what tells this store from others; see `LocalStore.identity`.

        It has the URL and the settings that name a server or an account, including the environment's.
        """
        return repr((without_user(self._place.url).rstrip("/"), named_servers(self._source.config)))

    def _make_transport(self, counters: RequestCounters) -> Transport:  # noqa: ARG002 - obstore tells nothing to count.
        return ObstoreTransport(repr(self), self._source)

    def _list(self, prefix: str) -> Iterator[Entry]:
        note_use()
        if prefix:
            with suppress(FileNotFoundError):
                yield self._look(prefix)
        with self._place.hiding():
            yield from self._list_chunks(prefix)

    def _list_chunks(self, prefix: str) -> Iterator[Entry]:
        try:
            for chunk in self._obstore.list(self._source, prefix or None):
                entries = [Entry(meta["path"], meta["size"], meta["e_tag"]) for meta in chunk]
                markers = self._find_markers([entry.path for entry in entries if not entry.size], prefix)
                yield from (entry for entry in entries if entry.size or entry.path not in markers)
        except StoreError:
            raise
        except Exception as error:
            found = translated(error, prefix, repr(self))
            raise StoreError(f"{prefix or 'the list of all'} in {self!r}: {found}") from error

    def _find_markers(self, paths: list[str], prefix: str) -> set[str]:
        """Return which paths of empty objects only mark a folder, as consoles do.

        Their keys end with a slash, and obstore lists them without. So a request finds nothing, or another object.
        """
        markers = {"", prefix}  # The folder itself; an object of that path was listed already.
        asked = [path for path in paths if path not in markers]
        if asked:
            with ThreadPoolExecutor(min(len(asked), _AT_ONCE), "spdl-list") as executor:
                markers.update(
                    path for path, marks in zip(asked, executor.map(self._is_marker, asked), strict=True) if marks
                )
        return markers

    def _is_marker(self, path: str) -> bool:
        try:
            return self._look(path).size > 0
        except FileNotFoundError:
            return True
