"""What the stores of this package have in common: they check what they are given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl.store._protocol.checks import check_object_path, check_prefix, check_ranges
from spdl.store._protocol.store import Store, VersionedStore

if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterator, Sequence

    from typing_extensions import Buffer

    from spdl.store._protocol.store import Entry

__all__ = ["CheckedStore", "CheckedVersionedStore", "Ranges"]

Ranges = tuple[list[int], list[int]]
"""Where parts begin, and how many bytes they have."""


# What the methods do is said where the protocols are.
class CheckedStore(Store):
    """A store whose arguments are checked before it reads."""

    def size(self, path: str) -> int:
        return self._size(check_object_path(path))

    def list(self, prefix: str) -> Iterator[Entry]:
        return self._list(check_prefix(prefix))

    def get(self, path: str) -> Buffer:
        return self._get(check_object_path(path))

    def get_ranges(self, path: str, starts: Sequence[int], lengths: Sequence[int]) -> builtins.list[Buffer]:
        return self._get_ranges(check_object_path(path), check_ranges(starts, lengths))

    def _size(self, path: str) -> int:
        raise NotImplementedError

    def _list(self, prefix: str) -> Iterator[Entry]:
        raise NotImplementedError

    def _get(self, path: str) -> Buffer:
        raise NotImplementedError

    def _get_ranges(self, path: str, ranges: Ranges) -> builtins.list[Buffer]:
        raise NotImplementedError


class CheckedVersionedStore(CheckedStore, VersionedStore):
    """Such a store that knows which version of an object it has read."""

    def read_version(
        self, path: str, ranges: tuple[Sequence[int], Sequence[int]] | None = None
    ) -> tuple[Entry, builtins.list[Buffer]]:
        return self._read(check_object_path(path), None if ranges is None else check_ranges(*ranges))

    def _get(self, path: str) -> Buffer:
        return self._read(path, None)[1][0]

    def _get_ranges(self, path: str, ranges: Ranges) -> builtins.list[Buffer]:
        return self._read(path, ranges)[1]

    def _read(self, path: str, ranges: Ranges | None) -> tuple[Entry, builtins.list[Buffer]]:
        raise NotImplementedError
