"""Stages with hooks: the event loop manages each task, and workers or an executor run the op."""

from __future__ import annotations

import asyncio
import sys
from asyncio import CancelledError
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Future
from contextlib import AbstractAsyncContextManager
from functools import partial
from inspect import isasyncgenfunction, isgeneratorfunction
from types import AsyncGeneratorType, CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeAlias

from spdl._check import show
from spdl.pipeline._declare.op import called_function, is_async
from spdl.pipeline._declare.records import Aggregator
from spdl.pipeline._engine.cancellation import Abandoned, caught
from spdl.pipeline._engine.letting_go import drop_all
from spdl.pipeline._engine.lifetime import end_forked_child
from spdl.pipeline._engine.node import Attempt, Node
from spdl.pipeline._engine.workers import called_elsewhere
from spdl.pipeline._report.failures import note_once
from spdl.pipeline._report.threads import stack_of
from spdl.pipeline._stages.aggregate import AggregateNode, AggregatorCall
from spdl.pipeline._stages.executors import LocalCall, await_calls
from spdl.pipeline._stages.function import AsyncNode
from spdl.pipeline._state.origins import without_context
from spdl.pipeline._world import Lock, get_ident, perf_counter, thread_time

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from spdl.pipeline._declare.interfaces import TaskHook
    from spdl.pipeline._engine.engine import Engine

    # Calls a synchronous function in a thread that it may block: a worker's, or one of the user's executor.
    Caller: TypeAlias = Callable[[Callable[[Any], Any], Any], Awaitable[Any]]


class HookedOutcome(NamedTuple):
    """The result of a task, if it is ``done``, the exception that no hook swallowed, and the hook that raised that."""

    value: Any
    error: BaseException | None
    blamed: TaskHook | None
    done: bool


async def run_inside(
    engine: Engine, hooks: Sequence[TaskHook], item: Any, task: Callable[[], Awaitable[Any]]
) -> HookedOutcome:
    """Await a task inside its hooks. The first hook is outermost.

    This does not use an exit stack, because it must know which hook raised an exception or requested a cancellation. A
    cancellation takes effect at the next await, which may be in another hook or around another item.
    """
    entered: list[tuple[TaskHook, AbstractAsyncContextManager[None]]] = []
    error: BaseException | None = None
    blamed: TaskHook | None = None
    value = None
    done = swallowed = False

    async def enter(hook: TaskHook) -> None:
        context = hook.task_hook(without_context(item))
        if not hasattr(context, "__aenter__"):
            _refuse(hook, context)
        await context.__aenter__()
        entered.append((hook, context))

    async def work() -> None:
        nonlocal value, done
        value = await _in_its_process(engine, task)
        done = True

    async def leave(context: AbstractAsyncContextManager[None]) -> None:
        nonlocal swallowed
        kind, trace = (None, None) if error is None else (type(error), error.__traceback__)
        swallowed = bool(await context.__aexit__(kind, error, trace)) and error is not None

    for hook in hooks:
        error = await caught(partial(enter, hook))
        if error is not None:
            blamed = hook
            break
    else:
        error = await caught(work)
    while entered:
        hook, context = entered.pop()
        raised = await caught(partial(leave, context))
        if raised is None and swallowed:
            error = blamed = None
        elif raised is not None and raised is not error:
            error, blamed = raised, hook
        swallowed = False
    try:
        return HookedOutcome(value, error if error is None or blamed is None else _name(blamed, error), blamed, done)
    finally:
        # Its traceback holds this frame, and the frame must not hold it.
        error = raised = None


async def _in_its_process(engine: Engine, task: Callable[[], Awaitable[Any]]) -> Any:
    """Await a task. If it has forked this process, end that: no loop runs here to await what the hooks do next."""
    try:
        return await task()
    finally:
        if engine.forked:
            end_forked_child(engine, sys.exc_info()[1])


def _refuse(hook: TaskHook, returned: object) -> NoReturn:
    if isinstance(returned, CoroutineType):
        # Otherwise it would warn that it was never awaited.
        returned.close()
    name = f"{type(hook).__qualname__}.task_hook"
    raise TypeError(
        f"`{name}` must return an async context manager, got {show(returned)}. Decorate it with "
        "`contextlib.asynccontextmanager`."
    )


