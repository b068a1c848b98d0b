"""An op that computes in Python, and so runs in one thread at a time wherever there is a GIL."""

from __future__ import annotations

import time
from typing import Any

from outcome import figures
from usage import cpu_seconds

TURNS = 20_000
"""Turns of a loop: about a millisecond."""


def compute(item: int) -> int:
    """Compute for about a millisecond, and return the item."""
    total = 0
    for turn in range(TURNS):
        total += turn & 7
    return item if total else -1


def pipeline(*, items: int, threads: int) -> dict[str, float]:
    """Run the op in a single stage, with a concurrency of the number of threads."""
    from spdl.pipeline import PipelineBuilder  # noqa: PLC0415 - as in the other works.

    builder: Any = PipelineBuilder().add_source(range(items)).pipe(compute, concurrency=threads)
    built = builder.add_sink(10).build(num_threads=threads)
    cpu, begin = cpu_seconds(), time.perf_counter()
    with built.auto_stop():
        got = list(built)
    return figures(got, items, time.perf_counter() - begin, cpu_seconds() - cpu)
