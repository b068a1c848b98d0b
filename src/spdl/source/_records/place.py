"""Where files lie: on this machine or in a store."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from spdl._check import check_instance, refuse
from spdl.io._common.stored import describe
from spdl.source._records.braces import expand_braces

if TYPE_CHECKING:
    from spdl.store import Entry, Store

__all__ = ["Place", "Stores", "find_places", "place_of"]

Stores: TypeAlias = "dict[str, Store]"
"""Stores by their URLs."""

_ACCEPTED = "a path or URL, a pattern such as 'train-{0000..0099}.tar', or a list of these"


class Place(NamedTuple):
    """A file on this machine, or an object of a store."""

    store: Store | None
    """None for a file."""
    path: str

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    def read(self) -> bytes:
        """Return the content.

        Raises:
            OSError: If it cannot be read.
        """
        if self.store is not None:
            return bytes(self.store.get(self.path))
        with open(self.path, "rb") as file:  # noqa: PTH123 - half the time of Path.open.
            return file.read()

    def describe(self) -> Entry:
        """Return the size, and an etag if there is one: a text that changes with the content.

        Raises:
            FileNotFoundError: If there is nothing.
        """
        from spdl.store import LocalStore  # noqa: PLC0415 - only for those who need it.

        if self.store is not None:
            return describe(self.store, self.path)
        folder, name = os.path.split(os.path.abspath(self.path))  # noqa: PTH100
        return describe(LocalStore(folder), name)

    def beside(self, name: str, stores: Stores) -> Place:
        """Return the place of another file, by its URL or its path from the same folder on."""
        if "://" in name:
            return place_of(name, None, stores)
        if self.store is None and os.path.isabs(name):  # noqa: PTH117
            return Place(None, name)
        folder = self.path.rpartition("/")[0]
        return Place(self.store, f"{folder}/{name}" if folder else name)

    def __str__(self) -> str:
        return self.path if self.store is None else f"{self.path} in {self.store!r}"


def place_of(path: str, store: Store | None, stores: Stores) -> Place:
    """Return the place of a path, which is below the store if there is one, or of a URL.

    Args:
        path: The path or URL.
        store: Where the path is; None for this machine.
        stores: The stores that URLs have named so far. A new one is added.
    """
    if store is not None or "://" not in path:
        return Place(store, path)
    from spdl.store import open_store, split_url  # noqa: PLC0415 - only for those who have a URL.

    root, below = split_url(path)
    if root.startswith("file:"):
        return Place(None, f"/{below}")
    if root not in stores:
        stores[root] = open_store(root)
    return Place(stores[root], below)


def find_places(argument: str, paths: Any, store: Store | None) -> list[Place]:
    """Return the places that a user names, with the patterns written out.

    Raises:
        TypeError: If the argument is no path and no list of paths, or the store is none.
        ValueError: If there is none, or a pattern is wrong.
    """
    if store is not None:
        from spdl.store import Store as Protocol  # noqa: PLC0415 - only for those who have a store.

        check_instance("store", store, Protocol, "a store, such as spdl.store.LocalStore, or None")
    single = isinstance(paths, str | os.PathLike)
    if not single and (isinstance(paths, bytes) or not isinstance(paths, Iterable)):
        refuse(TypeError, argument, _ACCEPTED, paths)
    listed = [paths] if single else list(paths)
    for path in listed:
        if not isinstance(path, str | os.PathLike):
            refuse(TypeError, argument, _ACCEPTED, path)
        _check_is_no_glob(argument, os.fsdecode(path), store)
    stores: Stores = {}
    found = [place_of(each, store, stores) for path in listed for each in expand_braces(argument, os.fsdecode(path))]
    if not found:
        refuse(ValueError, argument, "at least one path", paths)
    return found


def _check_is_no_glob(argument: str, path: str, store: Store | None) -> None:
    """Refuse a pattern with ``*``, unless a file has that name. An object of a store may have it, too.

    Raises:
        ValueError: If it is one.
    """
    if "*" in path and store is None and "://" not in path and not os.path.lexists(path):
        remedy = f"A `*` is not looked up: write the numbers out, or pass sorted(glob.glob({path!r}))."
        refuse(ValueError, argument, _ACCEPTED, path, remedy)
