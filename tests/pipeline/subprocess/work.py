"""What the tests have worker processes do: functions that processes which are not forked can import by name."""

from __future__ import annotations

import os
import sys
import threading
import time
import tracemalloc
from concurrent.futures import Executor, Future
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import psutil

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

METHODS = ("fork", "spawn", "forkserver")


def forked_by(start: Callable[[], Any]) -> tuple[Any, psutil.Process]:
    """Start a worker by the method "fork", and return what was returned and the process."""
    before = set(psutil.Process().children())
    started = start()
    (process,) = set(psutil.Process().children()) - before
    return started, process


class Numbers:
    """Counts, with the number of the pass and the process."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.passes = 0

    def __call__(self) -> Numbers:
        return self

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        self.passes += 1
        for i in range(self.count):
            yield self.passes, i, os.getpid()


class Given:
    """Gives what it was made with, whatever that takes to send."""

    def __init__(self, *items: Any) -> None:
        self.items = items

    def __call__(self) -> tuple[Any, ...]:
        return self.items


class Logged:
    """Writes into a file which item it gives, so that it can be seen from outside."""

    def __init__(self, path: Path, count: int) -> None:
        self.path = path
        self.count = count

    def __call__(self) -> Logged:
        return self

    def __iter__(self) -> Iterator[int]:
        try:
            for i in range(self.count):
                self.write(str(i))
                yield i
        finally:
            self.write("closed")

    def write(self, line: str) -> None:
        with self.path.open("a") as file:
            file.write(f"{line}\n")


class Restarting:
    """Is its own iterator, and starts anew each time."""

    def __call__(self) -> Restarting:
        return self

    def __iter__(self) -> Restarting:
        self.left = 2
        return self

    def __next__(self) -> int:
        if not self.left:
            raise StopIteration
        self.left -= 1
        return self.left


def generator() -> Iterator[int]:
    yield from range(3)


def iterator() -> Iterator[int]:
    return map(abs, [1, 2])


class TwoPartError(Exception):
    """Like most exceptions with an own `__init__`: made again from `args`, it misses an argument."""

    def __init__(self, code: int, path: str) -> None:
        super().__init__(f"code {code} at {path}")


class Sealed:
    """Refuses to be pickled."""

    def __reduce__(self) -> NoReturn:
        raise TypeError("sealed")


class Trap:
    """Can be pickled, but not be made again where it arrives."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _snap, (os.getpid(),)


def _snap(pid: int) -> NoReturn:
    raise ValueError(f"snap from {pid}")


class Raising:
    """Raises at one of the moments of a worker's life."""

    def __init__(self, moment: str, error: BaseException, after: int = 2) -> None:
        self.moment, self.error, self.after = moment, error, after

    def initialize(self) -> None:
        if self.moment == "initializer":
            raise self.error

    def __call__(self) -> Raising:
        if self.moment == "fn":
            raise self.error
        return self

    def __iter__(self) -> Iterator[int]:
        if self.moment == "iter":
            raise self.error
        return self.items()

    def items(self) -> Iterator[int]:
        yield from range(self.after)
        raise self.error


def run_out_of_memory() -> Iterator[int]:
    yield 1
    yield len(bytearray(1 << 60))


def exit_at_once() -> NoReturn:
    os._exit(7)


class Silent:
    """Gives so many items and then nothing for a long time."""

    def __init__(self, items: int = 0, seconds: float = 60) -> None:
        self.items, self.seconds = items, seconds

    def __call__(self) -> Silent:
        return self

    def __iter__(self) -> Iterator[int]:
        yield from [os.getpid()] * self.items
        time.sleep(self.seconds)
        yield 0


def sleep_long() -> None:
    time.sleep(60)


class Noted:
    """Notes what is done in the process, for the process to give as an item."""

    done: list[str] = []  # noqa: RUF012 - it is one for the process.

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self) -> None:
        self.done.append(self.name)


def tell_done() -> list[list[str]]:
    return [Noted.done]


class Buffers:
    """Gives items of so many bytes each, whose content tells whether they were mixed up."""

    def __init__(self, sizes: Iterable[int]) -> None:
        self.sizes = list(sizes)

    def __call__(self) -> Buffers:
        return self

    def __iter__(self) -> Iterator[tuple[int, Any, Any]]:
        for i, size in enumerate(self.sizes):
            yield i, np.full(size, i % 251, np.uint8), bytes([i % 251]) * size


class Measured:
    """Gives a large array, and then how much memory was taken in this process to send it."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self) -> Measured:
        return self

    def __iter__(self) -> Iterator[Any]:
        array = np.ones(self.size, np.uint8)
        # The first one makes what is made once.
        yield array
        tracemalloc.start()
        yield array
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        yield peak


def describe_process() -> list[dict[str, Any]]:
    return [{"pid": os.getpid(), "parent": os.getppid(), "threads": threading.active_count(), "argv": sys.argv}]


class Source:
    """Counts its passes; each gives so many items."""

    def __init__(self, count: int = 4) -> None:
        self.count = count
        self.passes = 0

    def __iter__(self) -> Iterator[tuple[int, int]]:
        self.passes += 1
        for i in range(self.count):
            yield self.passes, i


def same(x: Any) -> Any:
    return x


def negative(x: int) -> int:
    return -x


def where(x: int) -> tuple[int, int, str]:
    return x, os.getpid(), threading.current_thread().name


def fail_on_two(x: int) -> int:
    if x == 2:
        raise KeyError("two")
    return x


def is_negative(x: int) -> int:
    return int(x < 0)


def always_first(_: object) -> int:
    return 0


def tell_noted(_: int) -> list[str]:
    return Noted.done


class Own(Executor):
    """Can be pickled, and is taken as it is."""

    def __init__(self, name: str) -> None:
        self.name = name

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        threading.current_thread().name = self.name
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - as executors do.
            future.set_exception(error)
        return future


def name_thread(name: str) -> None:
    threading.current_thread().name = name


def add_thread(x: Any) -> tuple[Any, str]:
    return x, threading.current_thread().name