def cancelled_by(hooks: Sequence[TaskHook], error: asyncio.CancelledError) -> RuntimeError:
    """Return the failure of an item whose task was cancelled by one of these hooks."""
    names = " or ".join(repr(type(hook).__qualname__) for hook in hooks)
    failure = RuntimeError(f"The task hook {names} cancelled the task that it wraps.")
    failure.__cause__ = error
    return failure


def _name(hook: TaskHook, error: BaseException) -> BaseException:
    if isinstance(error, asyncio.CancelledError):
        return cancelled_by([hook], error)
    note_once(error, f"Raised by the task hook {type(hook).__qualname__!r}, not by the op.")
    return error


class _WorkerCall:
    __slots__ = ("abandoned", "argument", "ended", "error", "function", "future", "thread", "unwanted", "value")

    def __init__(self, function: Callable[[Any], Any], argument: Any, future: asyncio.Future[None]) -> None:
        self.function = function
        self.argument = argument
        self.future = future
        # The worker that makes the call, once it has begun.
        self.thread: int | None = None
        self.ended = False
        # Nobody waits for the call any more, and its worker was replaced.
        self.abandoned = False
        self.unwanted = False
        self.value: Any = None
        self.error: BaseException | None = None


class WorkerCalls(Node):
    """The workers' side of a stage whose tasks the event loop manages.

    It is not a stage of the graph, but workers find it among the ready stages. Finished calls are handed to the event
    loop together, so that the loop is woken once for several calls.
    """

    __slots__ = ("calls", "done", "posted", "stage")

    def __init__(self, engine: Engine, stage: Node) -> None:
        super().__init__(engine, stage.name, None, stage.concurrency)
        self.stage = stage
        self.calls: deque[_WorkerCall] = deque()
        self.done: list[_WorkerCall] = []
        # True while the event loop was woken and has not fetched the finished calls yet.
        self.posted = False

    def ready(self) -> bool:
        return bool(self.calls)

    def turn(self) -> None:
        engine = self.engine
        engine.remove_turns()
        call = self.calls.popleft()
        call.thread = get_ident()
        engine.release_to_user()
        if engine.stopping:
            # The task that waits for it is cancelled.
            engine.lock.acquire()
            engine.drops.append(call)
            return
        cpu, begin = thread_time(), perf_counter()
        try:
            call.value = call.function(call.argument)
        except BaseException as error:  # noqa: BLE001 - it is raised again in the task that waits for the result.
            call.error = error
        if engine.forked:
            end_forked_child(engine, call.error)
        seconds, cpu = perf_counter() - begin, thread_time() - cpu
        engine.lock.acquire()
        self.stage.counters.add_cpu(seconds, cpu)
        self.counters.add_worker_time(seconds)
        if call.unwanted:
            abandoned = call.abandoned
            engine.drops.extend((call.value, call))
            del call
            if abandoned:
                raise Abandoned
            return
        call.ended = True
        self.done.append(call)
        if not self.posted and engine.event_loop is not None:
            self.posted = True
            engine.event_loop.post(self._deliver)

    def _deliver(self) -> None:
        with self.engine.lock:
            self.posted = False
            done, self.done = self.done, []
        for call in done:
            if not call.future.done():
                call.future.set_result(None)

    def _post(self, function: Callable[[Any], Any], argument: Any) -> _WorkerCall:
        engine = self.engine
        call = _WorkerCall(function, argument, asyncio.get_running_loop().create_future())
        with engine.lock:
            self.calls.append(call)
            engine.add_turns()
            engine.progressed()
        return call

    async def call(self, function: Callable[[Any], Any], argument: Any) -> Any:
        """Call ``function(argument)`` in a worker, and return or raise what it does. Called on the event loop."""
        call = self._post(function, argument)
        try:
            await call.future
        except asyncio.CancelledError:
            self._abandon(call)
            raise
        return _outcome(call)

    async def call_to_the_end(self, function: Callable[[Any], Any], argument: Any, made: list[Any]) -> Any:
        """Call ``function(argument)`` in a worker, and wait for it even if the task is cancelled.

        The result is appended to ``made`` then, and the cancellation raised. A call that has not begun is withdrawn. If
        the pipeline stops, it does not wait either.
        """
        call = self._post(function, argument)
        cancellation: asyncio.CancelledError | None = None
        while not call.future.done():
            try:
                await asyncio.shield(call.future)
            except asyncio.CancelledError as error:
                if self._withdraw(call) or self.engine.is_over():
                    raise
                cancellation = error
        value = _outcome(call)
        if cancellation is None:
            return value
        made.append(value)
        try:
            raise cancellation
        finally:
            # The exception's frames hold the result.
            del cancellation

    def _withdraw(self, call: _WorkerCall) -> bool:
        """Withdraw a call if no worker has begun it. Return whether it was withdrawn."""
        engine = self.engine
        with engine.lock:
            if call not in self.calls:
                return False
            self.calls.remove(call)
            engine.remove_turns()
            return True

    def _abandon(self, call: _WorkerCall) -> None:
        """Abandon a call whose task was cancelled, because of a timeout or because the pipeline stops."""
        engine = self.engine
        if self._withdraw(call):
            return
        # Without the lock: looking at a frame may make this thread the last one that holds it.
        stack = stack_of(call.thread)
        with engine.lock:
            call.unwanted = True
            if not call.ended and not engine.is_over():
                call.abandoned = True
                engine.replace_worker(self.stage, None, stack)
        if call.ended:
            drop_all([call.value])


