"""Where the samples of a tar archive lie."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from spdl.io._archive.tar_samples import KEY, is_metadata, split_name, twice

if TYPE_CHECKING:
    import numpy as np

    from spdl.io._archive.tar_members import TarIndex, TarMember

    Integers = np.ndarray[Any, np.dtype[np.int64]]

__all__ = ["SampleIndex", "TarSample", "find_samples"]


class TarSample(NamedTuple):
    """A sample in a tar archive: the members that share a key.

    Example:
        >>> tar_index(archive).samples()[1]
        TarSample(key='b', parts={'txt': TarMember(name='b.txt', offset=2560, size=1)})
    """

    key: str
    """What the names of its members begin with."""
    parts: dict[str, TarMember]
    """Its members by the names of the parts, in the order of the archive."""


class SampleIndex(Sequence[TarSample]):
    """The samples of a tar archive in their order, as `TarIndex.samples` returns them.

    Example:
        >>> samples = tar_index(archive).samples()
        >>> len(samples), samples[0].key, list(samples[0].parts)
        (2, 'a', ['txt', 'cls'])
    """

    def __init__(self, index: TarIndex, firsts: Integers) -> None:
        self._index = index
        # The position of the first member of each sample.
        self._firsts = firsts

    def __len__(self) -> int:
        return len(self._firsts)

    @overload
    def __getitem__(self, position: int) -> TarSample: ...
    @overload
    def __getitem__(self, position: slice) -> list[TarSample]: ...
    def __getitem__(self, position: int | slice) -> TarSample | list[TarSample]:
        if isinstance(position, slice):
            return [self[number] for number in range(*position.indices(len(self)))]
        number = position.__index__()
        number += len(self) if number < 0 else 0
        if not 0 <= number < len(self):
            raise IndexError(f"the archive has {len(self)} samples, got the position {position}")
        first = int(self._firsts[number])
        end = int(self._firsts[number + 1]) if number + 1 < len(self) else len(self._index)
        parts: dict[str, TarMember] = {}
        key = ""
        for member in self._index[first:end]:
            own, part = split_name(member.name)
            if part is None:
                continue
            if part in parts or part == KEY:
                raise twice(own, part, member.name)
            key, parts[part] = own, member
        return TarSample(key, parts)

    def __repr__(self) -> str:
        return f"<SampleIndex of {len(self)} samples>"


def find_samples(names: bytes, ends: np.ndarray[Any, np.dtype[np.uint64]]) -> Integers:
    """Return the positions of the first members of the samples.

    Args:
        names: The names of all members, one after the other.
        ends: Where each name ends.
    """
    import numpy as np  # noqa: PLC0415 - not everyone who imports spdl.io needs it.

    # Millions of names: Python looks at each only once, and does so in one expression.
    stops = ends.astype(np.int64)
    starts = np.concatenate([np.zeros(1, np.int64), stops[:-1]]) if stops.size else stops
    slashes, dots = (np.flatnonzero(np.frombuffer(names, np.uint8) == ord(sign)) for sign in "/.")
    bases = _last_before(slashes, stops, starts - 1) + 1
    bases = np.maximum(bases, starts)
    # The first dot of the base name, or the end of the name.
    found = np.append(dots, len(names))[np.searchsorted(dots, bases)]
    belongs = (found > bases) & (found < stops)
    members = np.flatnonzero(belongs)
    text = np.frombuffer(names, np.uint8)
    # Each of these names has a key and a dot, so two bytes at least.
    marked = (text[starts[members]] == ord("_")) & (text[starts[members] + 1] == ord("_"))
    if marked.any():
        metadata = [is_metadata(names[starts[number] : stops[number]]) for number in members[marked].tolist()]
        members = np.delete(members, np.flatnonzero(marked)[metadata])
    spans = zip(starts[members].tolist(), found[members].tolist(), strict=True)
    keys = [names[start:stop] for start, stop in spans]
    begins = np.array([key != before for key, before in zip(keys, [None, *keys], strict=False)], bool)
    firsts: Integers = members[begins]
    return firsts


def _last_before(places: Integers, stops: Integers, otherwise: Integers) -> Integers:
    """Return the last of some sorted places before each stop; where there is none, another number."""
    import numpy as np  # noqa: PLC0415

    numbers = np.searchsorted(places, stops) - 1
    found: Integers = np.where(numbers < 0, otherwise, np.append(places, -1)[numbers])
    return found
