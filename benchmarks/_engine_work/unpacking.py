"""Real work: blocks are unpacked and hashed, in stages and in plain threads. Both ops release the GIL."""

from __future__ import annotations

import hashlib
import random
import time
import zlib
from itertools import count
from queue import Queue
from threading import Thread
from typing import Any

from outcome import figures
from usage import cpu_seconds

BLOCK_BYTES = 1 << 18
"""The unpacked size. Each of the two ops takes some tenths of a millisecond."""
SINK = 100
"""Finished items that may wait for the consumer."""


class Blocks:
    """One packed block, and the ops on it."""

    def __init__(self) -> None:
        numbers = random.Random(0)  # noqa: S311 - no secret.
        words = [numbers.randbytes(8) for _ in range(256)]
        block = b"".join(numbers.choices(words, k=BLOCK_BYTES // 8))
        self._packed = zlib.compress(block)
        self._digest = hashlib.sha256(block).digest()

    def unpack(self, item: int) -> tuple[int, bytes]:
        """Unpack the block, as a loader's first stage does."""
        return item, zlib.decompress(self._packed)

    def check(self, unpacked: tuple[int, bytes]) -> int:
        """Hash the unpacked block, check it, and return the item's number."""
        item, block = unpacked
        if hashlib.sha256(block).digest() != self._digest:
            raise SystemExit("an unpacked block differs from the packed one")
        return item


def pipeline(*, items: int, threads: int) -> dict[str, float]:
    """Unpack in one stage and hash in the next, each with a concurrency of the number of threads."""
    from spdl.pipeline import PipelineBuilder  # noqa: PLC0415 - as in the other works.

    blocks = Blocks()
    builder: Any = PipelineBuilder().add_source(range(items))
    builder.pipe(blocks.unpack, concurrency=threads).pipe(blocks.check, concurrency=threads)
    built = builder.add_sink(SINK).build(num_threads=threads)
    cpu, begin = cpu_seconds(), time.perf_counter()
    with built.auto_stop():
        got = list(built)
    return figures(got, items, time.perf_counter() - begin, cpu_seconds() - cpu)


def bare_threads(*, items: int, threads: int) -> dict[str, float]:
    """Let a number of threads take numbers, do both ops on each, and put them where the consumer waits."""
    blocks = Blocks()
    numbers = count()
    sink: Queue[int] = Queue(SINK)

    def work() -> None:
        while (item := next(numbers)) < items:
            sink.put(blocks.check(blocks.unpack(item)))

    workers = [Thread(target=work) for _ in range(threads)]
    cpu, begin = cpu_seconds(), time.perf_counter()
    for worker in workers:
        worker.start()
    got = [sink.get() for _ in range(items)]
    for worker in workers:
        worker.join()
    return figures(got, items, time.perf_counter() - begin, cpu_seconds() - cpu)
