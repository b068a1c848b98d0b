"""Numbers, times and texts as the commands print them."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence

_WIDE = ("W", "F")
_ABOVE_OTHERS = ("Mn", "Me")


def width_of(text: str) -> int:
    """Return how many columns a text takes."""
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
    """Return as much of the beginning of a text as fits into `width` columns."""
    taken = 0
    for index, character in enumerate(text):
        taken += _width_of(character)
        if taken > width:
            return text[:index]
    return text


def end(text: str, width: int) -> str:
    """Return as much of the end of a text as fits into `width` columns."""
    taken = 0
    for index in range(len(text), 0, -1):
        taken += _width_of(text[index - 1])
        if taken > width:
            return text[index:]
    return text


_CUT = "..."


def number(value: float) -> str:
    """Return a count or a rate with at least three digits and no more decimals than needed (1,234, 56.7, 0.123)."""
    if value == 0 or abs(value) >= 100:  # noqa: PLR2004
        return f"{value:,.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}" if abs(value) >= 1 else f"{value:.3f}"  # noqa: PLR2004


def share(value: float) -> str:
    """Return a part of a whole, 0 to 1, as a percentage."""
    return f"{value:.0%}"


def milliseconds(seconds: float) -> str:
    """Return a short time in milliseconds."""
    return f"{number(seconds * 1000)} ms"


def duration(seconds: float) -> str:
    """Return a short time in a suitable unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{number(seconds / size)} {unit}"
    return f"{number(seconds * 1e6)} us"


def mebibytes(num_bytes: float) -> str:
    """Return an amount of memory in MiB."""
    return f"{num_bytes / 2**20:,.0f} MiB"


def ratio(value: float) -> str:
    """Return how many times better something is, such as `2.00x`."""
    return f"{value:.2f}x"


def several(count: int, noun: str) -> str:
    """Return a count with its noun, in the plural unless the count is 1."""
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
    """Return the names that are shown as another one is."""
    count = Counter(shown.values())
    return [name for name, text in shown.items() if count[text] > 1]
