"""The threads of an engine, as it knows them: workers, calls in executors, the event loop, and what is done later."""

from __future__ import annotations

import contextlib
import heapq
import itertools
from collections.abc import AsyncGenerator, Callable, Coroutine
from functools import wraps
from types import AsyncGeneratorType, CoroutineType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast

from spdl.pipeline._world import TIMEOUT_MAX, Condition, Lock, Thread, get_ident, monotonic

if TYPE_CHECKING:
    import asyncio

    from spdl.pipeline._engine.engine import Engine

    Action: TypeAlias = Callable[[], None]

Method = TypeVar("Method", bound="Callable[..., Any]")


def called_elsewhere(method: Method) -> Method:
    """Mark a method that an executor calls: during the call, the thread is one of the engine's (``self.engine``).

    An op or a finalizer that it calls and that stops the pipeline does not wait for this call. A finalizer that comes
    in the very first or last steps waits until its timeout.
    """

    @wraps(method)
    def call(self: Any, *args: Any) -> Any:
        inside, thread = self.engine.inside, get_ident()
        inside.append(thread)
        try:
            return method(self, *args)
        finally:
            inside.remove(thread)

    return cast("Method", call)


# Results of ops that the loop runs.
Awaited: TypeAlias = "CoroutineType[Any, Any, Any] | AsyncGeneratorType[Any, Any]"


class EventLoop(Protocol):
    """What the engine and the stages ask of `EventLoopThread`, which has the descriptions."""

    thread: Thread

    def start(self) -> None: ...
    def starts_workers(self) -> bool: ...
    def has_left(self) -> bool: ...
    def wake(self) -> None: ...
    def stop_or_wake(self) -> None: ...
    def adopt(self, awaited: Awaited, run: Callable[[], Coroutine[Any, Any, None]]) -> None: ...
    def wait_for_room(self) -> asyncio.Future[None]: ...
    def post(self, function: Callable[[], object]) -> None: ...
    async def close(self, generator: AsyncGenerator[Any, None]) -> None: ...
    def cancel(self, task: asyncio.Task[Any]) -> None: ...
    def awaits_others(self) -> bool: ...
    def suspended(self) -> list[asyncio.Task[None]]: ...
    def waits_for_source(self) -> bool: ...


