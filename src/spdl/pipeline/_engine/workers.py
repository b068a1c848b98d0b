"""The threads of an engine, as it knows them: workers, calls in executors, the event loop, and what is done later."""

from __future__ import annotations

import contextlib
import heapq
import itertools
from collections.abc import AsyncGenerator, Callable, Coroutine
from functools import wraps
from types import AsyncGeneratorType, CoroutineType
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, cast

from spdl.pipeline._world import TIMEOUT_MAX, Condition, Lock, RLock, Thread, get_ident, monotonic

if TYPE_CHECKING:
    import asyncio

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
    """The thread that serves async ops and sources, and whatever coroutine an op returns; `EventLoopThread` is one.

    Attributes:
        closing: The tasks that close a generator, which is not to be interrupted.
    """

    thread: Thread
    closing: set[asyncio.Task[Any]]

    def start(self) -> None:
        """Start the thread."""

    def starts_workers(self) -> bool:
        """Return whether the loop has something to do before the workers may start, and starts them then."""

    def has_left(self) -> bool:
        """Return whether nothing is left that the pipeline must wait for. Called with the engine's lock held."""

    def wake(self) -> None:
        """Make the loop look at its queues. Called with the engine's lock held."""

    def stop_or_wake(self) -> None:
        """Make the loop see that the engine is done or stopping. Needs no lock."""

    def adopt(self, awaited: Awaited, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run what an op returned, in a coroutine that ``run`` makes. Called with the engine's lock held."""

    def wait_for_room(self) -> asyncio.Future[None]:
        """Return a future that ends when room may have appeared. Called on the loop's thread with the lock held."""

    def post(self, function: Callable[[], object]) -> None:
        """Make the loop call a function. Needs no lock."""

    async def close(self, generator: AsyncGenerator[Any, None]) -> None:
        """Close an async generator in the current task, which is not interrupted in the meantime."""

    def cancel(self, task: asyncio.Task[Any]) -> None:
        """Interrupt a task, unless it is closing a generator. Called on the loop's thread."""

    def awaits_others(self) -> bool:
        """Return whether nothing but tasks that belong to no stage keep the thread from ending. Needs no lock."""

    def suspended(self) -> list[asyncio.Task[None]]:
        """Return the tasks that do not end, though the thread is free to run them. Needs no lock."""

    def waits_for_source(self) -> bool:
        """Return whether nothing but a source keeps the thread from ending. Needs no lock."""


class Timer:
    """One thread that runs actions at their time, started when the first is set.

    So an item that waits for its retry occupies no worker.

    Args:
        lock: The engine's lock, which is held when actions are called.
        drops: Where to leave actions that were called: they may be the last to hold an item.
        is_over: Returns whether the thread is no longer wanted.
        acted: Called with the lock held after each action.
        crashed: Called with what an action raised; returns with the lock held.
        entered: Called with the lock held when the thread is started.
        left: Called with the lock held when the thread ends, and releases it.
    """

    def __init__(
        self,
        lock: RLock,
        name: str,
        *,
        drops: list[Any],
        is_over: Callable[[], bool],
        acted: Callable[[], None],
        crashed: Callable[[BaseException], None],
        entered: Callable[[], None],
        left: Callable[[], None],
    ) -> None:
        self._lock = lock
        self._drops = drops
        self._is_over = is_over
        self._acted = acted
        self._crashed = crashed
        self._entered = entered
        self._left = left
        self._heap: list[tuple[float, int, Action]] = []
        self._numbers = itertools.count()
        self._changed = Condition(lock)
        self.thread = Thread(target=self._run, name=name, daemon=True)

    def after(self, seconds: float, action: Action) -> None:
        """Have ``action`` called with the engine's lock held. Called with the lock held.

        Nothing is called, and no thread started, once the pipeline has ended or was asked to stop.
        """
        if self._is_over():
            self._drops.append(action)
            return
        heapq.heappush(self._heap, (monotonic() + seconds, next(self._numbers), action))
        if self.thread.ident is None:
            self.thread.start()
            self._entered()
        self._changed.notify()

    def end(self) -> None:
        """Make the thread look at whether it is still wanted. Called with the lock held."""
        self._changed.notify()

    def _run(self) -> None:
        try:
            with self._lock:
                while not self._is_over():
                    self._take_turn()
                # The remaining actions are dropped without the lock.
                actions, self._heap = self._heap, []
            del actions
        except BaseException as error:  # noqa: BLE001 - such as of a log handler, or where no thread can be started.
            self._crashed(error)
            self._lock.release()
        self._lock.acquire()
        self._left()

    def _take_turn(self) -> None:
        now = monotonic()
        if not self._heap:
            self._changed.wait()
        elif self._heap[0][0] > now:
            self._changed.wait(min(TIMEOUT_MAX, self._heap[0][0] - now))
        else:
            action = heapq.heappop(self._heap)[2]
            action()
            self._drops.append(action)
            del action
            self._acted()


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
        """Make as many workers as are missing, and return their threads, which the caller starts."""
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
        """Leave a worker to an op that takes too long, and start another."""
        self.abandoned += 1
        # Also for the last one: what is downstream of a failure still has work to do.
        self.permits += 1
        self.adopt([self._make()])[0].start()

    def abandoned_ended(self) -> None:
        """Note that an abandoned op has returned, and its thread ends."""
        self.abandoned -= 1

    def set_num_threads(self, num_threads: int) -> None:
        """Let more ops run at once, or fewer as soon as some have ended."""
        self.permits += num_threads - self.num_threads
        self.num_threads = num_threads

    def take_permit(self) -> None:
        """Note that a worker begins to run ops."""
        self.permits -= 1

    def return_permit(self) -> None:
        self.permits += 1

    # ---- gates ----

    def enter(self) -> Lock:
        """Return the gate of a worker that begins."""
        gate = Lock()
        gate.acquire()
        self._gates.append(gate)
        return gate

    def leave(self, gate: Lock) -> bool:
        """Note that a worker ends; return whether it was the last one."""
        self._gates.remove(gate)
        return not self._gates

    def any_awake(self) -> bool:
        """Return whether a worker is not idle, whatever it does."""
        return len(self.idle) < len(self._gates)

    def wake_one(self) -> None:
        """Open the gate of the worker that became idle last."""
        # A request to stop may have taken or opened it in the meantime.
        with contextlib.suppress(IndexError, RuntimeError):
            self.idle.pop().release()
        # The worker takes the lock before it clears this. A Ctrl-C in between costs no more than a worker too many.
        self.waking = True

    def wake(self, gate: Lock) -> None:
        """Open this gate, if its worker is idle."""
        with contextlib.suppress(ValueError, RuntimeError):
            self.idle.remove(gate)
            gate.release()
        self.waking = True

    def arrived(self) -> None:
        """Note that the woken worker is at work."""
        self.waking = False

    def stay_awake(self, gate: Lock) -> None:
        """Take back that a worker is idle, since there is work after all."""
        try:
            self.idle.remove(gate)
        except ValueError:
            # Another thread has opened it in the meantime.
            gate.acquire()

    def wake_all(self) -> None:
        """Open all gates. Needs no lock.

        Each step is atomic and may run in a signal handler or a finalizer, inside a critical section of anyone's.
        """
        self.idle.clear()
        # Also the gates of workers that are not idle: an exception raised by a signal handler may have come between
        # taking a gate from that list and opening it.
        for gate in list(self._gates):
            with contextlib.suppress(RuntimeError):
                gate.release()
