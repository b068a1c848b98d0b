"""What a source is known by, so that a state is not loaded beside another."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any
from zlib import crc32

from .resumption import has_state
from .source_passes import mark_of

__all__ = ["SourceIdentity"]

# So many elements of a sequence are looked at, evenly spread.
_SAMPLED = 16

_SEQUENCES = (list, tuple, range, str, bytes)


class SourceIdentity:
    """The type of a source, and what else tells it from others: its length, and some items of built-in sequences.

    A source with a state of its own compares that itself.
    """

    __slots__ = ("_complete", "_known", "_source")

    def __init__(self, source: Any) -> None:
        self._known: dict[str, Any] = {"type": type(source).__qualname__}
        self._source = source
        self._complete = has_state(source)

    @property
    def type(self) -> str:
        """The name of its type."""
        return str(self._known["type"])

    def note(self) -> None:
        """Look at the source before it is let go, as far as that runs no code of the user's."""
        if type(self._source) in _SEQUENCES:
            self.complete()

    def complete(self) -> dict[str, Any]:
        """Return what is known. Asks the source for its length."""
        if not self._complete:
            self._complete = True
            self._look(self._source)
        return self._known

    def _look(self, source: Any) -> None:
        if isinstance(source, Sized):
            try:
                self._known["length"] = len(source)
            except Exception:  # noqa: BLE001 - one that wraps another may have none.
                return
        if type(source) in _SEQUENCES and source:
            step = max(1, len(source) // _SAMPLED)
            marks = "|".join(str(mark_of(source[index])) for index in range(0, len(source), step))
            self._known["sample"] = f"{crc32(marks.encode('utf-8', 'surrogatepass')):08x}"

    def let_go(self) -> Any:
        """Forget the source, and return it."""
        source, self._source = self._source, None
        self._complete = True
        return source
