"""How much room text takes on a terminal: characters of East Asian scripts take two columns, accents none."""

from __future__ import annotations

import unicodedata

__all__ = ["beginning", "end", "padded", "width_of"]

_WIDE = ("W", "F")
_ABOVE_OTHERS = ("Mn", "Me")


def width_of(text: str) -> int:
    """Return how many columns a text takes."""
    return len(text) if text.isascii() else sum(map(_width_of, text))


def _width_of(character: str) -> int:
    # Vowels of Thai and Hindi, too, which are no accents in the sense of `unicodedata.combining`.
    if unicodedata.category(character) in _ABOVE_OTHERS:
        return 0
    return 2 if unicodedata.east_asian_width(character) in _WIDE else 1


def padded(text: str, width: int, *, right: bool = False) -> str:
    """Return a text with spaces behind it, or in front of it if it stands on the right, that takes so many columns."""
    spaces = " " * (width - width_of(text))
    return spaces + text if right else text + spaces


def beginning(text: str, width: int) -> str:
    """Return as much of the beginning of a text as fits into so many columns."""
    taken = 0
    for index, character in enumerate(text):
        taken += _width_of(character)
        if taken > width:
            return text[:index]
    return text


def end(text: str, width: int) -> str:
    """Return as much of the end of a text as fits into so many columns."""
    taken = 0
    for index in range(len(text), 0, -1):
        taken += _width_of(text[index - 1])
        if taken > width:
            return text[index:]
    return text
