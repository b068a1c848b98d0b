"""Results of ops that the event loop runs: coroutines and async generators."""

from __future__ import annotations

from types import AsyncGeneratorType, CoroutineType
from typing import TYPE_CHECKING, Any, NamedTuple

from spdl.pipeline._engine.attempt import Attempt
from spdl.pipeline._engine.groups import Results
from spdl.pipeline._failures.cancellation import current_task, end_cancellation, not_cancelled, raise_cancellation
from spdl.pipeline._failures.error_text import log_error
from spdl.pipeline._world import perf_counter

from .timeouts import Watch

if TYPE_CHECKING:
    from asyncio import Task

    from spdl.pipeline._engine.event_loop import Awaited
    from spdl.pipeline._engine.order import Ticket

    from .op_node import OpNode

__all__ = ["run_awaited"]


class _Outcome(NamedTuple):
    """What a coroutine or an async generator returned or raised, and how long it took."""

    value: Any
    error: BaseException | None
    seconds: float


async def run_awaited(node: OpNode, attempt: Attempt, awaited: Awaited) -> None:
    """Await a coroutine, or exhaust an async generator, and pass on what comes of it. It holds a slot of ``node``."""
    engine = node.engine
    if engine.stopping:
        _leave(awaited)
        return
    if isinstance(awaited, AsyncGeneratorType):
        # Its item is the generator's to keep or to let go; what failed is shown by the generator's name.
        attempt = Attempt(engine.lineage.expand(attempt.root), awaited, attempt.ticket, attempt.number)
    task = current_task()
    watch = None if node.timeout is None else _watch(node, attempt, task)
    begin = perf_counter()
    error: BaseException | None = None
    value = None
    try:
        if isinstance(awaited, AsyncGeneratorType):
            await _exhaust(node, attempt, awaited, watch)
        else:
            if watch is not None and node.timeout is not None:
                with engine.lock:
                    node.timeout.resume(watch)
                if engine.stopping:
                    # The stop came while its time began.
                    _leave(awaited)
                    return
            value = await awaited
        if task.cancelling():
            await raise_cancellation(task)
    except BaseException as raised:
        if engine.is_over():
            raise
        if task.cancelling():
            await end_cancellation(task)
        error = raised
    # Waiting for the lock is no time of the op's.
    seconds = perf_counter() - begin
    try:
        with engine.lock:
            _conclude(node, attempt, awaited, watch, _Outcome(value, error, seconds))
    finally:
        # Its traceback holds this frame, and the frame must not hold it.
        error = None


def _leave(awaited: Awaited) -> None:
    """Do not begin what came too late."""
    if isinstance(awaited, CoroutineType):
        # Python would complain that it was never awaited.
        awaited.close()


def _conclude(node: OpNode, attempt: Attempt, awaited: Awaited, watch: Watch | None, outcome: _Outcome) -> None:
    """Deal with what a coroutine returned or raised, or with the end of an async generator. Called with the lock held.

    Args:
        node: The stage.
        attempt: The attempt, which has ended.
        awaited: The coroutine or async generator.
        watch: What watches its time.
        outcome: What came of it.
    """
    value, error, seconds = outcome
    engine = node.engine
    node.counters.ran_on_loop(seconds)
    if error is None and not isinstance(awaited, AsyncGeneratorType):
        node.counters.succeeded(seconds)
    else:
        # An async generator's results were its tasks.
        node.counters.did_not_succeed(seconds)
    if node.on_loop and node.queue and engine.event_loop is not None:
        # The server that took the item may have ended long ago, and nobody else knows of the slot.
        engine.event_loop.wake()
    if watch is not None and node.timeout is not None and not node.timeout.end(watch):
        # It was given up: what it returned or raised goes with the caller's frame, after the lock.
        pass
    elif error is not None and isinstance(awaited, AsyncGeneratorType):
        # It is not tried again, which would repeat what it has passed on.
        node.give_up(attempt, not_cancelled(error))
    elif error is not None:
        node.fail(attempt, not_cancelled(error))
    elif isinstance(awaited, AsyncGeneratorType):
        # Where the stage was given up it may have had more results.
        if not (node.cancelled or engine.stopping):
            node.generator_ended()
        node.end(attempt.root, attempt.ticket)
    else:
        node.finish(attempt, value)
    engine.concluded()
    if engine.drops:
        engine.drop_deferred()


def _watch(node: OpNode, attempt: Attempt, task: Task[Any]) -> Watch:
    event_loop = node.engine.event_loop
    assert event_loop is not None

    def cancel(watch: Watch) -> None:
        # Once the op has ended, the task may be at another item.
        event_loop.post(lambda: None if watch.ended else event_loop.cancel(task))

    return Watch(attempt, cancel=cancel)


async def _exhaust(node: OpNode, attempt: Attempt, results: AsyncGeneratorType[Any, Any], watch: Watch | None) -> None:
    ticket, root = attempt.ticket, attempt.root
    assert isinstance(root, Results)
    # It is asked for a result when that has a place to go, as other generators are.
    try:
        while await _has_place(node, ticket, watch) and not node.engine.stopping:
            begin = perf_counter()
            try:
                value = await anext(results)
            except StopAsyncIteration:
                return
            seconds = perf_counter() - begin
            with node.engine.lock:
                node.step_succeeded(seconds)
                if watch is not None and node.timeout is not None and not node.timeout.pause(watch):
                    break
                if node.cancelled or node.engine.stopping:
                    break
                node.pass_on(ticket, root, value)
                node.engine.progressed()
            del value
    finally:
        if results.ag_frame is not None:
            await _close(node, results)


async def _close(node: OpNode, generator: AsyncGeneratorType[Any, Any]) -> None:
    """Close an async generator that has more results, of which none is wanted. What it raises is logged."""
    event_loop = node.engine.event_loop
    assert event_loop is not None
    try:
        await event_loop.close(generator)
    except Exception as error:  # noqa: BLE001 - its item's fate is settled.
        log_error(error, "Stage %r: %s raised when it was closed", node.name, generator.__qualname__)


async def _has_place(node: OpNode, ticket: Ticket | None, watch: Watch | None) -> bool:
    """Wait until one more result has a place to go, and start to watch. Return False if none is wanted."""
    engine = node.engine
    assert engine.event_loop is not None
    # It makes nothing until it is asked on, so others may.
    with engine.lock:
        node.note_awaiting_room(1)
        if engine.budget is not None:
            engine.budget.freed()
            engine.progressed()
    waits = True
    try:
        while True:
            with engine.lock:
                if node.cancelled or engine.stopping:
                    return False
                if node.may_emit(ticket):
                    node.note_awaiting_room(-1)
                    waits = False
                    if watch is not None and node.timeout is not None:
                        node.timeout.resume(watch)
                    return True
                node.want_room()
                room = engine.event_loop.wait_for_room()
            await room
    finally:
        if waits:
            with engine.lock:
                node.note_awaiting_room(-1)