def _outcome(call: _WorkerCall) -> Any:
    if call.error is not None:
        try:
            raise call.error
        finally:
            # The exception's frames hold the call, and the call must not hold the exception.
            call.error = None
    return call.value


class ExecutorCalls:
    """Makes one call in the executor for each task of a stage with hooks."""

    def __init__(self, stage: AsyncNode, op: Callable[[Any], Any], executor: Executor) -> None:
        self.stage = stage
        self.engine = stage.engine
        self.op = op
        self.executor = executor
        # Calls that were submitted and have not ended.
        self.futures: set[Future[Any]] = set()

    def warm(self) -> None:
        """Prepare the executor. Called before the engine has threads."""

    async def call(self, function: Callable[[Any], Any], argument: Any) -> Any:
        return await self.submit(LocalCall(self.engine, function), argument)

    async def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Submit a call and wait for its result. If the executor is broken or closed, the pipeline fails."""
        try:
            future = self.executor.submit(function, *arguments)
        except BaseException as error:
            self._fail(error)
            raise
        self.futures.add(future)
        future.add_done_callback(self._ended)
        try:
            await asyncio.wrap_future(_end_of(future))
            return future.result()
        except BrokenExecutor as error:
            self._fail(error)
            raise
        except asyncio.CancelledError:
            future.cancel()
            future.add_done_callback(_drop_result)
            raise
        finally:
            # The exception's frames hold the future, and the future holds the exception.
            del future

    @called_elsewhere
    def _ended(self, future: Future[Any]) -> None:
        self.futures.discard(future)
        engine = self.engine
        # Before the end there are threads, and the last of them looks at what is still under way.
        if engine.is_over():
            with engine.lock:
                dropped = engine.letting_go.call_ends()
            drop_all(dropped)

    def _fail(self, error: BaseException) -> None:
        engine = self.engine
        with engine.lock:
            engine.fail(self.stage, None, error)

    def await_calls(self, seconds: float) -> int:
        """Withdraw calls that have not begun and wait for the others. Return how many still run after ``seconds``."""
        return await_calls(list(self.futures), seconds)


def _end_of(call: Future[Any]) -> Future[None]:
    """Return a future that ends with a call, and has no outcome.

    One of asyncio that gets a StopIteration never ends before Python 3.12.
    """
    end: Future[None] = Future()

    def note(_: Future[Any]) -> None:
        if end.set_running_or_notify_cancel():
            end.set_result(None)

    call.add_done_callback(note)
    return end


def _drop_result(future: Future[Any]) -> None:
    if not future.cancelled() and future.exception() is None:
        drop_all([future.result()])


class ProcessCalls(ExecutorCalls):
    """Makes calls in a process pool. Items are pickled one by one, and a generator's results come back all at once."""

    def warm(self) -> None:
        from spdl.pipeline._stages.executors import warm  # noqa: PLC0415 - it imports multiprocessing.

        warm(self.stage.name, self.op, self.executor)

    async def call(self, function: Callable[[Any], Any], argument: Any) -> Any:
        from spdl.pipeline._stages.process_work import Done, work, wrap  # noqa: PLC0415 - see `warm`.

        (outcome,), _, cpu, num_bytes = await self.submit(work, function, [wrap(argument)])
        self.stage.counters.add_foreign(cpu, num_bytes)
        if not isinstance(outcome, Done):
            raise outcome.unpack()
        value = outcome.unpack()
        return Whole(value) if outcome.several else value


