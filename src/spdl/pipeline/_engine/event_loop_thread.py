"""The event loop's thread: it serves async ops, async sources, context managers and background tasks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import Any

from spdl.pipeline._declare.interfaces import BackgroundTaskFactory
from spdl.pipeline._declare.op import name_of
from spdl.pipeline._engine.cancellation import await_end, caught, end_others, not_cancelled
from spdl.pipeline._engine.engine import Engine
from spdl.pipeline._engine.letting_go import drop_all
from spdl.pipeline._engine.lifetime import end_forked_child, start_workers
from spdl.pipeline._engine.node import Node
from spdl.pipeline._engine.source import Source
from spdl.pipeline._engine.source_kinds import AsyncSource
from spdl.pipeline._engine.workers import Awaited
from spdl.pipeline._report.failures import log_error, note_once
from spdl.pipeline._world import Thread, new_event_loop


class Lifespan:
    """Enters the context managers before the pipeline works, and leaves them once the stage has ended.

    Both run on the event loop. The pipeline does not end before they are left, so exceptions from there are reported.
    """

    def __init__(self, stage: Node | Source, contexts: Sequence[AbstractAsyncContextManager[None]]) -> None:
        self.stage = stage
        self._contexts = contexts
        self._entered: list[AbstractAsyncContextManager[None]] = []
        # The event loop leaves them now, and has left them. Guarded by the engine's lock.
        self.leaving = False
        self.ended = False

    async def enter(self) -> None:
        """Enter them in order. An exception from one fails the pipeline."""
        for context in self._contexts:
            error = await caught(partial(self._enter, context))
            if error is None:
                continue
            if isinstance(error, asyncio.CancelledError) and self.stage.engine.is_over():
                try:
                    raise error
                finally:
                    # As in `caught`.
                    del error
            self._fail(error)
            return

    async def _enter(self, context: AbstractAsyncContextManager[None]) -> None:
        await context.__aenter__()
        self._entered.append(context)

    def begins_to_end(self) -> bool:
        """Return True, once, if the context managers should be left now. Called with the lock held."""
        if self.leaving or not self.stage.is_finished():
            return False
        self.leaving = True
        return True

    async def leave(self) -> None:
        """Leave in reverse order those that were entered, however the stage ended."""
        engine = self.stage.engine
        while self._entered:
            error = await caught(partial(self._entered.pop().__aexit__, None, None, None))
            if error is not None:
                # The others are left anyway.
                self._fail(error)
        with engine.lock:
            self.ended = True
            engine.concluded()

    def _fail(self, error: BaseException) -> None:
        engine = self.stage.engine
        error = not_cancelled(error)
        note_once(error, "Raised by a context manager around the stage's lifespan.")
        with engine.lock:
            engine.fail(self.stage, None, error)


async def _run_task(factory: BackgroundTaskFactory) -> None:
    """Run a task and log its exceptions. Even a SystemExit is caught, since it would end the event loop."""
    try:
        task = factory()
    except BaseException as error:  # noqa: BLE001 - not even a SystemExit.
        log_error(error, "The background task %r could not be made, and the pipeline runs without it", name_of(factory))
        return
    try:
        await task.run()
    except (asyncio.CancelledError, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - not even a SystemExit.
        log_error(error, "The background task %r failed, and the pipeline continues without it", type(task).__name__)


class EventLoopThread:
    """One event loop in its own thread, started only when the graph needs it.

    It takes items for its stages itself, under the engine's lock, and is woken only when there may be something new
    for it: an item in an empty queue, room after it found none, or the end.
    """

    def __init__(
        self, engine: Engine, lifespans: Sequence[Lifespan], background: Sequence[BackgroundTaskFactory]
    ) -> None:
        self._engine = engine
        # The context managers around the stages' lifespans, and the tasks that run beside the stages.
        self._lifespans = lifespans
        # Also when the pipeline has already ended, and the context managers are gone.
        self._starts_workers = bool(lifespans)
        self._factories = background
        self._loop = new_event_loop()
        self._end = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        # The tasks that close a generator: they are not to be interrupted.
        self._closing: set[asyncio.Task[Any]] = set()
        # The tasks that serve a source.
        self._pulls: dict[asyncio.Task[None], AsyncSource] = {}
        # The background tasks that were started.
        self._background: list[asyncio.Task[None]] = []
        # Tasks that wait for room; each looks for itself when woken.
        self._waiters: list[asyncio.Future[None]] = []
        self._woken = False
        # Results of ops that the loop has not seen yet.
        self._arrivals: list[tuple[Awaited, Callable[[], Coroutine[Any, Any, None]]]] = []
        self._ended = False
        # The stages' tasks have ended, and others are waited for.
        self._ending_others = False
        # Tasks that leave the context managers around stages. They are awaited, and not cancelled.
        self._leaving: list[asyncio.Task[None]] = []
        self.thread = Thread(target=self._run, name=f"spdl_event_loop_thread_{engine.pipeline_id}", daemon=True)

    def start(self) -> None:
        self.thread.start()

    def starts_workers(self) -> bool:
        """Return whether there are context managers to enter first; then the loop starts the workers itself."""
        return self._starts_workers

    def has_left(self) -> bool:
        """Return whether all context managers around stages are left. Called with the engine's lock held."""
        return all(lifespan.ended for lifespan in self._lifespans)

    def wake(self) -> None:
        """Make the loop look at its queues. Called with the engine's lock held."""
        if not self._woken:
            # In this order, which a Ctrl-C may come between. The loop looks under the lock, so not before both.
            self.post(self._look)
            self._woken = True

    def stop_or_wake(self) -> None:
        """Make the loop see that the engine is done or stopping. Needs no lock."""
        self.post(self._end.set)

    def adopt(self, awaited: Awaited, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run what an op returned, in a coroutine that ``run`` makes. Called with the engine's lock held."""
        if self._ended:
            self._engine.drops.append(awaited)
            return
        self._arrivals.append((awaited, run))
        self.wake()

    def wait_for_room(self) -> asyncio.Future[None]:
        """Return a future that ends when room may have appeared. Called on the loop's thread with the lock held."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._waiters.append(future)
        return future

    def post(self, function: Callable[[], object]) -> None:
        """Make the loop call a function. Needs no lock."""
        # A closed loop has nothing to learn.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(function)

    async def close(self, generator: AsyncGenerator[Any, None]) -> None:
        """Close an async generator in the current task, which is not interrupted in the meantime."""
        task = asyncio.current_task()
        assert task is not None
        # One within hooks is closed by another one, which may be in the middle of being closed.
        outermost = task not in self._closing
        self._closing.add(task)
        try:
            await generator.aclose()
        finally:
            if outermost:
                self._closing.discard(task)

    def cancel(self, task: asyncio.Task[Any]) -> None:
        """Interrupt a task, unless it is closing a generator. Called on the loop's thread."""
        if task not in self._closing:
            task.cancel()

    def awaits_others(self) -> bool:
        """Return whether nothing but tasks that belong to no stage keep the thread from ending. Needs no lock."""
        return self._ending_others and asyncio.current_task(self._loop) is None

    def suspended(self) -> list[asyncio.Task[None]]:
        """Return the tasks that do not end, though the thread is free to run them. Needs no lock."""
        return list(self._tasks) if asyncio.current_task(self._loop) is None else []

    def waits_for_source(self) -> bool:
        """Return whether nothing but a source keeps the thread from ending. Needs no lock."""
        current = asyncio.current_task(self._loop)
        # One that blocks keeps all others from being cancelled.
        remaining = list(self._tasks) if current is None else [current]
        pulled = [self._pulls.get(task) for task in remaining]
        return bool(pulled) and all(source is not None and source.pulling for source in pulled)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(self._until_over(work))
        self._tasks.add(task)
        task.add_done_callback(self._task_ended)
        return task

    async def _until_over(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except BaseException as error:
            if self._engine.forked:
                end_forked_child(self._engine, error)
            # Nobody asks what an op raised after the end. The task would keep it, and its frames the task: a cycle that
            # holds what the user made.
            if not isinstance(error, Exception) or not self._engine.is_over():
                raise
        if self._engine.forked:
            # Before the task ends, which asyncio complains of in a forked child: its loop does not run there.
            end_forked_child(self._engine)

    def _task_ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        try:
            error = task.exception()
        except asyncio.CancelledError:
            # Asked for it, a task keeps it no longer.
            return
        try:
            if error is not None:
                self._crash(error)
        finally:
            error = None

    def _crash(self, error: BaseException) -> None:
        if self._engine.forked:
            end_forked_child(self._engine, error)
        # Once the pipeline ends, it does not matter what an op makes of its cancellation.
        if not self._engine.is_over():
            self._engine.crash(error)
        # Between two tasks the thread holds it only if one died with it.
        while self._engine.holds_lock():
            self._engine.lock.release()

    def _look(self) -> None:
        engine = self._engine
        with engine.lock:
            self._woken = False
            # The end is there, although `_main` may not have seen it yet.
            if engine.stopping or self._end.is_set():
                return
            arrivals, self._arrivals = self._arrivals, []
            for source in engine.sources:
                # Its own thread is not among those that look again now.
                if source.on_loop and source.wants_room:
                    source.stop_wanting_room()
            self._serve()
        for _, run in arrivals:
            # Nothing cancels the task before its first step, which would leave the coroutine neither run nor closed:
            # between the end and the cancellations, the loop has a turn in which nothing starts any more.
            self._spawn(run())
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _serve(self) -> None:
        for node in reversed(self._engine.nodes):
            if node.wants_room:
                node.stop_wanting_room()
            if node.on_loop:
                while node.wants_server():
                    self._spawn(node.serve())
        for lifespan in self._lifespans:
            if lifespan.begins_to_end():
                self._leaving.append(self._loop.create_task(lifespan.leave()))

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        main = self._loop.create_task(self._main())
        while not main.done():
            # The interrupts among the exceptions leave the loop through here, whichever task raises them. Ops' own are
            # caught, but ops may start tasks.
            try:
                self._loop.run_until_complete(main)
            except BaseException as error:  # noqa: BLE001 - the consumer must get an error instead of waiting forever.
                self._crash(error)
        self._loop.close()
        # They hold the user's hooks and queues.
        self._lifespans = self._factories = ()
        self._leaving.clear()
        self._background.clear()
        del main
        self._engine.lock.acquire()
        self._engine.letting_go.thread_ends()

    async def _main(self) -> None:
        engine = self._engine
        if self._lifespans and not engine.stopping and await self._enter_lifespans():
            start_workers(engine)
        for source in engine.sources:
            if isinstance(source, AsyncSource):
                self._pulls[self._spawn(source.serve(self))] = source
        # Also if a short pipeline has ended by itself, and was stopped afterwards.
        if self._factories and (engine.done or not engine.stopping):
            self._background = [asyncio.create_task(_run_task(each), name=name_of(each)) for each in self._factories]
            # Each runs to its first wait, so that even in a short pipeline it has begun.
            await asyncio.sleep(0)
        with engine.lock:
            self.wake()
        await self._end.wait()
        # It may have been there from the beginning. Tasks that were started before take their first step now.
        await asyncio.sleep(0)
        with engine.lock:
            self._ended = True
            arrivals, self._arrivals = self._arrivals, []
        drop_all([awaited for awaited, _ in arrivals])
        for task in self._background:
            task.cancel()
        for task in list(self._tasks):
            self.cancel(task)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        remaining = [lifespan for lifespan in self._lifespans if not lifespan.leaving]
        self._leaving += [self._loop.create_task(lifespan.leave()) for lifespan in remaining]
        await asyncio.gather(*self._leaving)
        self._ending_others = True
        if self._background:
            await await_end(self._background)
        await end_others()
        self._ending_others = False
        await self._loop.shutdown_asyncgens()

    async def _enter_lifespans(self) -> bool:
        """Enter the context managers around the stages' lifespans. Return whether the pipeline is still wanted."""
        entering: asyncio.Future[list[None]] = asyncio.gather(*(lifespan.enter() for lifespan in self._lifespans))
        ended = self._loop.create_task(self._end.wait())
        either: list[asyncio.Future[Any]] = [entering, ended]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if not entering.done():
            entering.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await entering
            return False
        return not self._engine.stopping
