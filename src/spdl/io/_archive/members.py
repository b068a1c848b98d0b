"""Members of a tar archive, the samples that they form, and the columns that an index of them has."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, overload

from spdl.io._common.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import numpy as np

    Unsigned = np.ndarray[Any, np.dtype[np.uint64]]
    Integers = np.ndarray[Any, np.dtype[np.int64]]

T = TypeVar("T")


class TarColumns(NamedTuple):
    offsets: Unsigned
    """Where their contents begin."""
    sizes: Unsigned
    """The sizes of the contents."""
    ends: Unsigned
    """Where each name ends in `names`."""
    names: bytes
    """All names, one after the other."""

    @staticmethod
    def of(members: Iterable[tuple[bytes, int, int]]) -> TarColumns:
        import numpy as np  # noqa: PLC0415 - not everyone who imports spdl.io needs it.

        names, offsets, sizes, ends = bytearray(), array("Q"), array("Q"), array("Q")
        for name, offset, size in members:
            names += name
            offsets.append(offset)
            sizes.append(size)
            ends.append(len(names))
        columns = [np.frombuffer(column, np.uint64) for column in (offsets, sizes, ends)]
        return TarColumns(columns[0], columns[1], columns[2], bytes(names))

    @staticmethod
    def load(arrays: Mapping[str, Any]) -> TarColumns:
        """Return the columns that `arrays` returned. Raises KeyError or ValueError for others."""
        columns = [arrays[key] for key in ("offsets", "sizes", "ends")]
        if not all(column.dtype == "u8" and column.shape == (columns[0].size,) for column in columns):
            raise ValueError("the columns of an index are as long as each other")
        return TarColumns(columns[0], columns[1], columns[2], arrays["names"].tobytes())

    def arrays(self) -> dict[str, Any]:
        import numpy as np  # noqa: PLC0415

        return {**self._asdict(), "names": np.frombuffer(self.names, np.uint8)}


KEY = "__key__"


def group_samples(members: Iterable[tuple[str, T]]) -> Iterator[dict[str, Any]]:
    """Group the members of an archive into samples, by WebDataset's convention.

    The key of a member is its name up to the first dot after the last slash. The text after that dot, in lower case, is
    the name of the part. Consecutive members with the same key make one sample. Members whose base name has no dot, or
    begins with one, are left out, and so are those in a folder such as ``__meta__``, which describe the archive itself.

    Args:
        members: Names and contents, as `iter_tarfile` yields them.

    Returns:
        An iterator over the samples: a dict of contents by the name of the part, with the key as ``"__key__"``.

    Raises:
        FormatError: While iterating, if a sample has a part twice.

    Example:
        >>> for sample in group_samples(iter_tarfile(archive)):
        ...     print(sample["__key__"], sorted(sample), bytes(sample["txt"]))
        a ['__key__', 'cls', 'txt'] b'1'
        b ['__key__', 'txt'] b'2'
    """
    sample: dict[str, Any] = {}
    for name, content in members:
        key, part = split_name(name)
        if part is None:
            continue
        if sample and sample[KEY] != key:
            yield sample
            sample = {}
        if not sample:
            sample[KEY] = key
        if part in sample:
            raise twice(key, part, name)
        sample[part] = content
    if sample:
        yield sample


def split_name(name: str) -> tuple[str, str | None]:
    """Return the key of a member and the name of its part, which is None if it belongs to no sample."""
    start = name.rfind("/") + 1
    dot = name.find(".", start)
    if dot <= start or (name.startswith("__") and is_metadata(name.encode("utf-8", "surrogateescape"))):
        return name, None
    return name[:dot], name[dot + 1 :].lower()


def is_metadata(name: bytes) -> bool:
    """Return whether a member lies in a folder whose name has two underscores on either side."""
    folder, slash, _ = name.partition(b"/")
    return bool(slash) and len(folder) >= len("____") and folder.startswith(b"__") and folder.endswith(b"__")


def twice(key: str, part: str, name: str) -> FormatError:
    """Return the error for a sample that has two parts of one name, or one by the name of the key."""
    return FormatError(f"the sample {key!r} has the part {part!r} twice, the second time as {name!r}")


class TarSample(NamedTuple):
    """A sample in a tar archive: the members that share a key.

    Example:
        >>> tar_index(archive).samples()[1]
        TarSample(key='b', parts={'txt': TarMember(name='b.txt', offset=2560, size=1)})
    """

    key: str
    """The beginning of its members' names."""
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
    """Return the positions of the first members of the samples. `ends` says where each of the joined names ends."""
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
    """Return the last of some sorted places before each stop, or another number if there is not one."""
    import numpy as np  # noqa: PLC0415

    numbers = np.searchsorted(places, stops) - 1
    found: Integers = np.where(numbers < 0, otherwise, np.append(places, -1)[numbers])
    return found


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

    def __init__(self, offsets: Unsigned, sizes: Unsigned, ends: Unsigned, names: bytes) -> None:
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
            raise IndexError(f"the archive has {len(self)} members, got the position {position}")
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
            raise KeyError(f"the archive of {len(self)} members has no regular file {name!r}") from None

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
