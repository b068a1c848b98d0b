"""Buckets of S3, Google Cloud Storage and Azure, by the package obstore."""

from __future__ import annotations

import importlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any

from spdl._check import check_str
from spdl._extras import require
from spdl._shown import without_user
from spdl.store._obstore.obstore_transport import ObstoreTransport, note_use, translated
from spdl.store._protocol.address import SecretAddress, named_servers, secrets_of
from spdl.store._protocol.store import Entry, StoreError
from spdl.store._reading.remote_store import RemoteStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spdl.store._reading.attempts import Transport
    from spdl.store._reading.books import Books

__all__ = ["ObstoreStore"]

# Requests are repeated by `answer_all`, which knows when to stop.
_ONCE = {"max_retries": 0, "retry_timeout": timedelta(0)}
_AT_ONCE = 16


class ObstoreStore(RemoteStore):
    """A bucket of S3, Google Cloud Storage or Azure, or a folder of one, read by the package obstore.

    The package's own core, in Rust, speaks to the server; what arrives is not copied. Plans, limits, repetitions,
    second requests and counters are those of `HTTPStore`. ``pip install 'spdl-turbo[obstore]'`` installs it. S3
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
        """Return a text that differs between stores which may have different objects under the same path.

        Caches know by it what they have kept. It has the URL and the settings that name a server or an account, also
        those of the environment.
        """
        return repr((without_user(self._place.url).rstrip("/"), named_servers(self._source.config)))

    def _make_transport(self, books: Books) -> Transport:  # noqa: ARG002 - obstore tells nothing to count.
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
        """Return which paths of objects without content are none: consoles mark folders so.

        The key of such an object ends with a slash, and obstore lists it without. So whoever asks for it finds none, or
        another object.
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
