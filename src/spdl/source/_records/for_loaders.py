"""What loaders need of sources, and users do not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl.source._records.defects import find_defects, is_defect
from spdl.source._records.records import Records

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["name_of", "read_apart"]


def read_apart(source: Sequence[Any], positions: list[int]) -> list[Any]:
    """Return the samples at some positions, with a `Defect` for each that cannot be had.

    Args:
        source: Any sequence of samples.
        positions: The positions.

    Raises:
        Exception: What tells of no sample in particular.
    """
    read_all = getattr(type(source), "__getitems__", None)
    # A class of the user's may read in a way of its own.
    if isinstance(source, Records) and read_all is Records.__getitems__:
        return source._read_apart(positions)  # noqa: SLF001 - as all here, on behalf of the source.

    def accepts(error: Exception) -> bool:
        # An order that goes beyond the source is no defect of a sample.
        return is_defect(error) and max(positions) < len(source)

    if callable(read_all):
        return find_defects(lambda some: read_all(source, some), positions, accepts)
    return [each for position in positions for each in find_defects(lambda one: [source[one[0]]], [position], accepts)]


def name_of(source: Sequence[Any], position: int) -> str | None:
    """Return how messages call a sample: where it lies. None if the source cannot say."""
    return source._name(position) if isinstance(source, Records) else None  # noqa: SLF001
