"""What an index of a tar archive consists of: arrays, which take little memory and are stored as they are."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any, NamedTuple

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy as np

    Integers = np.ndarray[Any, np.dtype[np.uint64]]

__all__ = ["TarColumns"]


class TarColumns(NamedTuple):
    """The members of an archive in their order."""

    offsets: Integers
    """Where their contents begin."""
    sizes: Integers
    """The sizes of the contents."""
    ends: Integers
    """Where each name ends in `names`."""
    names: bytes
    """All names, one after the other."""

    @staticmethod
    def of(members: Iterable[tuple[bytes, int, int]]) -> TarColumns:
        """Return the columns of members by their names, positions and sizes."""
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
        """Return the columns that `arrays` returned.

        Raises:
            KeyError, ValueError: If they are others.
        """
        columns = [arrays[key] for key in ("offsets", "sizes", "ends")]
        if not all(column.dtype == "u8" and column.shape == (columns[0].size,) for column in columns):
            raise ValueError("the columns of an index are as long as each other")
        return TarColumns(columns[0], columns[1], columns[2], arrays["names"].tobytes())

    def arrays(self) -> dict[str, Any]:
        """Return the columns as arrays by their names."""
        import numpy as np  # noqa: PLC0415

        return {**self._asdict(), "names": np.frombuffer(self.names, np.uint8)}
