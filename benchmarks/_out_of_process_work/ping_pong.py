"""Measure how long a hand-over to another process takes: through a channel, and by a bare eventfd.

Both processes are bound to a core each, as a loader and a training loop that are both busy would have. On one core the
system switches from one to the other without waking a core up, which no loader sees.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from math import ceil
from typing import Any


def _bind(core: int) -> None:
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[core % len(cores)]})


def _spread(times: list[float]) -> dict[str, float]:
    ranked = sorted(times)
    # There and back are two.
    return {
        name: ranked[ceil(len(ranked) * share) - 1] / 2 * 1e6
        for name, share in (("p50_microseconds", 0.5), ("p99_microseconds", 0.99))
    }


def eventfd(*, count: int) -> dict[str, float]:
    """Wake each other by two eventfds, and do nothing else."""
    there, back = os.eventfd(0), os.eventfd(0)
    process = multiprocessing.get_context("fork").Process(target=_answer, args=(there, back, count))
    process.start()
    _bind(0)
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        os.eventfd_write(there, 1)
        os.eventfd_read(back)
        times.append(time.perf_counter() - begin)
    process.join()
    return _spread(times[count // 10 :])


def _answer(there: int, back: int, count: int) -> None:
    _bind(1)
    for _ in range(count):
        os.eventfd_read(there)
        os.eventfd_write(back, 1)


def channel(*, count: int) -> dict[str, float]:
    """Send a number there and back."""
    from spdl.pipeline._elsewhere.worker_channel import ParentEnd  # noqa: PLC0415 - only ours.

    end = ParentEnd()
    process = multiprocessing.get_context("fork").Process(target=_echo, args=(end.worker_end, count))
    process.start()
    end.worker_end.close()
    end.started([process.sentinel])
    _bind(0)
    times = []
    for number in range(count):
        begin = time.perf_counter()
        end.send([number])
        end.receive()
        times.append(time.perf_counter() - begin)
    end.close()
    process.join()
    return _spread(times[count // 10 :])


def _echo(end: Any, count: int) -> None:
    _bind(1)
    end.begin()
    for _ in range(count):
        end.send(end.receive())
