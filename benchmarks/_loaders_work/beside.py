"""A training loop that takes batches at a fixed rate: how evenly its steps run beside a loader.

A step is some milliseconds of work in Python, a number of turns that is found beforehand, so that what is interrupted
takes longer instead of doing less. Machines are faster at some times than at others: it is found anew for each loader,
right before that begins, and looked at again right after it; the times of the steps are divided by the mean of the two,
so that a step which nothing disturbs takes as long in every turn. Then the loop waits without the GIL, as for an
accelerator, until the next step is due. Every so many steps begin with taking a batch. What is timed is the step with
its taking, without the wait. The loader works ahead as far as it does by itself, and is held up by the loop: all give
the same images per second.
"""

from __future__ import annotations

import time
from math import ceil
from statistics import median
from typing import Any

from measure import BATCH, cpu_seconds, photos
from steps import check, opener, settle
from training import python_work

STEP = "normalise"
PERIOD = 0.01
MILLISECONDS = 4
STEPS_PER_BATCH = 10
IMAGES_PER_SECOND = BATCH / (STEPS_PER_BATCH * PERIOD)
PERCENTILES = {"p50_ms": 50, "p95_ms": 95, "p99_ms": 99}
WARM_UP = 40
"""Steps before the time counts: each loader has filled its buffers by then."""


def train(
    *, loader: str | None, keywords: dict[str, Any], folder: str, workers: int, steps: int, step_turns: int
) -> dict[str, float]:
    """Run so many steps beside a loader; None is no loader."""
    open_step = None if loader is None else opener(loader, photos(folder), keywords)
    turns = calibrate(step_turns * MILLISECONDS)
    if open_step is None:
        figures = run_steps(lambda: None, steps, turns)
    else:
        with open_step(STEP, workers) as items:
            check(next(items), STEP)
            figures = run_steps(lambda: next(items), steps, turns)
            del items
        settle()
    # By how much the machine has become slower since a step was made to take as long as it should.
    slower = 1000 * median(time_steps(lambda: None, 0, WARM_UP, turns)) / MILLISECONDS
    return {name: it / ((1 + slower) / 2) if name in PERCENTILES else it for name, it in figures.items()}


def calibrate(turns: int) -> int:
    """Find how many turns a step has that takes as long as it should, at its rate; these are about right."""
    return round(turns * MILLISECONDS / 1000 / median(time_steps(lambda: None, 0, WARM_UP, turns)))


def run_steps(take: Any, steps: int, turns: int) -> dict[str, float]:
    """Time the steps, after some that do not count."""
    time_steps(take, 0, WARM_UP, turns)
    cpu, began = cpu_seconds(), time.perf_counter()
    ranked = sorted(time_steps(take, WARM_UP, steps, turns))
    seconds, cpu = time.perf_counter() - began, cpu_seconds() - cpu
    percentiles = {name: 1000 * ranked[ceil(len(ranked) * it / 100) - 1] for name, it in PERCENTILES.items()}
    return {
        **percentiles,
        "images_per_second": steps / STEPS_PER_BATCH * BATCH / seconds,
        "cpu_seconds_per_second": cpu / seconds,
    }


def time_steps(take: Any, first: int, steps: int, turns: int) -> list[float]:
    """Take so many steps, the first one with this number, and return how long each took, in seconds."""
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
