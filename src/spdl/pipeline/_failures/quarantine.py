"""The items that were given up: what they were, where they came from and why they failed."""

from __future__ import annotations

import reprlib
from collections import deque
from dataclasses import dataclass

from spdl.pipeline._engine.lineage import describe

from .failure import MESSAGE_CHARACTERS, TRACEBACK_CHARACTERS, shorten, traceback_of, type_and_message

__all__ = ["FailedItem", "Quarantine"]

# How many failed items are remembered. More would make a dataset's worth of errors a leak.
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


@dataclass(frozen=True, slots=True)
class FailedItem:
    """An item that a stage gave up. It holds text only: no item, no exception and no frame is kept alive.

    Attributes:
        stage: The stage's name.
        positions: The positions in their sources, counted from 0, of the item or of all that were merged into it.
        sources: For each position, the source it is in, counted from 0 in the order of declaration.
        origin: The positions in words, and the sources if the pipeline has several.
        item: What the op was called with, as `repr` shows it, shortened; the generator, if one failed that had begun.
        error: The exception's type and message.
        traceback: The formatted traceback, shortened.
        attempts: How many times the op was tried.

    Example:
        >>> from spdl.pipeline import PipelineBuilder
        >>> builder = PipelineBuilder().add_source([4, 0, 2]).pipe(lambda x: 8 // x, name="share").add_sink()
        >>> with builder.build(num_threads=1).auto_stop() as pipeline:
        ...     print(list(pipeline))
        [2, 4]
        >>> (failed,) = pipeline.failures()
        >>> failed.stage, failed.positions, failed.item, failed.attempts
        ('share', (1,), '0', 1)
        >>> failed.error
        'ZeroDivisionError: integer division or modulo by zero'
    """

    stage: str
    positions: tuple[int, ...]
    sources: tuple[int, ...]
    origin: str
    item: str
    error: str
    traceback: str
    attempts: int


class Quarantine:
    """The most recent failed items."""

    __slots__ = ("_items", "sources")

    def __init__(self) -> None:
        # How many the pipeline has.
        self.sources = 1
        self._items: deque[FailedItem] = deque(maxlen=_REMEMBERED)

    def add(
        self, stage: str, origins: list[tuple[int, int]], item: object, error: BaseException, attempts: int
    ) -> FailedItem:
        """Write an item down. Runs the user's ``__repr__``, so it must be called without the engine's lock."""
        failed = FailedItem(
            stage,
            tuple(position for _, position in origins),
            tuple(source for source, _ in origins),
            describe(origins, sources=self.sources),
            _show(item),
            shorten(type_and_message(error), MESSAGE_CHARACTERS),
            shorten(traceback_of(error), TRACEBACK_CHARACTERS),
            attempts,
        )
        self._items.append(failed)
        return failed

    def items(self) -> list[FailedItem]:
        """The failed items, oldest first."""
        while True:
            try:
                return list(self._items)
            except RuntimeError:  # Without a GIL another thread may add one meanwhile.
                continue