class Whole:
    """A generator's results, which came back all at once. The call that made them was the generator's only task."""

    def __init__(self, values: Iterable[Any]) -> None:
        self._values = values

    async def each(self) -> AsyncGenerator[Any, None]:
        for value in self._values:
            yield value


class HookedOp:
    """A user's op inside its hooks, as what the event loop calls: one method for each kind of op."""

    def __init__(self, engine: Engine, op: Callable[[Any], Any], hooks: Sequence[TaskHook], call: Caller) -> None:
        self._engine = engine
        self._op = op
        self._hooks = hooks
        self._call = call

    async def function(self, item: Any) -> Any:
        """Call a function, and continue with the generator or coroutine that it may return."""

        async def run() -> Any:
            value = await self._call(self._op, item)
            # A lambda may return a coroutine, for example.
            if not isinstance(value, CoroutineType):
                return value
            try:
                self._check_wanted()
            except CancelledError:
                # As if there were no hooks: one that comes too late is closed.
                value.close()
                raise
            return await value

        value = await self._run(item, run)
        if isinstance(value, GeneratorType):
            return self._steps(value, item)
        if isinstance(value, AsyncGeneratorType):
            return self._async_steps(value, item)
        return value.each() if isinstance(value, Whole) else value

    async def coroutine(self, item: Any) -> Any:
        """Await a coroutine function."""

        async def run() -> Any:
            self._check_wanted()
            return await self._op(item)

        return await self._run(item, run)

    def generator(self, item: Any) -> AsyncGenerator[Any, None]:
        """Take each step of a generator."""
        return self._steps(self._op(item), item)

    def async_generator(self, item: Any) -> AsyncGenerator[Any, None]:
        """Take each step of an async generator."""
        return self._async_steps(self._op(item), item)

    def _check_wanted(self) -> None:
        # The pipeline may have been stopped while hooks were entered, and the stop's cancellation has yet to come.
        if self._engine.is_over():
            raise CancelledError

    async def _run(self, item: Any, task: Callable[[], Awaitable[Any]]) -> Any:
        outcome = await run_inside(self._engine, self._hooks, item, task)
        if outcome.error is not None:
            try:
                raise outcome.error
            finally:
                # The exception's frames hold the outcome, and the outcome must not hold the exception.
                del outcome
        return outcome.value

    def _steps(self, generator: Iterator[Any], item: Any) -> AsyncGenerator[Any, None]:
        steps = _Generator(generator)

        async def step() -> Any:
            result = await self._call(steps.step, None)
            if not result:
                raise StopAsyncIteration
            return result[0]

        return self._hooked_steps(step, steps.end, item)

    def _async_steps(self, generator: AsyncGenerator[Any, None], item: Any) -> AsyncGenerator[Any, None]:
        event_loop = self._engine.event_loop
        assert event_loop is not None

        async def step() -> Any:
            self._check_wanted()
            return await anext(generator)

        # A hook may have failed, and a stop come while the generator has something to save.
        return self._hooked_steps(step, partial(event_loop.close, generator), item)

    async def _hooked_steps(
        self, step: Callable[[], Awaitable[Any]], end: Callable[[], Awaitable[object]], item: Any
    ) -> AsyncGenerator[Any, None]:
        ended = False

        async def noted() -> Any:
            # Noted here, because a hook may swallow the exception.
            nonlocal ended
            try:
                return await step()
            except StopAsyncIteration:
                ended = True
                raise

        try:
            while not ended:
                outcome = await run_inside(self._engine, self._hooks, item, noted)
                try:
                    if outcome.error is not None and not (ended and outcome.blamed is None):
                        raise outcome.error
                    if not ended:
                        yield outcome.value
                finally:
                    # As above. The exception at the generator's end counts: Python 3.13 links its frames with this one.
                    del outcome
        finally:
            await end()


