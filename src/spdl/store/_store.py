"""The protocol of stores: methods, entries of listings, errors, and checks of arguments."""

from __future__ import annotations

import builtins
import errno
import hashlib
import operator
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from spdl._check import check_int, escaped, refuse

if TYPE_CHECKING:
    from typing_extensions import Buffer


class Entry(NamedTuple):
    """An object of a store.

    Example:
        >>> Entry("train/00000.tar", 1048576, '"9b2cf5"').path
        'train/00000.tar'
    """

    path: str
    """The path below the store, with ``/`` between its parts. All methods of the store take it."""
    size: int
    """The number of bytes."""
    etag: str | None
    """A text that changes whenever the content does, or None if the store has none."""


class StoreError(OSError):
    """Raised by a store that cannot read something for another reason than that it is missing.

    The message names the object and the reason. It also says how many attempts failed. An object that does not
    exist is a `FileNotFoundError`.

    Example:
        >>> import os, tempfile
        >>> from spdl.store import LocalStore
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     with open(os.path.join(folder, "three.bin"), "wb") as file:
        ...         _ = file.write(b"abc")
        ...     try:
        ...         LocalStore(folder).get_ranges("three.bin", [2], [5])
        ...     except StoreError as error:
        ...         print(str(error).partition(": ")[2])
        it has 3 bytes, but bytes 2 to 7 were asked for
    """

    def __str__(self) -> str:
        # Names of objects and answers of servers are in it.
        return escaped(super().__str__())


def not_found(path: str, store: str) -> FileNotFoundError:
    """Return the error for an object that is missing in a store, which is named by its repr."""
    return FileNotFoundError(errno.ENOENT, f"No such object in {store}", path)


@runtime_checkable
class Store(Protocol):
    """A place that objects are read from: a folder, a bucket, a web server. An object is bytes under a path.

    These four methods are all that a store needs; any object that has them is one. Paths are relative to the store and
    have ``/`` between their parts, on every system. All methods may be called by several threads at once, and that is
    how to read many objects: give `get` to a pipeline as a stage.

    A missing object is a `FileNotFoundError`, every other failure of storage or network is a `StoreError`; both are
    an `OSError`.

    Example:
        >>> import tempfile
        >>> from spdl.store import LocalStore
        >>> def count_bytes(store: Store) -> int:
        ...     return sum(entry.size for entry in store.list(""))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     count_bytes(LocalStore(folder))
        0
    """

    def size(self, path: str) -> int:
        """Return the number of bytes of the object of a path.

        Raises:
            FileNotFoundError: If there is none.
            StoreError: If the store does not say, or cannot be reached.
        """
        ...

    def list(self, prefix: str) -> Iterator[Entry]:
        """Return an iterator over the objects at or below a path: an object of that very path, and those in the folder.

        Folders are not listed. Nothing is an error if there is nothing: a store has no empty folders.

        Args:
            prefix: A folder or an object. ``""`` is the whole store. ``"train"`` lists ``train/a``, but no ``train2``.

        Raises:
            StoreError: If the store cannot be listed, also in the middle.
        """

    def get(self, path: str) -> Buffer:
        """Return the content of the object of a path, which is of one version.

        Returns:
            A read-only buffer, such as bytes or a memoryview. Other callers of a `CachedStore` may be given the same
            memory.

        Raises:
            FileNotFoundError: If there is none.
            StoreError: If it cannot be read: the message says why, and after how many attempts.
        """

    def get_ranges(self, path: str, starts: Sequence[int], lengths: Sequence[int]) -> builtins.list[Buffer]:
        """Return parts of an object, in the order they were asked for, all of one version of it.

        Ask for all parts in one call. The store may read neighbours at once, and several at the same time.

        Args:
            path: Which object.
            starts: The first byte of each part, counted from the start of the object. In any order; parts may overlap.
            lengths: How many bytes each part has. Nothing is read for a part of 0 bytes.

        Returns:
            A read-only buffer for each part. Some may be views of the same memory, unless they are small in it.

        Raises:
            FileNotFoundError: If there is no such object.
            StoreError: If it ends before one of the parts does, or cannot be read.
            ValueError: If a number is negative, or there are not as many lengths as starts.
        """


@runtime_checkable
class VersionedStore(Protocol):
    """A store whose answers name their version, so that a change is noticed without another request."""

    def read_version(
        self, path: str, ranges: tuple[Sequence[int], Sequence[int]] | None = None
    ) -> tuple[Entry, list[Buffer]]:
        """Return the version that was read, and its content, whole or in parts; see `Store.get` and `Store.get_ranges`.

        Caches and sources know by this that what they have is of the version that they know.

        Args:
            path: Which object.
            ranges: The first byte of each part, and how many bytes each has. None for the whole content, as one part.

        Raises:
            FileNotFoundError: If there is no such object.
            StoreError: If it cannot be read, or ends before one of the parts does.
            ValueError: If a number is negative, or there are not as many lengths as starts.
        """
        ...


