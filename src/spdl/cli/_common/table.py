"""A table of text that fits the width of a terminal without cutting a number."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from spdl.cli._common.text import padded, printable, shortened, width_of, without_middle

if TYPE_CHECKING:
    import rich.console
    from rich.table import Table as RichTable


LINE_WIDTH = 100
GAP = 2
"""Spaces between two columns."""
NAME_WIDTH = 20
"""The characters that a name keeps even where the table is wider than the terminal."""
_BETWEEN_FACTS = "   "
NOTHING = ("", "-", "0")


@dataclass
class Table:
    """A table of text. The first column holds names and is left-aligned; the others are right-aligned.

    Control characters are shown escaped: a name can hold a line end, or steer a terminal.

    Attributes:
        title: The title above the table. With facts after it, it loses its middle if it is too wide for a line.
        header: One heading per column.
        rows: The rows, each with one cell per column.
        note: A sentence below the table; empty for none.
        highlighted: The index of this package's column, or None.
        rare: The headings of columns that are left out while no row has anything in them.
        joined: The indices of columns that say something only beside the one to their left.
        repeated: The headings of columns that each part of a table shows that is too wide for one, as it does the
            names: a name alone may not say which row it is.
        facts: Facts after the title. If they are too wide, lines end between facts, and none is broken.
    """

    title: str
    header: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    note: str = ""
    highlighted: int | None = None
    rare: Collection[str] = ()
    joined: Collection[int] = ()
    repeated: Collection[str] = ()
    facts: Sequence[str] = ()

    def without_nothing(self) -> Table:
        """Return the table without the rare columns that have nothing in them, and with all of it printable."""
        shown = replace(
            self,
            title=printable(self.title),
            rows=[[printable(cell) for cell in row] for row in self.rows],
            note=printable(self.note),
            facts=[printable(fact) for fact in self.facts],
        )
        return shown._with(  # noqa: SLF001 - of another object of this class.
            [
                index
                for index, heading in enumerate(self.header)
                if heading not in self.rare or any(row[index] not in NOTHING for row in self.rows)
            ]
        )

    def only(self, headings: Collection[str]) -> Table:
        return self._with([index for index, heading in enumerate(self.header) if heading in headings])

    def fitting(self, width: int) -> list[Table]:
        """Return the table in parts below each other. Each has the names and is at most this wide, if possible.

        Only the first part has the title, and only the last one the note. Long names are shortened first, so that
        those that differ still do.
        """
        whole = self.without_nothing()
        others = sum(it + GAP for it in whole._widths()[1:])  # noqa: SLF001 - of another object of this class.
        whole = whole._with_names_of(max(NAME_WIDTH, width - others))  # noqa: SLF001
        widths = whole._widths()  # noqa: SLF001
        again = [0, *(index for index, heading in enumerate(whole.header) if index and heading in self.repeated)]
        parts: list[list[int]] = [[]]
        for block in ([0], *whole._blocks()):  # noqa: SLF001
            needed = sum(widths[index] + GAP for index in (*parts[-1], *block)) - GAP
            if needed > width and not set(parts[-1]) <= set(again):
                parts.append([index for index in again if index < block[0]])
            parts[-1] += block
        found = [whole._with(columns) for columns in parts]  # noqa: SLF001
        for part in found[1:]:
            part.title, part.facts = "", ()
        for part in found[:-1]:
            part.note = ""
        return found

    def summary(self, width: int) -> rich.console.Group:
        """Return the title and the note alone, as rich draws them."""
        from rich.console import Group  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        shown = self.without_nothing()
        lines = [Text(line, style="bold") for line in shown._title_lines(width)]  # noqa: SLF001 - of another one.
        return Group(*lines, *([Text(shown.note, style="dim")] if shown.note else []))

    def rich(self, width: int) -> rich.console.Group:
        """Return the table as rich draws it on a console that is `width` characters wide."""
        drawn = self.summary(width)
        parts = [part._drawn() for part in self.fitting(width)]  # noqa: SLF001 - of other objects of this class.
        note = len(drawn.renderables) - bool(self.note)
        drawn.renderables[note:note] = parts
        return drawn

    def plain(self, width: int | None = None) -> str:
        """Return the table as lines of ASCII text, at most so wide if it can be. By default, a note is one line."""
        parts = [self.without_nothing()] if width is None else self.fitting(width)
        lines, note = parts[0]._title_lines(width), parts[-1].note  # noqa: SLF001 - of other objects of this class.
        for index, part in enumerate(parts):
            lines += ["", *part._lines()] if index else part._lines()  # noqa: SLF001
        notes = textwrap.wrap(note, len(note) + 1 if width is None else min(width, LINE_WIDTH))
        return "\n".join([*lines, *notes])

    def _with(self, columns: Sequence[int]) -> Table:
        places = {column: place for place, column in enumerate(columns)}
        return replace(
            self,
            header=[self.header[index] for index in columns],
            rows=[[row[index] for index in columns] for row in self.rows],
            highlighted=None if self.highlighted is None else places.get(self.highlighted),
            joined=[places[index] for index in self.joined if index in places],
        )

    def _title_lines(self, width: int | None) -> list[str]:
        """Return the title and the facts after it in lines that are at most `width` wide."""
        if not self.facts:
            return textwrap.wrap(self.title, width or len(self.title) + 1)
        lines = [self.title if width is None else without_middle(self.title, width)]
        for fact in self.facts:
            longer = lines[-1] + _BETWEEN_FACTS + fact
            if width is None or width_of(longer) <= width:
                lines[-1] = longer
            else:
                lines += textwrap.wrap(fact, width)
        return lines

    def _with_names_of(self, length: int) -> Table:
        names = shortened([row[0] for row in self.rows], length)
        return replace(self, rows=[[name, *row[1:]] for name, row in zip(names, self.rows, strict=True)])

    def _blocks(self) -> list[list[int]]:
        blocks: list[list[int]] = []
        for index in range(1, len(self.header)):
            if index in self.joined and blocks:
                blocks[-1].append(index)
            else:
                blocks.append([index])
        return blocks

    def _widths(self) -> list[int]:
        return [max(map(width_of, column)) for column in zip(self.header, *self.rows, strict=True)]

    def _lines(self) -> list[str]:
        widths = self._widths()
        lines = [self.header, ["-" * width for width in widths], *self.rows]
        return [
            (" " * GAP)
            .join(
                padded(cell, width, right=index > 0)
                for index, (cell, width) in enumerate(zip(line, widths, strict=True))
            )
            .rstrip()
            for line in lines
        ]

    def _drawn(self) -> RichTable:
        import rich.box  # noqa: PLC0415
        import rich.markup  # noqa: PLC0415
        import rich.table  # noqa: PLC0415

        # One space of padding and one for the divider between columns, and none at the sides: GAP.
        drawn = rich.table.Table(box=rich.box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        for index, heading in enumerate(self.header):
            drawn.add_column(
                rich.markup.escape(heading),
                justify="right" if index else "left",
                style="bold green" if index == self.highlighted else None,
                # If a name is wider than the terminal, the rest goes to the next line. A number has its width.
                no_wrap=index > 0,
                overflow="fold",
            )
        for row in self.rows:
            drawn.add_row(*map(rich.markup.escape, row))
        return drawn
