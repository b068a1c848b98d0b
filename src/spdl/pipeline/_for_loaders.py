"""The part of a pipeline that loaders and actors need, and users do not."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from math import inf
from typing import Any, NamedTuple, TypeAlias, TypeVar

from spdl.pipeline._engine.channel import EPOCH_END
from spdl.pipeline._engine.checkpoint import uneven_stage
from spdl.pipeline._iterators import PipelineIterator, hand_over, took
from spdl.pipeline._pipeline import Pipeline
from spdl.pipeline._report.page import LoaderArguments
from spdl.pipeline._state.origins import Group, Result, Root, result_path
from spdl.pipeline._world import Lock

T = TypeVar("T")


def begin_at(pipeline: Pipeline[Any], epoch: int, *, resumed: bool) -> None:
    """Number the epochs from another number on. Called before the start.

    ``resumed`` says that items of that epoch were received in an earlier run.
    """
    pipeline._engine.number_epochs(epoch, resumed=resumed)  # noqa: SLF001 - as all here, on behalf of the pipeline.


def take(items: PipelineIterator[T]) -> tuple[Any, T]:
    """Return the next item with its root, or raise as ``next``. It counts as received when that is acknowledged."""
    return items._take()  # noqa: SLF001


def acknowledge(pipeline: Pipeline[Any], root: Any) -> tuple[dict[object, Any], object]:
    """Acknowledge an item that `take` has returned. It counts as received once the note is deleted: see `hand_over`."""
    return hand_over(pipeline._engine, root)  # noqa: SLF001


def fingerprint_of(pipeline: Pipeline[Any]) -> dict[str, Any]:
    return pipeline._fingerprint()  # noqa: SLF001


def changes_counts(pipeline: Pipeline[Any]) -> str | None:
    """Return the name of a stage that may change how many items there are. Called before the start."""
    return pipeline._changes_counts()  # noqa: SLF001


def has_changed_counts(pipeline: Pipeline[Any]) -> str | None:
    """Return the name of a stage that is seen to have changed how many items there are."""
    return uneven_stage(pipeline._engine)  # noqa: SLF001


def is_parents(pipeline: Pipeline[Any]) -> bool:
    """Return whether the pipeline runs in the process that this one was forked from: here is a copy of no use."""
    return pipeline._engine.forked  # noqa: SLF001


def tell_arguments(pipeline: Pipeline[Any], arguments: LoaderArguments) -> None:
    """Note what a loader's arguments decide: verdicts are given in terms of these. Called before the start."""
    pipeline._engine.is_run_by(arguments)  # noqa: SLF001


# A result of an item's op: the item's position, and then its number among the results; a result of that result has one
# number more, and so on.
Part: TypeAlias = tuple[int, ...]


class NamedResult(NamedTuple):
    """A result that was read, with the results that it was made of (none if of items), or the end of a pass.

    ``gone`` are the positions that were finished since the previous read: no result of them is under way.
    """

    value: Any
    parts: list[Part]
    gone: list[int]
    ends_pass: bool = False


class NamedResults:
    """The results of a pipeline that was not started. Only one thread may read them.

    ``hurried`` tells the pipeline's threads whether to wake that thread when an item is gone without a result.
    """

    def __init__(self, pipeline: Pipeline[Any], hurried: Callable[[], bool]) -> None:
        self._hurried = hurried
        self._pipeline = pipeline
        self._engine = pipeline._engine  # noqa: SLF001 - the two classes belong together.
        # Filled by the pipeline's threads.
        self._gone: deque[int] = deque()
        self._engine.lineage.watch(self._note_gone)
        self._restored = self._engine.lineage.begin_to_learn()
        self._gate = Lock()
        # All items of a pass may fail here while others succeed elsewhere.
        self._engine.epochs.resume(1 << 60)

    def _note_gone(self, position: int) -> None:
        self._restored.forget(position)
        self._gone.append(position)
        if self._hurried():
            self.wake()

    def learn(self, position: int, parts: Iterable[Part]) -> None:
        """Note which results of an item were consumed elsewhere, each once. Called before the item is handed out."""
        self._restored.learn(position, parts)

    def read(self, give_up: Callable[[], bool], deadline: float = inf) -> NamedResult | None:
        """Return the next result, or the end of a pass; None if it was given up, or the pipeline has stopped.

        The code that changes what `give_up` returns calls `wake`. The deadline is one of `time.monotonic`.
        """
        entries = self._engine.sink.entries
        while True:
            try:
                root, value = entries.popleft()
            except IndexError:
                self._gate = gate = Lock()
                gate.acquire()
                # Looked at when the gate is there for others to open.
                if give_up():
                    return None
                try:
                    self._pipeline._wait(deadline, gate)  # noqa: SLF001
                except (EOFError, TimeoutError):
                    return None
                entries = self._engine.sink.entries
                continue
            took(self._engine, root)
            if root is EPOCH_END:
                return NamedResult(None, [], self.take_gone(), ends_pass=True)
            # Nearly always an item is a position.
            parts = list(dict.fromkeys(_parts(root))) if isinstance(root, Group) else []
            return NamedResult(value, parts, self.take_gone())

    def wake(self) -> None:
        """Make the thread that reads ask whether to wait no longer. Takes no lock."""
        try:
            self._gate.release()
        except RuntimeError:  # No thread waits.
            return

    def num_gone(self) -> int:
        return len(self._gone)

    def take_gone(self) -> list[int]:
        gone = []
        while self._gone:
            gone.append(self._gone.popleft())
        return gone


def _parts(root: Root) -> Iterator[Part]:
    """Yield the names of all results of items that went into one that is not a single item."""
    pending: list[Root] = [root]
    while pending:
        each = pending.pop()
        if not isinstance(each, Group):
            continue
        if isinstance(each, Result):
            of = result_path(each.results.parents[0])
            if of is not None:
                yield (*of, each.number)
            continue
        pending += each.parents
