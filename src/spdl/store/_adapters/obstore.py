"""Buckets of S3, Google Cloud Storage and Azure, by the package obstore."""

from __future__ import annotations

import importlib
import weakref
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from spdl._check import check_str
from spdl.store._obstore.obstore_transport import ObstoreTransport, translated
from spdl.store._protocol.checks import check_prefix
from spdl.store._protocol.entry import Entry
from spdl.store._protocol.errors import StoreError
from spdl.store._protocol.extras import require
from spdl.store._reading.remote_store import RemoteStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spdl.store._reading.attempts import Transport
    from spdl.store._reading.books import Books

__all__ = ["ObstoreStore"]

# Requests are repeated by `answer_all`, which knows when to stop.
_ONCE = {"max_retries": 0, "retry_timeout": timedelta(0)}


class ObstoreStore(RemoteStore):
    """A bucket of S3, Google Cloud Storage or Azure, or a folder of one, read by the package obstore.

    The package's own core, in Rust, speaks to the server; what arrives is not copied. Plans, limits, repetitions,
    second requests and counters are those of `HTTPStore`. ``pip install 'spdl-turbo[obstore]'`` installs it. Google
    Cloud Storage and Azure are untested.

    Its threads do not survive a fork. In a process forked from one that has used it, reading is a `StoreError`.

    Args:
        url: Such as ``"s3://bucket/folder"``, ``"gs://bucket"`` or ``"az://account/container"``.
        config: Settings that obstore's ``from_url`` takes, such as ``region``, ``endpoint``, ``skip_signature`` or
            ``credential_provider``. Without them obstore reads the environment (``AWS_ACCESS_KEY_ID`` and others).
        timeout: Seconds that a request may take, with all repetitions. By default two minutes.

    Raises:
        ModuleNotFoundError: If obstore is not installed.
        StoreError: If obstore refuses the URL or a setting.

    Example:
        >>> def open_training_data(bucket: str) -> ObstoreStore:
        ...     return ObstoreStore(f"s3://{bucket}/train", config={"region": "eu-west-1"})
    """

    def __init__(self, url: str, *, config: Mapping[str, Any] | None = None, timeout: float = 120.0) -> None:
        self._url = check_str("url", url)
        self._config = dict(config or {})
        self._obstore = require("obstore", f"reading {url}")
        stores = importlib.import_module("obstore.store")
        try:
            self._source = stores.from_url(url, **{"retry_config": _ONCE, **self._config})
        except Exception as error:
            raise StoreError(f"{url}: {' '.join(str(error).split())[:500]}") from error
        super().__init__(timeout)

    def __repr__(self) -> str:
        return f"ObstoreStore({self._url!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _make, (self._url, self._config, self._timeout)

    def _make_transport(self, books: Books) -> Transport:  # noqa: ARG002 - obstore tells nothing to count.
        self._transport = ObstoreTransport(repr(self), self._source)
        self._closing = weakref.finalize(self, self._transport.loop.stop)
        return self._transport

    def _renew(self) -> None:
        self._closing.detach()
        super()._renew()

    def list(self, prefix: str) -> Iterator[Entry]:
        """Return an iterator over the objects at or below a path, in the order of the server; S3 sorts them by path.

        Args:
            prefix: A folder or an object; ``""`` is the whole store.

        Raises:
            StoreError: If the server cannot be asked, or refuses; also in the middle.
        """
        return self._list(check_prefix(prefix))

    def _list(self, prefix: str) -> Iterator[Entry]:
        self._transport.check_process()
        if prefix:
            try:
                version = self._reader.look(prefix)
                yield Entry(prefix, version.size, version.etag)
            except FileNotFoundError:
                pass
        try:
            for chunk in self._obstore.list(self._source, prefix or None):
                for meta in chunk:
                    yield Entry(meta["path"], meta["size"], meta["e_tag"])
        except Exception as error:
            found = translated(error, prefix, repr(self))
            raise StoreError(f"{prefix or 'the list of all'} in {self!r}: {found}") from error

    def close(self) -> None:
        """End the thread that waits for answers.

        It need not be called: it happens when the store is not used anymore.
        """
        self._transport.loop.stop()


def _make(url: str, config: Mapping[str, Any], timeout: float) -> ObstoreStore:
    return ObstoreStore(url, config=config, timeout=timeout)
