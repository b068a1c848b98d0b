"""Index files of tar archives as NVIDIA DALI's wds2idx writes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl.io import FormatError, TarIndex
from spdl.io._archive.tar_columns import TarColumns
from spdl.io._archive.tar_headers import BLOCK
from spdl.io._archive.tar_samples import is_metadata, split_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spdl.source._records.place import Place

__all__ = ["read_dali_index"]

_VERSION = "v1.2"
_FIELDS = 4


def read_dali_index(place: Place) -> TarIndex:
    """Return the members that an index file lists.

    Its first line is ``v1.2`` and the number of samples. Each further line is a sample: for each of its members the
    extension, the position and the size of the content, and the name.

    Raises:
        FormatError: If it is of another version, or damaged.
        OSError: If it cannot be read.
    """
    lines = place.read().decode("utf-8", "surrogateescape").split("\n")
    if not lines[-1]:
        lines.pop()
    version, _, number = (lines[0] if lines else "").partition(" ")
    if version != _VERSION or not (number.isascii() and number.isdigit()):
        first = lines[0][:40] if lines else ""
        raise FormatError(
            f"{place} is no index of version {_VERSION} (wds2idx of DALI 1.22 and later): it begins with {first!r}"
        )
    if len(lines) - 1 != int(number):
        raise FormatError(f"{place} is damaged: it says it has {number} samples, and has {len(lines) - 1}")
    samples = [list(_read_line(place, line)) for line in lines[1:]]
    index = TarIndex(*TarColumns.of(member for sample in samples for member in sample))
    listed = sum(map(bool, samples))
    if len(index.samples()) != listed:
        raise FormatError(f"{place} is damaged: its names are those of {len(index.samples())} samples, not {listed}")
    return index


def _read_line(place: Place, line: str) -> Iterator[tuple[bytes, int, int]]:
    fields = line.split(" ")
    if len(fields) % _FIELDS or not fields[0]:
        raise FormatError(
            f"{place}: a line does not consist of an extension, a position, a size and a name for each member (names "
            f"with spaces cannot be told apart): {line[:80]!r}"
        )
    for first in range(0, len(fields), _FIELDS):
        extension, offset, size, name = fields[first : first + _FIELDS]
        member = name.encode("utf-8", "surrogateescape")
        if is_metadata(member):  # DALI lists what tells of the archive as if it were a sample.
            continue
        sound = all(text.isascii() and text.isdigit() and len(text) < 19 for text in (offset, size))  # noqa: PLR2004
        if not sound or int(offset) < BLOCK or split_name(name)[1] != extension.lower():
            raise FormatError(f"{place}: {extension} {offset} {size} {name} is no member of a tar archive")
        yield member, int(offset), int(size)
