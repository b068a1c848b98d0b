"""Hammer channels with items of random sizes, and check every byte.

There are a few items here. ``SPDL_HAMMER=1000000 SPDL_RECORDS=FOLDER`` in the environment asks for as many of each of
eight workers, and writes down what they found.
"""

from __future__ import annotations

import os
import random
import threading
import time
import zlib
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.pipeline.transport.work import record, worker

if TYPE_CHECKING:
    from spdl.pipeline._transport.channel import ParentEnd, WorkerEnd

PRODUCERS = 8
ITEMS = int(os.environ.get("SPDL_HAMMER", "600"))

pytestmark = pytest.mark.timeout(120 + ITEMS // 50)


def produce(end: WorkerEnd, seed: int, items: int) -> None:
    """Send batches of bytes and arrays with their checksums. The parent says when it has taken some."""
    end.begin()
    drawn = random.Random(seed)  # noqa: S311 - nothing here is secret.
    content = np.frombuffer(drawn.randbytes(1 << 21), np.uint8)
    sent = ahead = 0
    while sent < items:
        batch: list[Any] = []
        for _ in range(min(drawn.choice((1, 3, 16, 64)), items - sent)):
            # Mostly small, rarely a megabyte.
            size = int(2 ** drawn.uniform(0, 20 if drawn.random() < 0.02 else 13))
            begin = drawn.randrange(1 << 20)
            part: Any = content[begin : begin + size]
            batch.append((sent + len(batch), zlib.crc32(part), part if drawn.random() < 0.5 else part.tobytes()))
        end.send(batch)
        sent += len(batch)
        ahead += 1
        if ahead == 20:
            end.receive()
            ahead -= 10


def consume(end: ParentEnd, items: int, wrong: list[str]) -> None:
    """Check what comes, and keep some of it for a while."""
    kept: list[Any] = []
    taken = expected = 0
    while expected < items:
        for number, checksum, part in end.receive(60):
            if number != expected or zlib.crc32(part) != checksum:
                wrong.append(f"item {expected} came as {number}")
            if number % 17 == 0:
                kept.append((checksum, part))
            expected += 1
        while len(kept) > 50:
            checksum, part = kept.pop(0)
            if zlib.crc32(part) != checksum:
                wrong.append("an item has changed while it was kept")
        taken += 1
        if taken == 10:
            end.send([None])
            taken = 0


def test_items_of_random_sizes() -> None:
    wrong: list[str] = []
    begin = time.monotonic()
    with ExitStack() as stack:
        ends = [stack.enter_context(worker(produce, seed, ITEMS))[0] for seed in range(PRODUCERS)]
        threads = [threading.Thread(target=consume, args=(end, ITEMS, wrong)) for end in ends]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert not wrong
    (line,) = (it for it in Path("/proc/self/status").read_text(encoding="ascii").splitlines() if "VmHWM" in it)
    record(
        "out_of_process_hammer",
        producers=PRODUCERS,
        items_each=ITEMS,
        seconds=round(time.monotonic() - begin, 1),
        peak_memory_mb=round(int(line.split()[1]) / 1024, 1),
    )
