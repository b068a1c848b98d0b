"""Test ops that raise, wherever they run.

In each case, within a few seconds the consumer gets every item except the one that the fault hit, each once, and then
the end, or a `PipelineFailure` that shows the fault. Afterwards no thread and no item is left.
"""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from tests.pipeline.kinds import KINDS, Item, Items, Kind, one_process_pool, text_log
from tests.pipeline.support import wait_until

from spdl.pipeline import Pipeline, PipelineFailure

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNT = 12
BAD = 5
# How many seconds anything may take on a busy machine.
DEADLINE = 20


class UnspeakableError(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")

    __repr__ = __str__


class UnspeakableInterrupt(BaseException):
    def __str__(self) -> str:
        raise ValueError("no words")

    __repr__ = __str__


class UnwritableError(Exception):
    """An exception to which no notes can be added."""

    __notes__: Any = 3


class UnwritableInterrupt(BaseException):
    def add_note(self, note: str, /) -> None:
        raise ValueError(note)


class UnreadableNotesError(Exception):
    @property
    def __notes__(self) -> list[str]:
        raise ValueError("no notes")

    @__notes__.setter
    def __notes__(self, notes: list[str]) -> None:
        raise ValueError("no notes")


class UnreadableCauseError(Exception):
    @property
    def __cause__(self) -> BaseException | None:
        raise ValueError("no cause")

    @__cause__.setter
    def __cause__(self, cause: BaseException | None) -> None:
        raise ValueError("no cause")


class InterruptingError(Exception):
    """An exception whose methods raise KeyboardInterrupt."""

    def __str__(self) -> str:
        raise KeyboardInterrupt

    def __reduce__(self) -> NoReturn:
        raise KeyboardInterrupt


class HugeError(Exception):
    """An exception whose message is as long as a file."""

    def __init__(self) -> None:
        super().__init__("x" * 10_000_000)


class UnpicklableError(Exception):
    def __init__(self) -> None:
        super().__init__(threading.Lock())


ERRORS: list[type[BaseException]] = [
    ValueError,
    StopIteration,
    StopAsyncIteration,
    GeneratorExit,
    KeyboardInterrupt,
    SystemExit,
    MemoryError,
    RecursionError,
    TimeoutError,
    EOFError,
    asyncio.CancelledError,
    UnspeakableError,
    UnspeakableInterrupt,
    UnwritableError,
    UnwritableInterrupt,
    UnreadableNotesError,
    UnreadableCauseError,
    InterruptingError,
    HugeError,
    UnpicklableError,
]


class Raises:
    """An op that raises at one item."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error

    def __call__(self, x: Item) -> Item:
        if x.number == BAD:
            raise self.error()
        return x


def is_item_failure(kind: Kind, error: type[BaseException]) -> bool:
    """Return whether the error fails only its item, and not the pipeline."""
    if kind.on_error == "fail":
        return False
    if error is asyncio.CancelledError and "async" in kind.name:
        return True
    return issubclass(error, Exception)


def read(pipeline: Pipeline[Any], got: list[int]) -> PipelineFailure | None:
    """Read to the end, or until the pipeline fails. Return the failure."""
    try:
        for item in pipeline.get_iterator(timeout=DEADLINE):
            got.append(item.number)
            del item
    except PipelineFailure as failure:
        return failure
    return None


def causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and all exceptions that it wraps."""
    yield error
    cause = None if isinstance(error, UnreadableCauseError) else error.__cause__
    for inner in (cause, *(error.exceptions if isinstance(error, BaseExceptionGroup) else ())):
        if inner is not None:
            yield from causes(inner)


def check_failure(failure: PipelineFailure, kind: Kind, error: type[BaseException]) -> None:
    found = list(causes(failure))
    assert any(isinstance(inner, error) for inner in found)
    if error not in (UnwritableError, UnreadableNotesError):
        notes = [note for inner in found for note in getattr(inner, "__notes__", ())]
        assert any(note.startswith("Pipeline stage: ") and kind.stage in note for note in notes)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_an_op_that_raises(kind: Kind) -> None:
    made = [Items(COUNT) for _ in ERRORS]
    with one_process_pool() if kind.name == "processes" else nullcontext():
        for error, items in zip(ERRORS, made, strict=True):
            try:
                check(kind, error, items)
            except BaseException as failure:
                failure.add_note(f"The op raised {error.__name__}.")
                raise
    assert wait_until(lambda: not any(items.alive() for items in made))


def check(kind: Kind, error: type[BaseException], items: Items) -> None:
    got: list[int] = []
    with text_log() as log, kind.pipeline(Raises(error), items) as pipeline:
        pipeline.start()
        failure = read(pipeline, got)
        assert max(Counter(got).values(), default=1) == 1
        hit = set() if kind.on_error == "bear" else {BAD}
        if is_item_failure(kind, error):
            assert failure is None
            assert set(got) == set(range(COUNT)) - hit
        else:
            assert failure is not None
            assert set(got) <= set(range(COUNT)) - hit
            if kind.stage == "src":
                assert set(got) == set(range(BAD))
            check_failure(failure, kind, error)
        pipeline.stop(timeout=DEADLINE)
        assert not [thread for thread in pipeline._engine.all_threads() if thread.is_alive()]
    assert len(log.getvalue()) < 200_000
