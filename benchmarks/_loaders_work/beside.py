"""A training loop that takes batches at a fixed rate, to measure how evenly its steps run beside a loader.

A step is some milliseconds of work in Python: a number of turns that is found beforehand, so that interrupted work
takes longer instead of doing less. Then the loop waits without the GIL, as for an accelerator, until the next step is
due. At regular intervals a step begins by taking a batch. The time of a step includes taking the batch and excludes the
wait. The loader works ahead as far as it does by itself, and is held up by the loop, so all loaders deliver the same
images per second.

A shared machine is fast at some moments and slow at others, and the slow ones make up the upper percentiles. So an
equal number of steps runs without a loader, one half right before it is opened and the other half right after it is
closed. Each percentile is divided by the same percentile of these steps, so p99 may be less than p95.
"""

from __future__ import annotations

import time
from math import ceil
from typing import Any

from measure import BATCH, cpu_seconds, photos
from steps import check, opener, settle
from training import python_work

STEP = "normalise"
PERIOD = 0.01
MILLISECONDS = 3
"""Milliseconds of work in a step where the machine is as fast as it gets."""
STEPS_PER_BATCH = 10
IMAGES_PER_SECOND = BATCH / (STEPS_PER_BATCH * PERIOD)
PERCENTILES = {"p50": 50, "p95": 95, "p99": 99}
WARM_UP = 40
"""Steps before the timing starts. By then each loader has filled its buffers."""
FIRST = 10
"""Steps before the timing starts if there is no loader. The first steps take longer."""


def train(
    *, loader: str | None, keywords: dict[str, Any], folder: str, workers: int, steps: int, step_turns: int
) -> dict[str, float]:
    """Run a number of steps beside a loader, or without one if `loader` is None."""
    open_step = None if loader is None else opener(loader, photos(folder), keywords)
    turns = step_turns * MILLISECONDS
    without = alone(steps // 2, turns)
    if open_step is None:
        beside, figures = run_steps(lambda: None, steps, turns)
    else:
        with open_step(STEP, workers) as items:
            check(next(items), STEP)
            beside, figures = run_steps(lambda: next(items), steps, turns)
            del items
        settle()
    without += alone(steps - steps // 2, turns)
    for name, it in PERCENTILES.items():
        figures[name] = percentile(beside, it) / percentile(without, it)
        figures[f"{name}_alone_ms"] = 1000 * percentile(without, it)
    return figures


def alone(steps: int, turns: int) -> list[float]:
    """Time the steps without a loader, after some that are not timed."""
    time_steps(lambda: None, 0, FIRST, turns)
    return time_steps(lambda: None, 0, steps, turns)


def percentile(values: list[float], percent: int) -> float:
    """Return the least value that at least `percent` percent of the values do not exceed."""
    return sorted(values)[ceil(len(values) * percent / 100) - 1]


def run_steps(take: Any, steps: int, turns: int) -> tuple[list[float], dict[str, float]]:
    """Time the steps, after some that are not timed, and return their times and the cost of all of it."""
    time_steps(take, 0, WARM_UP, turns)
    cpu, began = cpu_seconds(), time.perf_counter()
    took = time_steps(take, WARM_UP, steps, turns)
    seconds, cpu = time.perf_counter() - began, cpu_seconds() - cpu
    return took, {
        "images_per_second": steps / STEPS_PER_BATCH * BATCH / seconds,
        "cpu_seconds_per_second": cpu / seconds,
    }


def time_steps(take: Any, first: int, steps: int, turns: int) -> list[float]:
    """Run a number of steps, numbered from `first`, and return how long each took, in seconds."""
    took = []
    due = time.perf_counter()
    for step in range(first, first + steps):
        begin = time.perf_counter()
        if step % STEPS_PER_BATCH == 0:
            take()
        python_work(turns)
        took.append(time.perf_counter() - begin)
        due += PERIOD
        time.sleep(max(0.0, due - time.perf_counter()))
    return took
