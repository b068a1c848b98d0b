"""An op that computes in Python, and so runs in one thread at a time wherever there is a GIL."""

from __future__ import annotations

import time
from typing import Any

from outcome import figures
from usage import cpu_seconds

TURNS = 20
"""Turns of a loop in a microsecond, about."""


def pipeline(*, items: int, threads: int, microseconds: int = 1000) -> dict[str, float]:
    """Run an op of about that many microseconds in a single stage, with a concurrency of the number of threads."""
    from spdl.pipeline import PipelineBuilder  # noqa: PLC0415 - as in the other works.

    turns = TURNS * microseconds

    def compute(item: int) -> int:
        total = 0
        for turn in range(turns):
            total += turn & 7
        return item if total else -1

    builder: Any = PipelineBuilder().add_source(range(items)).pipe(compute, concurrency=threads)
    built = builder.add_sink(10).build(num_threads=threads)
    cpu, begin = cpu_seconds(), time.perf_counter()
    with built.auto_stop():
        got = list(built)
    return figures(got, items, time.perf_counter() - begin, cpu_seconds() - cpu)
