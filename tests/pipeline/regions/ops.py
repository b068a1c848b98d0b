"""Ops for the workers of regions: they can be pickled by name."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spdl.pipeline.defs import Aggregator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

SECRET: list[Any] = []


def same(x: Any) -> Any:
    return x


def square(x: int) -> int:
    return x * x


def negative(x: int) -> int:
    return -x


def pid(_: Any) -> int:
    return os.getpid()


def odd_only(x: int) -> int | None:
    return x if x % 2 else None


def three(x: int) -> Iterator[int]:
    for i in range(3):
        yield 10 * x + i


async def later(x: int) -> int:
    await asyncio.sleep(0)
    return x + 1


async def twice_later(x: int) -> AsyncIterator[int]:
    for i in range(2):
        await asyncio.sleep(0)
        yield 10 * x + i


def by_parity(x: int) -> int:
    return x % 2


def nap(x: Any) -> Any:
    time.sleep(0.002)
    return x


def long_nap(x: Any) -> Any:
    time.sleep(60)
    return x


def short_nap(x: Any) -> Any:
    time.sleep(0.5)
    return x


def import_numpy(x: Any) -> Any:
    import numpy as np  # noqa: PLC0415 - where it cannot be imported.

    return np.asarray(x)


def uneven(x: int) -> int:
    time.sleep(0.005 * (x % 3))
    return x


def fail_on_fives(x: int) -> int:
    if x % 5 == 0:
        raise LookupError(f"no {x} here")
    return x


class Stubborn(Exception):  # noqa: N818 - a test's.
    """It cannot be unpickled."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} and {b}")


def raise_stubborn(x: int) -> int:
    raise Stubborn(x, x)


def lock_of(_: int) -> Any:
    return threading.Lock()


def lock_of_threes(x: int) -> Any:
    return threading.Lock() if x % 3 == 0 else x


class Unreadable:
    """It can be pickled, and not unpickled."""

    def __init__(self, x: int) -> None:
        self.x = x

    def __reduce__(self) -> Any:
        return _refuse, (self.x,)


def _refuse(x: int) -> Any:
    raise OSError(f"{x} cannot be read")


def unreadable_fours(x: int) -> Any:
    return Unreadable(x) if x % 4 == 0 else x


def die_on(x: Any) -> Any:
    if x == 7:
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def exit_on(x: Any) -> Any:
    if x == 7:
        os._exit(0)
    return x


def system_exit(x: int) -> int:
    if x == 7:
        raise SystemExit(3)
    return x


def exit_always(_: Any) -> None:
    os._exit(3)


def exit_at_once() -> None:
    os._exit(3)


class Killers:
    """Kills its process at some items."""

    def __init__(self, items: list[int]) -> None:
        self.items = frozenset(items)

    def __call__(self, x: int) -> int:
        if x in self.items:
            os.kill(os.getpid(), signal.SIGKILL)
        return x


class DieOnce:
    """Kills its process at some item, once in all."""

    def __init__(self, path: str, at: int) -> None:
        self.path = path
        self.at = at

    def __call__(self, x: int) -> int:
        path = Path(self.path)
        if x == self.at and not path.exists():
            path.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return x


class FailTwice:
    """Fails twice for each item, in each process."""

    def __init__(self) -> None:
        self.seen: dict[int, int] = {}

    def __call__(self, x: int) -> int:
        self.seen[x] = self.seen.get(x, 0) + 1
        if self.seen[x] <= 2:
            raise ConnectionError(f"try {x} again")
        return x


class Sums(Aggregator[int, tuple[int, int]]):
    """Adds up so many numbers, and counts them."""

    def __init__(self, many: int) -> None:
        self.many = many
        self.items: list[int] = []

    def accumulate(self, item: int) -> tuple[int, int] | None:
        self.items.append(item)
        return self.flush() if len(self.items) == self.many else None

    def flush(self) -> tuple[int, int] | None:
        items, self.items = self.items, []
        return (sum(items), len(items)) if items else None


class LockedAggregator(Sums):
    """It cannot be copied or pickled."""

    def __init__(self) -> None:
        super().__init__(3)
        self.lock = threading.Lock()


class BadAggregator(Aggregator[int, int]):
    def accumulate(self, item: int) -> int | None:
        raise ArithmeticError("cannot add")

    def flush(self) -> int | None:
        return None


def remember(*values: Any) -> None:
    SECRET.extend(values)


def recall(x: int) -> tuple[int, tuple[Any, ...]]:
    return x, tuple(SECRET)


def refuse_to_begin() -> None:
    raise PermissionError("no licence")


def describe_view(x: Any) -> Any:
    return type(x).__name__, x.format, x.shape, x.tolist(), "numpy" in sys.modules


def double_view(x: tuple[str, Any]) -> Any:
    name, view = x
    doubled = memoryview(bytearray(view.nbytes)).cast("B").cast(view.format, view.shape)
    rows, columns = view.shape
    for row in range(rows):
        for column in range(columns):
            doubled[row, column] = 2 * view[row, column]
    return name, doubled


class Views:
    """Memoryviews, small and large."""

    def __iter__(self) -> Iterator[memoryview]:
        for columns in (1, 10_000):
            yield memoryview(bytearray(range(6)) * columns).cast("H", (3, columns))


class Stuck:
    """An op that returns when it is told to."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.leave = threading.Event()

    def __call__(self, x: int) -> int:
        self.entered.set()
        self.leave.wait(60)
        return x
