"""The items that were given up: what they were, where they came from and why they failed."""

from __future__ import annotations

import reprlib
from collections import deque

from spdl.pipeline._declare.failed_item import FailedItem

from .error_text import MESSAGE_CHARACTERS, TRACEBACK_CHARACTERS, shorten, traceback_of, type_and_message

__all__ = ["Quarantine"]

# So many failed items are remembered. With no bound, a dataset full of errors would be a leak.
_REMEMBERED = 100

_SHOWN_BYTES = 40


class _Repr(reprlib.Repr):
    """Shortens everything that may be as long as a file; a broken ``__repr__`` is replaced by the type's name."""

    def __init__(self) -> None:
        super().__init__()
        self.maxstring = self.maxother = 200
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = 8

    def repr_bytes(self, x: bytes, level: int) -> str:  # noqa: ARG002 - the base class's signature.
        return f"{x[:_SHOWN_BYTES]!r}... ({len(x)} bytes)" if len(x) > _SHOWN_BYTES else repr(x)

    repr_bytearray = repr_bytes


_REPR = _Repr()


def _show(item: object) -> str:
    try:
        return _REPR.repr(item)
    except BaseException:  # noqa: BLE001 - classes that only share a name with a built-in one are taken for it, for example.
        return f"<{type(item).__name__} object, whose repr fails>"


class Quarantine:
    """The most recent failed items."""

    __slots__ = ("_items",)

    def __init__(self) -> None:
        self._items: deque[FailedItem] = deque(maxlen=_REMEMBERED)

    def add(
        self,
        stage: str,
        origins: list[tuple[int, int]],
        origin: str,
        *,
        item: object,
        error: BaseException,
        attempts: int,
    ) -> FailedItem:
        """Write an item down. Runs the user's ``__repr__``, so it must be called without the engine's lock.

        Args:
            stage: The stage's name.
            origins: The sources that the item comes from, and the positions there.
            origin: The same in words.
            item: What the op was called with.
            error: What it raised.
            attempts: How many times it was tried.
        """
        failed = FailedItem(
            stage,
            tuple(position for _, position in origins),
            tuple(source for source, _ in origins),
            origin,
            _show(item),
            shorten(type_and_message(error), MESSAGE_CHARACTERS),
            shorten(traceback_of(error), TRACEBACK_CHARACTERS),
            attempts,
        )
        self._items.append(failed)
        return failed

    def adopt(self, failed: FailedItem) -> None:
        """Take over what was written down in another process."""
        self._items.append(failed)

    def items(self) -> list[FailedItem]:
        """The failed items, oldest first."""
        while True:
            try:
                return list(self._items)
            except RuntimeError:  # Without a GIL another thread may add one meanwhile.
                continue
