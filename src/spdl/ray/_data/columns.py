"""Rows and columns: items of a pipeline are rows, what Ray Data passes around are columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["columns_of", "rows_of"]

# The column of items that are no dicts, as Ray Data calls it.
_ITEM = "item"


def rows_of(columns: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the rows of columns of one length. Arrays are not copied."""
    names = list(columns)
    return [dict(zip(names, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def columns_of(items: Sequence[Any]) -> dict[str, Any]:
    """Return the columns of items: dicts with the same keys, or others, which become the column ``item``."""
    rows = [item if isinstance(item, dict) else {_ITEM: item} for item in items]
    for row in rows:
        if row.keys() != rows[0].keys():
            raise ValueError(f"The rows of a batch have different columns: {list(rows[0])} and {list(row)}.")
    return {name: _column([row[name] for row in rows]) for name in rows[0]} if rows else {}


def _column(values: list[Any]) -> Any:
    import numpy as np  # noqa: PLC0415 - only where there are columns.

    kinds = {(value.shape, value.dtype) for value in values if isinstance(value, np.ndarray)}
    if kinds and len(kinds) == 1 and all(isinstance(value, np.ndarray) for value in values):
        return np.stack(values)
    if not kinds and all(isinstance(value, (int, float, bool, np.generic)) for value in values):
        return np.asarray(values)
    # Texts, bytes, and arrays of different shapes.
    column = np.empty(len(values), dtype=object)
    for place, value in enumerate(values):
        column[place] = value
    return column
