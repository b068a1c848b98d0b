"""Python threads that call a function, and how much more many threads get done than one."""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from measure import BATCH, Figures, batches, peak_mib

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")
R = TypeVar("R")


def in_threads(call: Callable[[T], R], items: Iterable[T], workers: int) -> Iterator[R]:
    """Yield the results in order, with two more calls in flight than there are threads."""
    waiting = iter(items)
    with ThreadPoolExecutor(workers) as pool:
        under_way = deque(pool.submit(call, item) for item in islice(waiting, workers + 2))
        while under_way:
            result = under_way.popleft().result()
            under_way.extend(pool.submit(call, item) for item in islice(waiting, 1))
            yield result


def scaling(loads: list[Callable[[list[str]], object]], paths: list[str], seconds: float) -> Figures:
    """Let all functions load for a number of seconds, each in its own thread, and the first one alone for as long.

    The two cases alternate, so that other load on the machine affects both.
    """
    todo = list(batches(paths, max(len(paths), BATCH)))
    for load in loads:
        load(todo[0])
    slices = 4
    alone = together = 0.0
    for _ in range(slices):
        alone += _images_per_second(loads[:1], todo, seconds / slices) / slices
        together += _images_per_second(loads, todo, seconds / slices) / slices
    return {
        "images_per_second_alone": alone,
        "images_per_second": together,
        "scaling": together / alone,
        "peak_mib": peak_mib(),
    }


def _images_per_second(loads: list[Callable[[list[str]], object]], todo: list[list[str]], seconds: float) -> float:
    barrier = threading.Barrier(len(loads) + 1)
    loaded = [0.0] * len(loads)

    def call(number: int) -> None:
        barrier.wait()
        begin = time.perf_counter()
        index = number
        count = 0
        while (elapsed := time.perf_counter() - begin) < seconds:
            loads[number](todo[index % len(todo)])
            index += 1
            count += BATCH
        # The last batch may end late, when others have the cores to themselves. So each thread has its own clock.
        loaded[number] = count / elapsed

    workers = [threading.Thread(target=call, args=(number,)) for number in range(len(loads))]
    for worker in workers:
        worker.start()
    barrier.wait()
    for worker in workers:
        worker.join()
    return sum(loaded)
