"""The output of a command: rich tables on a terminal, plain lines everywhere else."""

from __future__ import annotations

import os
import sys
import textwrap
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spdl.cli._common.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import rich.console
    import rich.table

LINE_WIDTH = 100


@dataclass
class Table:
    """A table of text. The first column holds names and is left-aligned; the others are right-aligned.

    Attributes:
        title: The title above the table.
        header: One heading per column.
        rows: The rows, each with one cell per column.
        note: A sentence below the table; empty for none.
        highlighted: The index of our own column, or None.
    """

    title: str
    header: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    note: str = ""
    highlighted: int | None = None

    def rich(self) -> rich.table.Table:
        """Return the table as a rich table."""
        import rich.box  # noqa: PLC0415
        import rich.markup  # noqa: PLC0415
        import rich.table  # noqa: PLC0415

        table = rich.table.Table(
            title=rich.markup.escape(self.title),
            caption=rich.markup.escape(self.note) or None,
            box=rich.box.SIMPLE_HEAD,
            title_justify="left",
            caption_justify="left",
            title_style="bold",
            caption_style="dim",
        )
        for index, heading in enumerate(self.header):
            table.add_column(
                rich.markup.escape(heading),
                justify="right" if index else "left",
                style="bold green" if index == self.highlighted else None,
                no_wrap=index == 0,
            )
        for row in self.rows:
            table.add_row(*map(rich.markup.escape, row))
        return table

    def plain(self) -> str:
        """Return the table as lines of ASCII text."""
        lines = [list(self.header), *map(list, self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        lines.insert(1, ["-" * width for width in widths])
        rows = [
            "  ".join(
                cell.rjust(width) if index else cell.ljust(width)
                for index, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        return "\n".join([self.title, *rows, *textwrap.wrap(self.note, LINE_WIDTH)])


class Console:
    """Standard output.

    Attributes:
        rich: The rich console. None if the output is not a terminal, or rich is not installed.
    """

    def __init__(self) -> None:
        self.rich: rich.console.Console | None = None
        if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
            try:
                from rich.console import Console as RichConsole  # noqa: PLC0415
            except ImportError:
                return
            self.rich = RichConsole(highlight=False)

    def print(self, line: str = "") -> None:
        """Print a line of text, with unprintable characters escaped."""
        line = printable(line)
        if self.rich is None:
            print(line, flush=True)
        else:
            self.rich.print(line, markup=False, soft_wrap=True)

    def table(self, table: Table) -> None:
        """Print a table as a rich table, or as plain lines."""
        if self.rich is None:
            print(table.plain(), end="\n\n", flush=True)
        else:
            self.rich.print(table.rich())
            if table.note:
                self.rich.print()

    def facts(self, facts: Sequence[tuple[str, str]]) -> None:
        """Print pairs of a name and its value, one pair per line, with the values aligned."""
        width = max(len(name) for name, _ in facts)
        if self.rich is None:
            for name, fact in facts:
                self.print(f"{name.ljust(width)}  {fact}")
            return
        from rich.table import Table as RichTable  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        grid = RichTable.grid(padding=(0, 2))
        for name, fact in facts:
            grid.add_row(Text(name, style="bold"), Text(printable(fact)))
        self.rich.print(grid)

    @contextmanager
    def working(self, what: str) -> Iterator[None]:
        """Show on a terminal that work is going on until the block ends."""
        if self.rich is None:
            yield
            return
        with self.rich.status(what):
            yield

    def track(self, items: Sequence[Any], title: str) -> Iterator[Any]:
        """Yield the items and show the progress: a bar on a terminal, else a line at every quarter."""
        if self.rich is not None:
            from rich.progress import track  # noqa: PLC0415

            yield from track(items, title, console=self.rich, transient=True)
            return
        quarter = -(-len(items) // 4)
        for index, item in enumerate(items):
            if index % quarter == 0:
                self.print(f"{title}: {index} of {len(items)}")
            yield item
        self.print(f"{title}: done")
