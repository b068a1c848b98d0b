"""What the stores of this package have in common: they check what they are given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl.store._protocol.checks import check_object_path, check_prefix, check_ranges

if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterator, Sequence

    from typing_extensions import Buffer

    from spdl.store._protocol.store import Entry

__all__ = ["CheckedStore", "CheckedVersionedStore", "Ranges"]

Ranges = tuple[list[int], list[int]]
"""Where parts begin, and how many bytes they have."""


class CheckedStore:
    """A store whose arguments are checked before it reads."""

    def size(self, path: str) -> int:
        """Return the number of bytes of an object.

        Args:
            path: Which object.

        Raises:
            FileNotFoundError: If there is none.
            StoreError: If the store does not say, or cannot be reached.
        """
        return self._size(check_object_path(path))

    def list(self, prefix: str) -> Iterator[Entry]:
        """Return an iterator over the objects at or below a path.

        Args:
            prefix: A folder or an object; ``""`` is the whole store.

        Raises:
            StoreError: If the store cannot be listed, also in the middle.
        """
        return self._list(check_prefix(prefix))

    def get(self, path: str) -> Buffer:
        """Return the content of an object, which is of one version.

        Args:
            path: Which object.

        Returns:
            Bytes, or a read-only view. Of a `CachedStore`, other callers may be given the same memory.

        Raises:
            FileNotFoundError: If there is none.
            StoreError: If it cannot be read: the message says why, and after how many attempts.
        """
        return self._get(check_object_path(path))

    def get_ranges(self, path: str, starts: Sequence[int], lengths: Sequence[int]) -> builtins.list[Buffer]:
        """Return parts of an object, all of one version, in the order they were asked for. Neighbours are read at once.

        Args:
            path: Which object.
            starts: Where each part begins, in bytes. In any order; parts may overlap.
            lengths: How many bytes each part has.

        Returns:
            A read-only buffer for each part. Some are views of the same memory, unless they are small in it.

        Raises:
            FileNotFoundError: If there is no such object.
            StoreError: If it ends before one of the parts does, or cannot be read.
            ValueError: If a number is negative, or there are not as many lengths as starts.
        """
        return self._get_ranges(check_object_path(path), check_ranges(starts, lengths))

    def _size(self, path: str) -> int:
        raise NotImplementedError

    def _list(self, prefix: str) -> Iterator[Entry]:
        raise NotImplementedError

    def _get(self, path: str) -> Buffer:
        raise NotImplementedError

    def _get_ranges(self, path: str, ranges: Ranges) -> builtins.list[Buffer]:
        raise NotImplementedError


class CheckedVersionedStore(CheckedStore):
    """Such a store that knows which version of an object it has read."""

    def read_version(
        self, path: str, ranges: tuple[Sequence[int], Sequence[int]] | None = None
    ) -> tuple[Entry, builtins.list[Buffer]]:
        """Return the version that was read, and its content, whole or in parts; see `get` and `get_ranges`.

        Caches and sources know by this that what they have is of the version that they know.

        Args:
            path: Which object.
            ranges: Where each part begins, and how many bytes each has. None for the whole content, as one part.

        Raises:
            FileNotFoundError: If there is no such object.
            StoreError: If it cannot be read, or ends before one of the parts does.
            ValueError: If a number is negative, or there are not as many lengths as starts.
        """
        return self._read(check_object_path(path), None if ranges is None else check_ranges(*ranges))

    def _get(self, path: str) -> Buffer:
        return self._read(path, None)[1][0]

    def _get_ranges(self, path: str, ranges: Ranges) -> builtins.list[Buffer]:
        return self._read(path, ranges)[1]

    def _read(self, path: str, ranges: Ranges | None) -> tuple[Entry, builtins.list[Buffer]]:
        raise NotImplementedError