@runtime_checkable
class _Identified(Protocol):
    def identity(self) -> str: ...


def identity_of(store: Store) -> str:
    """Return a text that stores share which have the same objects under the same paths, and no others.

    It is a hash of what the store's method ``identity`` returns, or of its repr if it has none, so it shows no secret.
    """
    found = store.identity() if isinstance(store, _Identified) else repr(store)
    return hashlib.sha256(found.encode("utf-8", "surrogateescape")).hexdigest()


_ACCEPTED = "the path of an object below the store, such as 'train/0.tar' (no '/' at its ends, no empty part, no '..')"
_STEPS = ("", ".", "..")


def check_object_path(path: object) -> str:
    if not isinstance(path, str):
        refuse(TypeError, "path", "a str", path)
    # The first condition is for speed.
    if (not path or path[0] in "/." or path[-1] == "/" or "//" in path or "/." in path or "\0" in path) and (
        "\0" in path or any(part in _STEPS for part in path.split("/"))
    ):
        refuse(ValueError, "path", _ACCEPTED, path)
    return path


def check_prefix(prefix: object) -> str:
    """Return the path of a folder or object without a slash at its end; an empty one is the whole store."""
    if not isinstance(prefix, str):
        refuse(TypeError, "prefix", "a str", prefix)
    whole, prefix = prefix, prefix.removesuffix("/")
    if whole and ("\0" in prefix or any(part in _STEPS for part in prefix.split("/"))):
        refuse(ValueError, "prefix", "a folder below the store, such as 'train', or '' for all of it", whole)
    return prefix


def check_ranges(starts: Sequence[int], lengths: Sequence[int]) -> tuple[list[int], list[int]]:
    try:
        begins = [operator.index(start) for start in starts]
        sizes = [operator.index(length) for length in lengths]
    except TypeError:
        begins, sizes = [-1], [-1]
    if len(begins) != len(sizes):
        refuse(ValueError, "lengths", f"as many as `starts`, which are {len(begins)}", lengths)
    if begins and (min(begins) < 0 or min(sizes) < 0):
        for name, given in (("starts", starts), ("lengths", lengths)):
            for number in _listed(name, given):
                check_int(name, number, least=0, accepted="ints of at least 0")
    return begins, sizes


def check_inside(path: str, store: str, starts: Sequence[int], lengths: Sequence[int], size: int) -> None:
    """Raise StoreError if a range reaches beyond the end of an object. The store is named by its repr."""
    if reason := beyond(starts, lengths, size):
        raise StoreError(f"{path} in {store}: {reason}")


def beyond(starts: Sequence[int], lengths: Sequence[int], size: int) -> str:
    """Return the message about the first range that reaches beyond the end of an object; "" without any."""
    for start, length in zip(starts, lengths, strict=True):
        if start + length > size and length:
            return f"it has {size} bytes, but bytes {start} to {start + length} were asked for"
    return ""


def _listed(name: str, given: Sequence[int]) -> list[int]:
    try:
        return list(given)
    except TypeError:
        refuse(TypeError, name, "a sequence of ints", given)


Spans = tuple[list[int], list[int]]
"""Where parts begin, and how many bytes they have."""


# The methods are documented at the protocols.
class CheckedStore(Store, VersionedStore):
    """A store whose arguments are checked before it reads, and that knows which version of an object it has read."""

    def size(self, path: str) -> int:
        return self._size(check_object_path(path))

    def list(self, prefix: str) -> Iterator[Entry]:
        return self._list(check_prefix(prefix))

    def get(self, path: str) -> Buffer:
        return self._read(check_object_path(path), None)[1][0]

    def get_ranges(self, path: str, starts: Sequence[int], lengths: Sequence[int]) -> builtins.list[Buffer]:
        return self._read(check_object_path(path), check_ranges(starts, lengths))[1]

    def read_version(
        self, path: str, ranges: tuple[Sequence[int], Sequence[int]] | None = None
    ) -> tuple[Entry, builtins.list[Buffer]]:
        return self._read(check_object_path(path), None if ranges is None else check_ranges(*ranges))

    def _size(self, path: str) -> int:
        raise NotImplementedError

    def _list(self, prefix: str) -> Iterator[Entry]:
        raise NotImplementedError

    def _read(self, path: str, ranges: Spans | None) -> tuple[Entry, builtins.list[Buffer]]:
        raise NotImplementedError
