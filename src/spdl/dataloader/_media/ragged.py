"""Layouts of fields that have a different number of rows in each sample."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from spdl.dataloader._table.batches import Jagged
from spdl.io._shared import Padding

RaggedLayout: TypeAlias = Literal["list", "pad", "offsets"]
Ragged: TypeAlias = RaggedLayout | Mapping[str, RaggedLayout]


def to_objects(rows: Sequence[Any]) -> Any:
    """Return an array of objects with the rows of each sample, which may be arrays of one shape."""
    import numpy as np  # noqa: PLC0415 - importing spdl.dataloader loads no numpy.

    found = np.full(len(rows), None, object)
    for place, each in enumerate(rows):
        found[place] = each
    return found


def lay_out(
    name: str,
    rows: list[Any],
    layout: RaggedLayout,
    taken: Container[str],
    *,
    pad_value: float = 0,
    dtype: Any = None,
) -> dict[str, Any]:
    """Return the fields of a batch that have the rows of its samples.

    Args:
        name: The name of the field.
        rows: An array for each sample, or a list, which is left as it is by the layout of lists.
        layout: The layout.
        taken: The names of fields that the samples have already.
        pad_value: The number that fills up shorter arrays.
        dtype: The dtype of padded arrays; None if all have one.

    Raises:
        TypeError, ValueError: If the rows do not fit the layout, or a field has the name of the mask.
    """
    import numpy as np  # noqa: PLC0415

    if layout == "list":
        return {name: rows}
    if layout == "pad":
        mask = f"{name}_mask"
        if mask in taken:
            raise ValueError(f"`ragged` adds the field {mask!r}, which the samples have already: rename it.")
        values, is_there, _ = Padding(pad_value, dtype=dtype).apply(rows)
        return {name: values, mask: is_there}
    return {name: Jagged(np.concatenate(rows), np.cumsum([0, *map(len, rows)], dtype=np.int64))}