class _Generator:
    """A generator whose steps other threads take, one at a time, and which is closed when no step is wanted any more.

    A step may still be under way then. The thread that takes it closes the generator afterwards.
    """

    def __init__(self, generator: Iterator[Any]) -> None:
        self._generator = generator
        self._lock = Lock()
        self._under_way = self._unwanted = False

    def step(self, _: object) -> tuple[Any, ...]:
        """Return the next result in a tuple, or () at the end: a coroutine cannot raise StopIteration."""
        with self._lock:
            if self._unwanted:
                return ()
            self._under_way = True
        try:
            return (next(self._generator),)
        except StopIteration:
            return ()
        except StopAsyncIteration as error:
            # It would look like the end.
            raise RuntimeError("generator raised StopAsyncIteration") from error
        finally:
            with self._lock:
                self._under_way = False
                unwanted = self._unwanted
            if unwanted:
                self._close()

    async def end(self) -> None:
        """Take no further step, and close the generator."""
        with self._lock:
            self._unwanted = True
            under_way = self._under_way
        if not under_way:
            self._close()

    def _close(self) -> None:
        # Other iterators, such as a list's, have nothing to close.
        if isinstance(self._generator, GeneratorType):
            self._generator.close()


class HookedNode(AsyncNode):
    """An async stage whose op is the user's op, wrapped in its hooks."""

    __slots__ = ("disaggregates", "elsewhere", "worker_calls")

    # Its op runs hooks around the user's, which others may call.
    calls_op_itself = False

    def __init__(
        self,
        *args: Any,
        hooks: Sequence[TaskHook],
        executor: Executor | None = None,
        processes: bool = False,
        expand: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        # True if the op returns an iterable, each of whose steps is a task.
        self.disaggregates = expand
        # These run synchronous ops: workers, or the user's executor.
        self.worker_calls: WorkerCalls | None = None
        self.elsewhere: ExecutorCalls | None = None
        if executor is not None:
            self.elsewhere = (ProcessCalls if processes else ExecutorCalls)(self, self.op, executor)
        self.op = self._hooked(self.op, hooks)

    def _hooked(self, op: Callable[[Any], Any], hooks: Sequence[TaskHook]) -> Callable[[Any], Any]:
        function, calls = called_function(op), self.elsewhere or WorkerCalls(self.engine, self)
        hooked = HookedOp(self.engine, op, hooks, calls.call)
        if isasyncgenfunction(function):
            return hooked.async_generator
        if is_async(op):
            return hooked.coroutine
        if isinstance(calls, WorkerCalls):
            self.worker_calls = calls
        if self.disaggregates or (isgeneratorfunction(function) and not isinstance(calls, ProcessCalls)):
            return hooked.generator
        return hooked.function

    def set_concurrency(self, concurrency: int) -> None:
        super().set_concurrency(concurrency)
        if self.worker_calls is not None:
            self.worker_calls.set_concurrency(concurrency)

    def for_workers(self) -> Node | None:
        return self.worker_calls

    def warm(self) -> None:
        if self.elsewhere is not None:
            self.elsewhere.warm()

    def let_go(self) -> list[Any]:
        elsewhere, self.elsewhere = self.elsewhere, None
        return [*super().let_go(), elsewhere]

    def awaits_calls(self) -> bool:
        return self.elsewhere is not None and bool(self.elsewhere.futures)

    def await_calls(self, seconds: float) -> int:
        return 0 if self.elsewhere is None else self.elsewhere.await_calls(seconds)


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
                outcome = await run_inside(self.engine, self.hooks, call.hand[0], task)
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

    def _conclude(self, call: AggregatorCall, outcome: HookedOutcome) -> None:
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
            if self.kept is not None:
                engine.drops.append(self.kept.take_back())
            engine.lineage.drop(self.roots.pop())
        else:
            self._make(call)
