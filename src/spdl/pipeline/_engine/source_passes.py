"""The passes over a source of which items may be in flight."""

from __future__ import annotations

from typing import Any

__all__ = ["Pass", "Passes"]


class Pass:
    """One pass over a source.

    Attributes:
        epoch: Its number. A source that is not continuous has only number 0.
        begin: The position of its first item. Positions count on from pass to pass.
        end: The position behind its last item; None while it goes on.
        state: What the source's own ``state_dict()`` returned before the pass, if it has one.
        first: A mark of its first item, by which another order is recognised; None for items that have none.
    """

    __slots__ = ("begin", "end", "epoch", "first", "state")

    def __init__(self, epoch: int, begin: int, state: Any, first: str | None = None, end: int | None = None) -> None:
        self.epoch = epoch
        self.begin = begin
        self.end = end
        self.state = state
        self.first = first

    def finish(self, end: int) -> None:
        """Note where it ended."""
        self.end = end

    def note_first(self, item: object) -> None:
        """Note what its first item is."""
        self.first = mark_of(item)


class Passes:
    """The passes over one source, oldest first, that the consumer is not done with.

    Added to and finished by whoever has the source's token; a pass is forgotten when the next one begins. Anybody may
    look meanwhile, without a lock.
    """

    __slots__ = ("_known",)

    def __init__(self) -> None:
        # The passes, and the number of the next one. Both change in one step: a state may be taken at any time.
        self._known: tuple[list[Pass], int] = ([], 0)

    def known(self) -> tuple[list[Pass], int]:
        """Return the passes, oldest first, and the number of the next one."""
        return self._known

    def begin(self, position: int, state: Any, *, epochs_read: int, lowest_out: int) -> Pass:
        """Note that a pass begins.

        Args:
            position: That of its first item.
            state: What the source said of itself.
            epochs_read: How many epochs the consumer has seen the end of. One more is kept: a signal handler may come
                before the consumer has really seen it.
            lowest_out: The lowest position that is out.
        """
        passes, number = self._known
        begun = Pass(number, position, state)
        kept = [each for each in passes if each.epoch >= epochs_read - 1 or lowest_out < (each.end or 0)]
        self._known = ([*kept, begun], number + 1)
        return begun

    def restore(self, passes: list[Pass], following: int) -> None:
        """Begin with the passes of an earlier run."""
        self._known = (passes, following)

    def locate(self, position: int) -> tuple[int, int]:
        """Return the epoch of a position that is out, and where in that pass it is."""
        for each in reversed(self._known[0]):
            if position >= each.begin:
                return each.epoch, position - each.begin
        return 0, position


def mark_of(item: Any, depth: int = 0) -> str | None:
    """Return a short text that differs for most items; None for objects that have none of their own.

    Args:
        item: The item.
        depth: In how many sequences it lies. What lies deeper than some has none: a list may contain itself.
    """
    if type(item) in (tuple, list) and len(item) <= _MOST_PARTS and depth < _DEEPEST:
        marks = [mark_of(part, depth + 1) for part in item]
        return None if None in marks else _short(f"({','.join(map(str, marks))})")
    if type(item) is int and item.bit_length() > _LONGEST:
        # Python writes no longer ones in decimal digits, as the program has set it.
        return _short(hex(item))
    if item is None or type(item) in (int, bool, float, str, bytes):
        return _short(repr(item[:_LONGEST] if type(item) in (str, bytes) else item))
    return None


_MOST_PARTS = 8
_DEEPEST = 5
_LONGEST = 1_000


def _short(text: str) -> str:
    if len(text) <= _SHORT:
        return text
    from zlib import crc32  # noqa: PLC0415 - rarely needed.

    return f"{text[:_SHORT]}...{crc32(text.encode('utf-8', 'surrogatepass')):08x}"


_SHORT = 40
