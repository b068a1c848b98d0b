"""What every store can do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterator, Sequence

    from typing_extensions import Buffer

    from spdl.store._protocol.entry import Entry

__all__ = ["Store"]


@runtime_checkable
class Store(Protocol):
    """A place that objects are read from: a folder, a bucket, a web server. An object is bytes under a path.

    These four methods are all that a store needs; any object that has them is one. Paths are relative to the store and
    have ``/`` between their parts, on every system. All methods may be called by several threads at once, and that is
    how to read many objects: give `get` to a pipeline as a stage.

    What is missing is a `FileNotFoundError`, everything else that goes wrong outside is a `StoreError`; both are an
    `OSError`.

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
        """Return the number of bytes of an object.

        Args:
            path: Which object.

        Raises:
            FileNotFoundError: If there is none.
            StoreError: If the store does not say.
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
        """Return the content of an object: a read-only buffer, such as bytes or a memoryview, of the caller's own.

        Args:
            path: Which object.

        Raises:
            FileNotFoundError: If there is none.
            StoreError: If it cannot be read, whole and in one version.
        """

    def get_ranges(self, path: str, starts: Sequence[int], lengths: Sequence[int]) -> builtins.list[Buffer]:
        """Return parts of an object, in the order they were asked for, all of one version of it.

        Ask for all parts in one call. The store may read neighbours at once, and several at the same time.

        Args:
            path: Which object.
            starts: Where each part begins, in bytes from the start of the object. In any order; parts may overlap.
            lengths: How many bytes each part has. Nothing is read for a part of 0 bytes.

        Returns:
            A read-only buffer for each part. Some may be views of the same memory.

        Raises:
            FileNotFoundError: If there is no such object.
            StoreError: If it ends before one of the parts does, or cannot be read.
            ValueError: If a number is negative, or there are not as many lengths as starts.
        """
