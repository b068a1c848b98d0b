"""A few steps whose batches are there before: what the loop could do with a loader that costs nothing.

The batches are those that would come anyway, in the same order, so the job trains as it does otherwise. They are
collected only if that does not draw a random number earlier than otherwise and takes little memory.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .loop_times import LoaderTimes


_COUNT = 8
# Steps before the first time. Before each following time are four times as many.
_FIRST = 24
_FACTOR = 4
# A loop that waits less than this share of its time has nothing to gain.
_LEAST_SHARE = 0.03
_MOST_BYTES = 64 * 2**20
_MOST_ARRAYS = 16
_FREE_SHARED_MEMORY = 4 * _MOST_BYTES
_PAUSE = 0.001
_LONGEST_PAUSE = 2.0
# These draw all their random numbers when an iteration begins, or from a private generator.
_SAMPLERS = {"RandomSampler", "SequentialSampler", "SubsetRandomSampler", "WeightedRandomSampler"}
_TORCH = "torch.utils.data."

Outcome = tuple[Any, "BaseException | None"]


class Ahead:
    def __init__(self, times: LoaderTimes) -> None:
        self._times = times
        self._following = _FIRST

    def collect(self, iterator: Any, pull: Callable[[Any], Any], held: deque[Outcome]) -> bool:
        """Collect batches if it is time to, and return whether the workers have nothing left to do then.

        `held` gets what the iterator's method `pull` returned or raised, in order: one batch or none if False is
        returned.
        """
        times = self._times
        if times.steps < self._following:
            return False
        self._following = _FACTOR * times.steps
        if times.share() < _LEAST_SHARE or not _is_harmless(iterator) or not _is_far_from_the_end(iterator):
            return False
        batch = pull(iterator)
        held.append((batch, None))
        if not _is_small(batch):
            return False
        while len(held) < _COUNT:
            try:
                held.append((pull(iterator), None))
            except Exception as error:  # noqa: BLE001 - raised again in its turn.
                held.append((None, error))
                break
        _wait_for_workers(iterator)
        # The workers have filled their queues by now: the loop waits less than usual for these.
        times.leave_out(outstanding(iterator))
        return True


def _is_harmless(iterator: Any) -> bool:
    """Return whether asking for batches early leaves the random numbers of all other code unchanged."""
    sampler = vars(iterator).get("_index_sampler")
    if not type(sampler).__module__.startswith(_TORCH):
        return False
    if type(sampler).__name__ == "BatchSampler":
        sampler = sampler.sampler
    name = type(sampler).__name__
    if not type(sampler).__module__.startswith(_TORCH):
        return False
    if name == "RandomSampler" and sampler.replacement and sampler.generator is not None:
        return False
    return name in _SAMPLERS or name in ("DistributedSampler", "_InfiniteConstantSampler")


def _is_far_from_the_end(iterator: Any) -> bool:
    """Return whether no sampler ends, and so draws for its next round, while batches are collected."""
    if type(vars(iterator)["_index_sampler"]).__name__ == "_InfiniteConstantSampler":
        return True
    needed = 2 * _COUNT + outstanding(iterator)
    try:
        return int(len(iterator) - vars(iterator)["_num_yielded"]) > needed
    except TypeError:
        return False


def outstanding(iterator: Any) -> int:
    """Return how many batches its workers have begun that were not taken."""
    return int(vars(iterator).get("_tasks_outstanding", 0))


def _is_small(batch: Any) -> bool:
    """Return whether a few such batches take little memory. A batch without arrays may take much."""
    sizes = list(_sizes(batch, 3))
    if not sizes or len(sizes) > _MOST_ARRAYS or _COUNT * sum(sizes) > _MOST_BYTES:
        return False
    with suppress(OSError):
        memory = os.statvfs("/dev/shm")  # noqa: S108 - where PyTorch keeps them.
        return memory.f_bavail * memory.f_frsize > _FREE_SHARED_MEMORY
    return False


def _sizes(value: Any, depth: int) -> list[int]:
    size = getattr(value, "nbytes", None)
    if isinstance(size, int):
        return [size]
    if isinstance(value, dict):
        value = list(value.values())
    if depth and isinstance(value, (list, tuple)):
        return [size for each in value[: _MOST_ARRAYS + 1] for size in _sizes(each, depth - 1)]
    return []


def _wait_for_workers(iterator: Any) -> None:
    """Wait until the workers have made what they were told to, so that the steps have the cores to themselves."""
    deadline = perf_counter() + _LONGEST_PAUSE
    queue = vars(iterator).get("_data_queue")
    with suppress(AttributeError, NotImplementedError, OSError):
        while queue.qsize() < outstanding(iterator) and perf_counter() < deadline:
            sleep(_PAUSE)
