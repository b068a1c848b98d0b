"""Numbers, times, names and tables as the commands print them."""

from __future__ import annotations

import textwrap
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

_WIDE = ("W", "F")
_ABOVE_OTHERS = ("Mn", "Me")


def width_of(text: str) -> int:
    return len(text) if text.isascii() else sum(map(_width_of, text))


def _width_of(character: str) -> int:
    # This includes vowels of Thai and Hindi, which are not accents in the sense of `unicodedata.combining`.
    if unicodedata.category(character) in _ABOVE_OTHERS:
        return 0
    return 2 if unicodedata.east_asian_width(character) in _WIDE else 1


def padded(text: str, width: int, *, right: bool = False) -> str:
    """Return a text with spaces after it, or before it if it stands on the right, that takes `width` columns."""
    spaces = " " * (width - width_of(text))
    return spaces + text if right else text + spaces


def beginning(text: str, width: int) -> str:
    taken = 0
    for index, character in enumerate(text):
        taken += _width_of(character)
        if taken > width:
            return text[:index]
    return text


def end(text: str, width: int) -> str:
    taken = 0
    for index in range(len(text), 0, -1):
        taken += _width_of(text[index - 1])
        if taken > width:
            return text[index:]
    return text


_CUT = "..."


def number(value: float) -> str:
    """Return a number with three digits or more (1,234, 56.7, 0.123)."""
    if value == 0 or abs(value) >= 100:  # noqa: PLR2004
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"  # noqa: PLR2004


def share(value: float) -> str:
    return f"{value:.0%}"


def milliseconds(seconds: float) -> str:
    return f"{number(seconds * 1000)} ms"


def duration(seconds: float) -> str:
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{number(seconds / size)} {unit}"
    return f"{number(seconds * 1e6)} us"


def mebibytes(num_bytes: float) -> str:
    return f"{num_bytes / 2**20:,.0f} MiB"


def ratio(value: float) -> str:
    return f"{value:.2f}x"


def several(count: int, noun: str) -> str:
    """Return a count with its noun, such as `2 threads`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}{'es' if noun.endswith('s') else 's'}"


def printable(text: str) -> str:
    """Return the text with control characters escaped. A file name can hold a line end, or steer a terminal."""
    return "".join(it if it.isprintable() else it.encode("unicode_escape").decode() for it in text)


def shortened(names: Sequence[str], length: int) -> list[str]:
    """Return the names in at most `length` columns of a terminal each, 10 at least. Different names stay different.

    They lose their ends. If the names of two would then be the same, these lose their middle, and if that
    is all that they differ by, they get numbers.
    """
    room = length - len(_CUT)
    ends = {name: name if width_of(name) <= length else beginning(name, room) + _CUT for name in names}
    middles = {name: without_middle(name, length) for name in _alike(ends)}
    found = ends | middles
    for number, name in enumerate(_alike(found), start=1):
        if width_of(name) > length:
            tail = f"{_CUT}{number}"
            found[name] = beginning(name, length - len(tail)) + tail
    return [found[name] for name in names]


def without_middle(text: str, width: int) -> str:
    """Return a text in at most `width` columns of a terminal, 5 at least. It loses its middle."""
    if width_of(text) <= width:
        return text
    rest = (width - len(_CUT)) // 2
    return beginning(text, width - len(_CUT) - rest) + _CUT + end(text, rest)


def _alike(shown: dict[str, str]) -> list[str]:
    count = Counter(shown.values())
    return [name for name, text in shown.items() if count[text] > 1]


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
        empty = [all(row[index] in NOTHING for row in self.rows) for index in range(len(self.header))]
        return shown.only(
            index for index, heading in enumerate(self.header) if heading not in self.rare or not empty[index]
        )

    def only(self, columns: Iterable[int]) -> Table:
        places = {column: place for place, column in enumerate(columns)}
        return replace(
            self,
            header=[self.header[index] for index in places],
            rows=[[row[index] for index in places] for row in self.rows],
            joined=[places[index] for index in self.joined if index in places],
        )

    def fitting(self, width: int) -> list[Table]:
        """Return the table in parts below each other. Each has the names and is at most this wide, if possible.

        Only the first part has the title, and only the last one the note. Long names are shortened first, so that
        those that differ still do.
        """
        whole = self.without_nothing()
        room = width - sum(it + GAP for it in _widths(whole)[1:])
        names = shortened([row[0] for row in whole.rows], max(NAME_WIDTH, room))
        whole.rows = [[name, *row[1:]] for name, row in zip(names, whole.rows, strict=True)]
        widths = _widths(whole)
        again = [index for index, heading in enumerate(whole.header) if not index or heading in self.repeated]
        parts: list[list[int]] = [[0]]
        for index in range(1, len(whole.header)):
            if index in whole.joined and index > 1:
                continue
            block = [index]
            while block[-1] + 1 in whole.joined:
                block.append(block[-1] + 1)
            needed = sum(widths[each] + GAP for each in (*parts[-1], *block)) - GAP
            if needed > width and not set(parts[-1]) <= set(again):
                parts.append([each for each in again if each < index])
            parts[-1] += block
        found = [whole.only(columns) for columns in parts]
        for part in found[1:]:
            part.title, part.facts = "", ()
        for part in found[:-1]:
            part.note = ""
        return found

    def plain(self, width: int | None = None) -> str:
        """Return the table as lines of text, at most this wide if possible. By default, a note is one line."""
        parts = [self.without_nothing()] if width is None else self.fitting(width)
        return "\n".join(
            [*_title(parts[0], width), *"\n\n".join(map(_lines, parts)).split("\n"), *_note(parts[-1], width)]
        )

    def summary(self, width: int) -> str:
        shown = self.without_nothing()
        return "\n".join([*_title(shown, width), *_note(shown, width)])


def _title(table: Table, width: int | None) -> list[str]:
    """Return the title and the facts after it in lines that are at most `width` wide."""
    if not table.facts:
        return textwrap.wrap(table.title, width or len(table.title) + 1)
    lines = [table.title if width is None else without_middle(table.title, width)]
    for fact in table.facts:
        longer = lines[-1] + _BETWEEN_FACTS + fact
        if width is None or width_of(longer) <= width:
            lines[-1] = longer
        else:
            lines += textwrap.wrap(fact, width)
    return lines


def _note(table: Table, width: int | None) -> list[str]:
    return textwrap.wrap(table.note, len(table.note) + 1 if width is None else min(width, LINE_WIDTH))


def _widths(table: Table) -> list[int]:
    return [max(map(width_of, column)) for column in zip(table.header, *table.rows, strict=True)]


def _lines(table: Table) -> str:
    widths = _widths(table)
    shown = []
    for line in [table.header, ["-" * width for width in widths], *table.rows]:
        cells = [
            padded(cell, width, right=index > 0) for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        shown.append((" " * GAP).join(cells).rstrip())
    return "\n".join(shown)