class Timer:
    """One thread that runs actions at their time, started when the first is set. Guarded by the engine's lock.

    So an item that waits for its retry occupies no worker.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._heap: list[tuple[float, int, Action]] = []
        self._numbers = itertools.count()
        self._changed = Condition(engine.lock)
        self.thread = Thread(target=self._run, name=f"spdl_timer_thread_{engine.pipeline_id}", daemon=True)

    def after(self, seconds: float, action: Action) -> None:
        """Have ``action`` called with the engine's lock held.

        Nothing is called, and no thread started, once the pipeline has ended or was asked to stop.
        """
        if self._engine.is_over():
            self._engine.drops.append(action)
            return
        heapq.heappush(self._heap, (monotonic() + seconds, next(self._numbers), action))
        if self.thread.ident is None:
            self.thread.start()
            self._engine.letting_go.thread_begins()
        self._changed.notify()

    def end(self) -> None:
        """Make the thread look at whether it is still wanted."""
        self._changed.notify()

    def _run(self) -> None:
        engine = self._engine
        try:
            with engine.lock:
                while not engine.is_over():
                    self._take_turn()
                # The remaining actions are dropped without the lock.
                actions, self._heap = self._heap, []
            del actions
        except BaseException as error:  # noqa: BLE001 - such as of a log handler, or where no thread can be started.
            engine.crash(error)
            engine.lock.release()
        engine.lock.acquire()
        engine.letting_go.thread_ends()

    def _take_turn(self) -> None:
        now = monotonic()
        if not self._heap:
            self._changed.wait()
        elif self._heap[0][0] > now:
            self._changed.wait(min(TIMEOUT_MAX, self._heap[0][0] - now))
        else:
            action = heapq.heappop(self._heap)[2]
            action()
            # It may be the last to hold an item.
            self._engine.drops.append(action)
            del action
            self._engine.concluded()
            self._engine.drop_deferred()


class Workers:
    """The threads that serve the stages. Guarded by the engine's lock, except where a method says otherwise.

    Each worker has a gate, a lock that it waits at while it is idle. A thread that leaves ready work undone opens the
    gate of one idle worker, unless one is on its way already.

    Attributes:
        num_threads: How many synchronous ops may run at once.
        permits: How many more may run now; negative after the number of threads was lowered.
        idle: The gates of idle workers; the last one became idle last.
        waking: A gate was opened whose worker has not arrived yet.
        threads: All threads that were made here, and the sources' own threads, except for some that ended.
        abandoned: How many threads are still in ops whose items were given up.
    """

    __slots__ = (
        "_count",
        "_gates",
        "_name",
        "_numbers",
        "_serve",
        "abandoned",
        "idle",
        "num_threads",
        "permits",
        "threads",
        "waking",
    )

    def __init__(self, name: str, num_threads: int, serve: Callable[[], None]) -> None:
        self._name = name
        self._serve = serve
        self._numbers = itertools.count()
        # The number of workers started, except those that replace others; 0 before the start.
        self._count = 0
        self._gates: list[Lock] = []
        self.num_threads = self.permits = num_threads
        self.idle: list[Lock] = []
        self.waking = False
        self.threads: list[Thread] = []
        self.abandoned = 0

    # ---- threads ----

    def started(self) -> bool:
        return self._count > 0

    def add_up_to(self, wanted: int) -> list[Thread]:
        missing = max(0, wanted - self._count)
        self._count += missing
        return self.adopt([self._make() for _ in range(missing)])

    def adopt(self, threads: list[Thread]) -> list[Thread]:
        """Note threads that end with the engine, and return them."""
        # For each op that is abandoned one is made, and those that ended would be kept forever. A thread that was not
        # started has no identity yet.
        self.threads = [thread for thread in self.threads if thread.ident is None or thread.is_alive()] + threads
        return threads

    def _make(self) -> Thread:
        return Thread(target=self._serve, name=f"{self._name}_{next(self._numbers)}", daemon=True)

    def replace(self) -> None:
        self.abandoned += 1
        # Also for the last one: what is downstream of a failure still has work to do.
        self.permits += 1
        self.adopt([self._make()])[0].start()

    def abandoned_ended(self) -> None:
        self.abandoned -= 1

    def set_num_threads(self, num_threads: int) -> None:
        self.permits += num_threads - self.num_threads
        self.num_threads = num_threads

    def take_permit(self) -> None:
        self.permits -= 1

    def return_permit(self) -> None:
        self.permits += 1

    # ---- gates ----

    def enter(self) -> Lock:
        gate = Lock()
        gate.acquire()
        self._gates.append(gate)
        return gate

    def leave(self, gate: Lock) -> bool:
        """Note that a worker ends; return whether it was the last one."""
        self._gates.remove(gate)
        return not self._gates

    def any_awake(self) -> bool:
        return len(self.idle) < len(self._gates)

    def wake_one(self) -> None:
        # A request to stop may have taken or opened it in the meantime.
        with contextlib.suppress(IndexError, RuntimeError):
            self.idle.pop().release()
        # The worker takes the lock before it clears this. A Ctrl-C in between costs no more than a worker too many.
        self.waking = True

    def wake(self, gate: Lock) -> None:
        with contextlib.suppress(ValueError, RuntimeError):
            self.idle.remove(gate)
            gate.release()
        self.waking = True

    def arrived(self) -> None:
        self.waking = False

    def stay_awake(self, gate: Lock) -> None:
        """Take back that a worker is idle, since there is work after all."""
        try:
            self.idle.remove(gate)
        except ValueError:
            # Another thread has opened it in the meantime.
            gate.acquire()

    def wake_all(self) -> None:
        """Open all gates. Needs no lock: each step is atomic, and may run inside a critical section of anyone's."""
        self.idle.clear()
        # Also the gates of workers that are not idle: an exception raised by a signal handler may have come between
        # taking a gate from that list and opening it.
        for gate in list(self._gates):
            with contextlib.suppress(RuntimeError):
                gate.release()
