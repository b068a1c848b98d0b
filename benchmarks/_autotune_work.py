"""The planted workloads for pipelines that tune themselves: ops that sleep, compute, or hold the GIL."""

from __future__ import annotations

import functools
import hashlib
import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Op = Callable[[Any], Any]

__all__ = ["WORKLOADS", "Op", "Workload", "hashing", "loading", "looping", "sleeping", "straggling"]

# Zeros that nobody has written take no memory, so it can be long enough for whatever an op computes.
_BLOCK = bytes(1 << 28)
_CALIBRATED = 1 << 26


class Workload(NamedTuple):
    """A pipeline to be tuned.

    Attributes:
        title: What it is.
        make: Makes its ops.
        levels: The concurrencies of the grid, the same for all stages.
        consumer: Seconds that the loop takes for each item.
        max_bytes: The bytes that the items of a pipeline may keep; None for no bound.
        pipelines: How many pipelines of the kind run at once in the process, all tuned or all set by hand.
    """

    title: str
    make: Callable[[], Sequence[Op]]
    levels: Sequence[int]
    consumer: float = 0.0
    pipelines: int = 1
    max_bytes: int | None = None


def sleeping(seconds: float) -> Op:
    """Return an op that waits for so long."""

    def op(item: Any) -> Any:
        time.sleep(seconds)
        return item

    return op


@functools.cache
def _calibrate(work: Callable[[int], object], amount: int) -> float:
    """Return how much of some work a core does in a second. It is measured once, so that all contenders do the same."""
    begin = time.thread_time()
    work(amount)
    return amount / (time.thread_time() - begin)


def _hash(size: int) -> None:
    hashlib.sha256(memoryview(_BLOCK)[:size]).digest()


def _loop(turns: int) -> None:
    for _ in range(turns):
        pass


def hashing(seconds: float) -> Op:
    """Return an op that computes for so long, without the GIL."""
    size = int(seconds * _calibrate(_hash, _CALIBRATED))
    if size > len(_BLOCK):
        raise ValueError(f"{seconds} s of hashing takes {size:,} bytes here, more than the {len(_BLOCK):,} there are")

    def op(item: Any) -> Any:
        _hash(size)
        return item

    return op


def looping(seconds: float) -> Op:
    """Return an op that computes for so long, with the GIL."""
    turns = int(seconds * _calibrate(_loop, 3_000_000))

    def op(item: Any) -> Any:
        _loop(turns)
        return item

    return op


def loading(seconds: float, size: int) -> Op:
    """Return an op that waits for so long, and makes so many bytes."""

    def op(_: Any) -> Any:
        time.sleep(seconds)
        return bytes(size)

    return op


def straggling(seconds: float) -> Op:
    """Return an op that waits for so long, and for one item in a hundred 50 times as long."""
    numbers = itertools.count()

    def op(item: Any) -> Any:
        time.sleep(50 * seconds if next(numbers) % 100 == 99 else seconds)  # noqa: PLR2004 - one in a hundred.
        return item

    return op


def _threaded() -> Op:
    """Return an op that has two threads of its own, which all of its calls share."""
    pool = ThreadPoolExecutor(2)
    half = hashing(0.004)

    def op(item: Any) -> Any:
        list(pool.map(half, (item, item)))
        return item

    return op


# Fine at the upper end, where the best are: more of what waits is faster up to the most threads that there may be.
_FEW, _MANY = (1, 2, 4, 8), (1, 4, 16, 32, 48, 56, 60, 64)

WORKLOADS = {
    "cpu_1_1": Workload("two stages of 4 ms of native code", lambda: [hashing(0.004), hashing(0.004)], _FEW),
    "cpu_1_8": Workload("1 ms and 8 ms of native code", lambda: [hashing(0.001), hashing(0.008)], _FEW),
    "gil": Workload("3 ms of Python", lambda: [looping(0.003)], _FEW),
    "io": Workload("20 ms of waiting", lambda: [sleeping(0.02)], _MANY),
    "stragglers": Workload("20 ms of waiting, 1 % of the items 1 s", lambda: [straggling(0.02)], _MANY),
    "threaded": Workload("8 ms of native code on two threads of its own", lambda: [_threaded()], _FEW),
    "slow_consumer": Workload(
        "5 ms of waiting and 1 ms of native code; the loop takes 20 ms",
        lambda: [sleeping(0.005), hashing(0.001)],
        _FEW,
        consumer=0.02,
    ),
    "tiny": Workload("10 microseconds of Python", lambda: [looping(1e-5)], _FEW),
    "two_pipelines": Workload(
        "20 ms of waiting and 1 ms of native code, two such pipelines at once",
        lambda: [sleeping(0.02), hashing(0.001)],
        (1, 4, 16, 32),
        pipelines=2,
    ),
    "large": Workload(
        "50 ms of waiting, items of 64 MB under 512 MB",
        lambda: [loading(0.05, 64 << 20)],
        (1, 2, 4, 8, 16),
        max_bytes=512 << 20,
    ),
}
