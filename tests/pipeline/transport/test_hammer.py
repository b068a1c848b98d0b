"""Hammer the way to processes and back with items of random sizes, and check every byte.

``SPDL_HAMMER=1000000 SPDL_RECORDS=FOLDER`` in the environment asks for as many items of each of eight workers, and
writes down what they found.
"""

from __future__ import annotations

import os
import random
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.pipeline.transport.work import record

from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

WORKERS = 8
ITEMS = int(os.environ.get("SPDL_HAMMER", "600"))

pytestmark = [pytest.mark.long, pytest.mark.timeout(120 + ITEMS // 50)]

CONTENT = np.frombuffer(random.Random(0).randbytes(1 << 21), np.uint8)  # noqa: S311 - nothing here is secret.

Item = tuple[int, int, Any]


def item_of(number: int, seed: int) -> Item:
    """Return bytes or an array of a random size, with their number and checksum."""
    drawn = random.Random(2 * number + seed)  # noqa: S311 - as above.
    # Mostly small, rarely a megabyte.
    size = int(2 ** drawn.uniform(0, 20 if drawn.random() < 0.02 else 13))
    begin = drawn.randrange(1 << 20)
    part: Any = CONTENT[begin : begin + size]
    return number, zlib.crc32(part), part if drawn.random() < 0.5 else part.tobytes()


def is_whole(item: Item) -> bool:
    _, checksum, part = item
    return zlib.crc32(part) == checksum


def answer(item: Item) -> Item:
    """Check an item, and return another one with its number."""
    assert is_whole(item)
    return item_of(item[0], 1)


def items() -> Iterator[Item]:
    return (item_of(number, 0) for number in range(WORKERS * ITEMS))


def test_items_of_random_sizes() -> None:
    begin = time.monotonic()
    builder = PipelineBuilder[Any, Any]().add_source(items()).to(ProcessPoolExecutorConfig(WORKERS)).pipe(answer)
    kept: list[Item] = []
    came: list[int] = []
    with builder.to(MAIN_PROCESS).add_sink().build(num_threads=1).auto_stop() as pipeline:
        for item in pipeline.get_iterator(timeout=60):
            came.append(item[0])
            assert is_whole(item), f"item {item[0]} has come otherwise"
            if item[0] % 17 == 0:
                kept.append(item)
            while len(kept) > 400:
                first = kept.pop(0)
                assert is_whole(first), f"item {first[0]} has changed while it was kept"
    assert sorted(came) == list(range(WORKERS * ITEMS))
    assert all(map(is_whole, kept))
    assert pipeline.failures() == []
    (line,) = (it for it in Path("/proc/self/status").read_text(encoding="ascii").splitlines() if "VmHWM" in it)
    record(
        "out_of_process_hammer",
        producers=WORKERS,
        items_each=ITEMS,
        seconds=round(time.monotonic() - begin, 1),
        peak_memory_mb=round(int(line.split()[1]) / 1024, 1),
    )
