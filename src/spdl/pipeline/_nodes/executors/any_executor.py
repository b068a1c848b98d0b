"""Stages whose op runs in an executor of which nothing is known but its interface."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from spdl.pipeline._engine.attempt import Attempt
from spdl.pipeline._nodes.op_node import Parked
from spdl.pipeline._world import perf_counter

from .base import ExecutorNode
from .local_call import LocalCall

if TYPE_CHECKING:
    from collections.abc import Iterator
    from concurrent.futures import Future

    from spdl.pipeline._nodes.timeouts import Watch

__all__ = ["AnyExecutorNode"]


class _Outcome(NamedTuple):
    """A result that came back from the executor, and the work it belongs to."""

    work: Attempt | Parked
    future: Future[Any]
    seconds: float


def _step(iterator: Iterator[Any]) -> tuple[Any, ...]:
    """Take a generator's next result; an empty tuple is its end, since not every future can carry a StopIteration."""
    try:
        return (next(iterator),)
    except StopIteration:
        return ()


def _remains(outcome: _Outcome) -> list[Any]:
    """Return an unwanted outcome and the generator that it is about, which has to be closed."""
    work, future, _ = outcome
    if isinstance(work, Parked):
        return [work.iterator, outcome]
    if future.cancelled() or future.exception() is not None:
        return [outcome]
    return [future.result(), outcome]


class AnyExecutorNode(ExecutorNode):
    """Submits one call per item, and one per step of a generator."""

    __slots__ = ("returned",)

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        # Results that came back and were not looked at. Each holds its slot.
        self.returned: deque[_Outcome] = deque()

    def ready(self) -> bool:
        return bool(self.returned) or super().ready()

    def turn(self) -> None:
        if self.returned:
            self._receive()
        else:
            super().turn()

    def attempt(self, attempt: Attempt) -> None:
        self._submit(attempt, attempt, self.op, attempt.item)

    def advance(self, parked: Parked) -> None:
        # Its item is gone; what failed is shown by the generator's name.
        self._submit(parked, Attempt(parked.root, parked.iterator, parked.ticket, 1), _step, parked.iterator)

    def _submit(self, work: Attempt | Parked, shown: Attempt, function: Any, value: Any) -> None:
        watch = None if self.timeout is None else self.timeout.begin(shown)
        self.engine.release_to_user()
        call = LocalCall(self.engine, function)
        if not self.hand_over([work.root], partial(self._landed, work, watch, call, perf_counter()), call, value):
            self.slot_freed()
            if isinstance(work, Parked):
                self.engine.drops.append(work.iterator)
        # Others may have received the result by now, and be done with it.
        self.engine.drops.append(shown)

    def _landed(
        self, work: Attempt | Parked, watch: Watch | None, call: LocalCall, start: float, future: Future[Any]
    ) -> None:
        # If the call ran elsewhere, only the time of its submission is known.
        seconds = perf_counter() - start if call.seconds is None else call.seconds
        outcome = _Outcome(work, future, seconds)
        if watch is not None and self.timeout is not None and not self.timeout.end(watch):
            self.counters.did_not_succeed(seconds)
            self.engine.drops.extend(_remains(outcome))
            return
        if self.cancelled or self.engine.stopping or not self.check_alive(future):
            self.counters.did_not_succeed(seconds)
            self.slot_freed()
            self.engine.drops.extend(_remains(outcome))
        else:
            self.returned.append(outcome)
            self.engine.has_work(self)

    def _receive(self) -> None:
        engine = self.engine
        engine.remove_turns()
        outcome = self.returned.popleft()
        work, future, seconds = outcome
        engine.release_to_user()
        value, error = None, future.exception()
        if error is None:
            value = future.result()
        engine.lock.acquire()
        engine.drops.append(outcome)
        if error is None and not (self.is_lazy(value) if isinstance(work, Attempt) else not value):
            self.counters.succeeded(seconds)
        else:
            self.counters.did_not_succeed(seconds)
        if isinstance(work, Attempt):
            if error is None:
                self.finish(work, value)
            else:
                self.fail(work, error)
        elif error is not None:
            # Trying it again would repeat what it has passed on.
            self.give_up(Attempt(work.root, work.iterator, work.ticket, 1), error)
        elif value:
            self.park(work, value[0])
        else:
            self.generator_ended()
            self.end(work.root, work.ticket)

    def discard(self) -> list[Any]:
        dropped = [*super().discard(), *(part for outcome in self.returned for part in _remains(outcome))]
        self.engine.remove_turns(len(self.returned))
        self.running -= len(self.returned)
        self.returned.clear()
        return dropped
