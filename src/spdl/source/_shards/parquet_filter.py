"""Which rows of a Parquet file fulfil a condition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from spdl._check import refuse

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ACCEPTED = "an expression of pyarrow, or a list of tuples such as ('age', '>', 17)"


def to_expression(filters: Any) -> Any:
    """Return filters as an expression of pyarrow.

    Raises:
        TypeError, ValueError: If they are not filters.
    """
    import pyarrow.compute as pc  # noqa: PLC0415 - an optional dependency.
    from pyarrow.parquet import filters_to_expression  # noqa: PLC0415

    if isinstance(filters, pc.Expression):
        return filters
    if not isinstance(filters, list | tuple):
        refuse(TypeError, "filters", _ACCEPTED, filters)
    try:
        return filters_to_expression(filters)
    except (ValueError, TypeError) as error:
        refuse(ValueError, "filters", _ACCEPTED, filters, f"pyarrow says: {error}")


def check_filters(filters: Any, schema: Any, name: str) -> None:
    """Raise ValueError if a file with this schema cannot be filtered so."""
    import pyarrow as pa  # noqa: PLC0415 - an optional dependency.

    try:
        schema.empty_table().filter(filters)
    except pa.ArrowException as error:
        reason = str(error).partition(" in ")[0] if "FieldRef" in str(error) else str(error)
        has = ", ".join(f"{field.name}: {field.type}" for field in schema)
        refuse(ValueError, "filters", f"about columns of {name}, which has {has}", filters, f"pyarrow says: {reason}")


def choose_rows(
    source: Any, filters: Any, schema: Any, sizes: list[int]
) -> tuple[list[int], dict[int, NDArray[np.uint32]]]:
    """Return how many rows of each row group fulfil a condition; and the numbers of these rows, unless all do.

    Args:
        source: The open file.
        filters: The condition.
        schema: The schema of the file.
        sizes: How many rows each row group has.
    """
    import pyarrow as pa  # noqa: PLC0415 - an optional dependency.
    from pyarrow import dataset  # noqa: PLC0415

    fragment = dataset.ParquetFileFormat().make_fragment(source).subset(filters, schema=schema)
    groups = [group.id for group in fragment.row_groups]
    counts = [0] * len(sizes)
    chosen: dict[int, NDArray[np.uint32]] = {}
    for group in groups:
        # Only the columns in the condition are read.
        scanner = dataset.Scanner.from_fragment(
            fragment.subset(row_group_ids=[group]), schema=schema, columns={"chosen": filters}, use_threads=False
        )
        kept = scanner.to_table().column(0)
        mask = np.concatenate([np.empty(0, bool), *(each.fill_null(False).to_numpy(False) for each in kept.chunks)])  # noqa: FBT003 - pyarrow's arguments.
        if len(mask) != sizes[group]:
            raise pa.ArrowInvalid(f"row group {group} has {len(mask)} rows, not {sizes[group]}")
        rows = np.flatnonzero(mask)
        counts[group] = len(rows)
        if len(rows) < sizes[group]:
            chosen[group] = rows.astype(np.uint32)
    return counts, chosen
