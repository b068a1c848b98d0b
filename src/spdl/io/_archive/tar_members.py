"""The members of a tar archive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, overload

from spdl.io._archive.sample_index import SampleIndex, find_samples

if TYPE_CHECKING:
    from spdl.io._archive.tar_columns import Integers

__all__ = ["TarIndex", "TarMember"]


class TarMember(NamedTuple):
    """A regular file in a tar archive.

    Example:
        >>> tar_index(archive)[0]
        TarMember(name='a.txt', offset=512, size=1)
    """

    name: str
    """Its name in the archive."""
    offset: int
    """The position of its content in the archive, in bytes."""
    size: int
    """The size of its content in bytes."""


class TarIndex(Sequence[TarMember]):
    """The regular files of a tar archive in their order, as `tar_index` returns them.

    ``index[i]`` is the member at position `i`; ``index.find(name)`` is the position of a name. The index does not need
    the archive any longer.

    Example:
        >>> index = tar_index(archive)
        >>> [member.name for member in index], index.find("b.txt")
        (['a.txt', 'a.cls', 'b.txt'], 2)
    """

    def __init__(self, offsets: Integers, sizes: Integers, ends: Integers, names: bytes) -> None:
        self._offsets = offsets
        self._sizes = sizes
        self._ends = ends
        self._names = names
        self._positions: dict[str, int] | None = None

    def __len__(self) -> int:
        return len(self._offsets)

    @overload
    def __getitem__(self, position: int) -> TarMember: ...
    @overload
    def __getitem__(self, position: slice) -> list[TarMember]: ...
    def __getitem__(self, position: int | slice) -> TarMember | list[TarMember]:
        if isinstance(position, slice):
            return [self[index] for index in range(*position.indices(len(self)))]
        index = position.__index__()
        index += len(self) if index < 0 else 0
        if not 0 <= index < len(self):
            msg = f"the archive has {len(self)} members, got the position {position}"
            raise IndexError(msg)
        return TarMember(self._name(index), int(self._offsets[index]), int(self._sizes[index]))

    def find(self, name: str) -> int:
        """Return the position of a member. If several have the name, the last one counts: it replaces the others.

        Raises:
            KeyError: If no member has the name.
        """
        if self._positions is None:
            self._positions = {self._name(index): index for index in range(len(self))}
        try:
            return self._positions[name]
        except KeyError:
            msg = f"the archive of {len(self)} members has no regular file {name!r}"
            raise KeyError(msg) from None

    def samples(self) -> SampleIndex:
        """Return where the samples of the archive lie, grouped as `group_samples` does it.

        Example:
            >>> [sample.key for sample in tar_index(archive).samples()]
            ['a', 'b']
        """
        return SampleIndex(self, find_samples(self._names, self._ends))

    def __repr__(self) -> str:
        return f"<TarIndex of {len(self)} members>"

    def _name(self, index: int) -> str:
        begin = int(self._ends[index - 1]) if index else 0
        return self._names[begin : int(self._ends[index])].decode("utf-8", "surrogateescape")
