"""The simulated clocks, locks and threads. It takes the place of `spdl.pipeline._world`, and has the same names."""

from __future__ import annotations

import itertools
from collections import deque
from typing import TYPE_CHECKING, Any, Self

from tests.simulation import scheduler
from tests.simulation.event_loop import EventLoop
from tests.simulation.scheduler import Fiber, step

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable, Collection, Iterable, Mapping
    from concurrent.futures import Future

__all__ = [
    "OBSERVABLE",
    "TIMEOUT_MAX",
    "Condition",
    "Lock",
    "RLock",
    "Thread",
    "count_unfinished",
    "current_thread",
    "get_ident",
    "get_native_id",
    "monotonic",
    "new_event_loop",
    "perf_counter",
    "sleep",
    "thread_time",
]

TIMEOUT_MAX = 1e9
OBSERVABLE = False
# How often, and for how many seconds, a slow lock has to be waited for.
_LATE, _LATE_SECONDS = 0.1, 0.01


class Lock:
    """A lock that whoever comes first takes: one that was waited for may be taken by another before."""

    def __init__(self) -> None:
        self._locked = False
        self._waiters: deque[Fiber] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: FBT001, FBT002 - as `threading.Lock`.
        step()
        world = scheduler.active
        deadline = world.now + timeout if 0 <= timeout < TIMEOUT_MAX else None
        while self._locked:
            if not blocking:
                return False
            fiber = world.current
            assert fiber is not None, "The simulation waits for a lock outside of a run."
            self._waiters.append(fiber)
            try:
                world.block("a lock", None if deadline is None else deadline - world.now)
            except BaseException:
                # An interrupt, of the one that was woken for the lock: another one has it then.
                if not self._locked and fiber not in self._waiters and self._waiters:
                    world.wake(self._waiters.popleft())
                raise
            finally:
                if fiber in self._waiters:
                    self._waiters.remove(fiber)
            if fiber.timed_out and self._locked:
                return False
        self._locked = True
        return True

    def release(self) -> None:
        step()
        if not self._locked:
            raise RuntimeError("release unlocked lock")
        self._locked = False
        if self._waiters:
            scheduler.active.wake(self._waiters.popleft())

    def locked(self) -> bool:
        return self._locked

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class RLock:
    """A lock that its owner may take again."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._owner = 0
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # noqa: FBT001, FBT002 - as `threading.RLock`.
        me = get_ident()
        if self._owner == me:
            self._count += 1
            return True
        world = scheduler.active
        if world.slow_lock and world.current is not world.main and world.policy.random.random() < _LATE:
            # Somebody else has had it.
            world.block("time", _LATE_SECONDS)
        taken = self._lock.acquire(blocking, timeout)
        if taken:
            self._owner, self._count = me, 1
            _count_lock(1)
        return taken

    def release(self) -> None:
        if self._owner != get_ident():
            raise RuntimeError("cannot release un-acquired lock")
        if self._count > 1:
            self._count -= 1
            return
        try:
            # A switch before the release is one while the lock is held.
            step()
        finally:
            # A Ctrl-C comes before the call or after it, as for a lock in C.
            _count_lock(-1)
            self._owner = self._count = 0
            self._lock._locked = False
            if self._lock._waiters:
                scheduler.active.wake(self._lock._waiters.popleft())
        step()

    def _is_owned(self) -> bool:
        return self._owner == get_ident()

    def _at_fork_reinit(self) -> None:
        self._lock = Lock()
        self._owner = self._count = 0

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Condition:
    """A condition on an `RLock`."""

    def __init__(self, lock: RLock) -> None:
        self._lock = lock
        self._waiters: deque[Fiber] = deque()

    def wait(self, timeout: float | None = None) -> bool:
        world = scheduler.active
        fiber = world.current
        assert fiber is not None, "The simulation waits for a condition outside of a run."
        self._waiters.append(fiber)
        self._lock.release()
        notified = fiber not in self._waiters
        try:
            if not notified:
                world.block("a condition", timeout)
                notified = fiber not in self._waiters
        finally:
            if fiber in self._waiters:
                self._waiters.remove(fiber)
            self._lock.acquire()
        return notified

    def notify(self, n: int = 1) -> None:
        for _ in range(min(n, len(self._waiters))):
            scheduler.active.wake(self._waiters.popleft())

    def notify_all(self) -> None:
        self.notify(len(self._waiters))

    def __enter__(self) -> Self:
        self._lock.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def _count_lock(change: int) -> None:
    fiber = scheduler.active.current
    if fiber is not None:
        fiber.locks += change
        if change > 0 and scheduler.active.stop_returned:
            fiber.locked_since_stop = True


_numbers = itertools.count(1)


class Thread:
    """A thread that is a fiber."""

    def __init__(
        self,
        group: None = None,
        target: Callable[..., object] | None = None,
        name: str | None = None,
        args: Iterable[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        *,
        daemon: bool | None = None,
    ) -> None:
        self.name = name or f"Thread-{next(_numbers)}"
        self.daemon = bool(daemon)
        self._call = (target, tuple(args), dict(kwargs or {}))
        self._fiber: Fiber | None = None

    @property
    def ident(self) -> int | None:
        return None if self._fiber is None else self._fiber.ident

    def start(self) -> None:
        if self._fiber is not None:
            raise RuntimeError("threads can only be started once")
        self._fiber = scheduler.active.spawn(self.name, self.run)
        self._fiber.thread = self
        step()

    def run(self) -> None:
        target, args, kwargs = self._call
        try:
            if target is not None:
                target(*args, **kwargs)
        finally:
            # As `threading.Thread` does: what it held is free before it has ended.
            del self._call, target, args, kwargs

    def is_alive(self) -> bool:
        return self._fiber is not None and not self._fiber.done

    def join(self, timeout: float | None = None) -> None:
        if self._fiber is None:
            raise RuntimeError("cannot join thread before it is started")
        if self._fiber is scheduler.active.current:
            raise RuntimeError("cannot join current thread")
        step()
        world = scheduler.active
        deadline = None if timeout is None else world.now + timeout
        while self.is_alive():
            seconds = None if deadline is None else deadline - world.now
            if not world.block(f"the end of {self._fiber.ident}", seconds):
                return


class _NoThread:
    """Stands for the first fiber, and for the thread that runs the simulation."""

    name = "MainThread"
    daemon = False
    ident = 0


_NO_THREAD = _NoThread()


def current_thread() -> Any:
    """Return the thread that runs now."""
    fiber = scheduler.active.current
    return _NO_THREAD if fiber is None or fiber.thread is None else fiber.thread


def get_ident() -> int:
    """Return a number that only the thread that runs now has."""
    fiber = scheduler.active.current
    return 1 if fiber is None else fiber.ident


get_native_id = get_ident


def monotonic() -> float:
    """Return the simulated time in seconds."""
    return scheduler.active.clock()


perf_counter = monotonic


def thread_time() -> float:
    """Return the simulated time: ops keep their thread busy while they sleep."""
    return scheduler.active.clock()


def sleep(seconds: float) -> None:
    """Wait in simulated time."""
    scheduler.active.block("time", seconds)


def new_event_loop() -> AbstractEventLoop:
    """Return an event loop that waits in simulated time."""
    return EventLoop()


def count_unfinished(futures: Collection[Future[Any]], seconds: float) -> int:
    """Wait for futures, for so many seconds at most, and return how many are not done."""
    world = scheduler.active
    deadline = world.now + seconds
    while any(not future.done() for future in futures) and world.now < deadline:
        world.block("time", min(0.01, deadline - world.now))
    return sum(not future.done() for future in futures)
