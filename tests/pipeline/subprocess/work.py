"""Functions and iterables for worker processes, which can import them by name even if they were not forked."""

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
    """Call a function that forks a worker. Return the function's result, and the process."""
    before = set(psutil.Process().children())
    started = start()
    (process,) = set(psutil.Process().children()) - before
    return started, process


class Numbers:
    """An iterable that yields the number of the pass, a count, and the process's id."""

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
    """An iterable of the given items."""

    def __init__(self, *items: Any) -> None:
        self.items = items

    def __call__(self) -> tuple[Any, ...]:
        return self.items


class Logged:
    """An iterable that writes its progress into a file, where other processes can see it."""

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
    """An iterable that is its own iterator, and starts anew each time."""

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
    """An exception with its own `__init__`: as with most of these, unpickling calls it with too few arguments."""

    def __init__(self, code: int, path: str) -> None:
        super().__init__(f"code {code} at {path}")


class Sealed:
    """An object that cannot be pickled."""

    def __reduce__(self) -> NoReturn:
        raise TypeError("sealed")


class Trap:
    """An object that can be pickled, but not unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _snap, (os.getpid(),)


def _snap(pid: int) -> NoReturn:
    raise ValueError(f"snap from {pid}")


class Raising:
    """An iterable that raises at the given moment between a worker's start and its end."""

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
    """An iterable that yields so many items and then nothing for a long time."""

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
    """An initializer that records its calls in the process, which can yield the record as an item."""

    done: list[str] = []  # noqa: RUF012 - it is one for the process.

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self) -> None:
        self.done.append(self.name)


def tell_done() -> list[list[str]]:
    return [Noted.done]


class Buffers:
    """An iterable of items with the given numbers of bytes, whose content shows whether they were mixed up."""

    def __init__(self, sizes: Iterable[int]) -> None:
        self.sizes = list(sizes)

    def __call__(self) -> Buffers:
        return self

    def __iter__(self) -> Iterator[tuple[int, Any, Any]]:
        for i, size in enumerate(self.sizes):
            yield i, np.full(size, i % 251, np.uint8), bytes([i % 251]) * size


class Measured:
    """An iterable that yields a large array twice, and then the memory that sending it took in its process."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __call__(self) -> Measured:
        return self

    def __iter__(self) -> Iterator[Any]:
        array = np.ones(self.size, np.uint8)
        # The first array also allocates memory that is allocated only once.
        yield array
        tracemalloc.start()
        yield array
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        yield peak


def describe_process() -> list[dict[str, Any]]:
    return [{"pid": os.getpid(), "parent": os.getppid(), "threads": threading.active_count(), "argv": sys.argv}]


class Source:
    """An iterable that counts its passes. Each yields so many items."""

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
    """An executor that can be pickled, so it is sent as it is."""

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
