"""Measure how many small items cross a process boundary, and whether memory grows."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import Any


class Numbers:
    """An iterable of numbers."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __call__(self) -> range:
        """Return the numbers."""
        return range(self.count)


def _resident() -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) for line in status if line.startswith("VmRSS:")) / 1024


def iterable(*, count: int, buffer_size: int) -> dict[str, float]:
    """Receive numbers one by one from another process."""
    from spdl.pipeline import iterate_in_subprocess  # noqa: PLC0415 - the contender's.

    items: Any = iterate_in_subprocess(Numbers(count), buffer_size=buffer_size)
    rates = []
    for _ in range(3):
        begin = time.perf_counter()
        for _item in items:
            pass
        rates.append(count / (time.perf_counter() - begin))
    return {"items_per_second": median(rates[1:])}


def ring(*, count: int, batch: int) -> dict[str, float]:
    """Receive numbers through a channel, in batches, and watch the memory of the process."""
    import multiprocessing  # noqa: PLC0415 - only ours.

    from spdl.pipeline._elsewhere.worker_channel import ParentEnd  # noqa: PLC0415

    end = ParentEnd()
    process = multiprocessing.get_context("fork").Process(target=_send, args=(end.worker_end, count, batch))
    process.start()
    end.worker_end.close()
    end.started([process.sentinel])
    resident, received = 0.0, 0
    begin = time.perf_counter()
    while received < count:
        received += len(end.receive(60))
        if not resident and received > count // 10:
            resident = _resident()
    rate = received / (time.perf_counter() - begin)
    grown = _resident() - resident
    end.close()
    process.join()
    return {"items_per_second": rate, "grown_mb": max(0.0, grown)}


def _send(end: Any, count: int, batch: int) -> None:
    end.begin()
    for number in range(0, count, batch):
        end.send(list(range(number, number + batch)))
