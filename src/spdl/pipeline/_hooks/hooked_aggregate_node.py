"""Aggregators with hooks: the event loop manages each call, and a worker makes it."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

from spdl.pipeline._engine.attempt import Attempt
from spdl.pipeline._nodes.aggregator_node import AggregateNode
from spdl.pipeline._world import perf_counter

from .hook_calls import cancelled_by, run_inside
from .worker_calls import WorkerCalls

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.pipeline._declare.aggregator import Aggregator
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._nodes.aggregator_node import Call

    from .hook_calls import Outcome
    from .task_hook import TaskHook

__all__ = ["HookedAggregateNode"]


class HookedAggregateNode(AggregateNode):
    """An aggregator whose calls are tasks on the event loop, one at a time."""

    __slots__ = ("hooks", "serving", "worker_calls")

    on_loop = True

    def __init__(
        self, engine: Engine, name: str, op: Aggregator[Any, Any], *, drop_last: bool, hooks: Sequence[TaskHook]
    ) -> None:
        super().__init__(engine, name, op, drop_last=drop_last)
        self.hooks = hooks
        self.worker_calls = WorkerCalls(engine, self)
        # True while the serving coroutine runs or is about to.
        self.serving = False

    def end_input(self) -> bool:
        finished = super().end_input()
        if not finished and self.engine.event_loop is not None:
            self.engine.event_loop.wake()
        return finished

    def let_go(self) -> list[Any]:
        hooks, self.hooks = self.hooks, ()
        return [*super().let_go(), hooks]

    def for_workers(self) -> WorkerCalls:
        return self.worker_calls

    def wants_server(self) -> bool:
        if self.serving or not self.ready():
            if self.queue or self.flush_due:
                self.want_room()
            return False
        self.serving = True
        return True

    async def serve(self) -> None:
        """Make calls as long as there are any."""
        engine = self.engine
        lock = engine.lock
        lock.acquire()
        while not engine.stopping and self.ready():
            call = self.next_call()
            if call is None:
                engine.concluded()
                if engine.drops:
                    engine.drop_deferred()
                continue
            engine.progressed()
            lock.release()
            if engine.stopping:
                return
            begin = perf_counter()
            made: list[Any] = []
            # Each call is waited for, so that no two run at once even if a hook cancels the wait.
            task = partial(self.worker_calls.call_to_the_end, call.function, call.hand[0], made)
            try:
                outcome = await run_inside(self.hooks, call.hand[0], task)
            finally:
                lock.acquire()
            if engine.is_over() and outcome.error is not None:
                lock.release()
                try:
                    raise outcome.error
                finally:
                    # Its traceback holds this frame, and the frame must not hold it.
                    del outcome
            self.counters.busy_seconds += perf_counter() - begin
            self._conclude(call, outcome._replace(value=made[0], done=True) if made else outcome)
            engine.drops.extend((call, task))
            del outcome, made, call, task
            engine.concluded()
            if engine.drops:
                engine.drop_deferred()
        self.serving = False
        lock.release()

    def _conclude(self, call: Call, outcome: Outcome) -> None:
        error = outcome.error
        if isinstance(error, asyncio.CancelledError):
            # A hook did this: the aggregator runs in a worker and cannot cancel the task.
            error = cancelled_by(self.hooks, error)
        elif outcome.blamed is None or not isinstance(error, Exception):
            self.conclude(call, outcome.value, error)
            return
        # A hook failed, not the aggregator, so the aggregator's result is still valid. An item that never reached the
        # aggregator is given up. A flush is not given up, since it stands for many items.
        engine = self.engine
        self.counters.failed += 1
        root = self.roots[-1] if self.roots else None
        engine.release_to_user()
        attempt = Attempt(engine.lineage.gather([]) if root is None else root, call.hand[0], None, 1)
        engine.report(self, attempt, error, self.counters.failed)
        engine.lock.acquire()
        engine.drops.append(outcome)
        if outcome.done:
            self.conclude(call, outcome.value, None)
        elif call.accumulates:
            self.slot_freed()
            engine.lineage.drop(self.roots.pop())
        else:
            self._make(call)
