"""Inputs that lie in stores: a URL takes the place of a path."""

from __future__ import annotations

import os
import re
import threading
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeGuard

from spdl._shown import shown

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.store import ObjectFile, Store

__all__ = ["check_is_object", "fetch", "fetch_all", "is_url", "open_url", "url_of"]

_URL = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")
_MOST_STORES = 32
_MOST_AT_ONCE = 32

_lock = threading.Lock()
_stores: OrderedDict[str, Store] = OrderedDict()
"""The stores that URLs have named, those used last at the end. They have connections, and have learnt of the server."""


def is_url(value: object) -> TypeGuard[str]:
    """Return whether this is a URL such as ``https://host/name``, rather than a path."""
    return isinstance(value, str) and "://" in value and _URL.match(value) is not None


def url_of(value: object) -> str | None:
    """Return the URL of an input as messages show it, without what may be a secret; None if it is something else."""
    if not is_url(value):
        return None
    return shown(str(value))


def fetch(url: str) -> Any:
    """Return what a URL names: the content of an object, read-only, or the path of a file of this machine.

    Raises:
        FileNotFoundError: If there is no such object.
        ModuleNotFoundError: If a package is missing that reads such URLs; the message has the command to install it.
        OSError: If it cannot be read.
        ValueError: If the URL is none.
    """
    store, path = _find(url)
    return path if store is None else memoryview(store.get(path))


def fetch_all(inputs: Sequence[Any]) -> tuple[tuple[Any, ...], dict[int, str]]:
    """Return inputs with what URLs name in their place, read at the same time, and why some could not be read.

    Those that could not be read are empty, by their index.
    """
    urls = [index for index, each in enumerate(inputs) if is_url(each)]
    if not urls:
        return tuple(inputs), {}
    content = list(inputs)
    failed: dict[int, str] = {}

    def read(index: int) -> None:
        try:
            content[index] = fetch(inputs[index])
        except (OSError, ValueError) as error:
            content[index] = b""
            failed[index] = str(error)

    if len(urls) == 1:
        read(urls[0])
    else:
        with ThreadPoolExecutor(min(len(urls), _MOST_AT_ONCE), "spdl-fetch") as executor:
            try:
                for _ in executor.map(read, urls):
                    pass
            except BaseException:
                executor.shutdown(wait=False, cancel_futures=True)
                raise
    return tuple(content), failed


def check_is_object(url: str) -> None:
    """Refuse the URL of a folder of a store: without its slash it would be the URL of another object.

    Raises:
        ValueError: If it is one.
    """
    if url.partition("?")[0].endswith("/") and url[:5].lower() != "file:":
        raise ValueError(f"{shown(url)} is the URL of a folder: name an object, whose URL does not end with '/'")


def open_url(url: str) -> ObjectFile | str:
    """Return the object that a URL names as a file, of which only what is read is requested; or a path, as `fetch`."""
    from spdl.store import ObjectFile  # noqa: PLC0415 - only for those who have a URL.

    store, path = _find(url)
    return path if store is None else ObjectFile(store, path)


def _find(url: str) -> tuple[Store | None, str]:
    from spdl.store import open_store, split_url  # noqa: PLC0415 - only for those who have a URL.

    root, path = split_url(url)
    if root.startswith("file:"):
        return None, f"/{path}"
    check_is_object(url)
    with _lock:
        store = _stores.get(root)
        if store is not None:
            _stores.move_to_end(root)
            return store, path
    store = open_store(root)
    with _lock:
        kept = _stores.setdefault(root, store)
        forgotten = _stores.popitem(last=False) if len(_stores) > _MOST_STORES else None
    del forgotten  # Without the lock: it may close connections.
    return kept, path


def _begin_anew() -> None:
    # A thread may have held the lock when the process was forked. Stores begin anew by themselves.
    global _lock  # noqa: PLW0603 - the module's own.
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_begin_anew)
