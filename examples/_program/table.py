"""Print results as tables whose columns line up."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, indent: str = "") -> None:
    """Print a table with a line of headings. Numbers are right-aligned and text is left-aligned.

    Args:
        columns: The headings.
        rows: The rows below the headings, already formatted.
        indent: The start of each line.
    """
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    to_the_right = [all(_is_number(cell) for cell in column) for column in zip(*cells, strict=True)]
    for line in [columns, *cells]:
        aligned = (
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, to_the_right or [False] * len(widths), strict=True)
        )
        print(f"{indent}{'  '.join(aligned)}".rstrip())


def _is_number(cell: str) -> bool:
    return cell[:1].isdigit() or cell in ("-", "nan")
