"""A training loop that takes batches at a fixed rate: how evenly its steps run beside a loader.

A step is some milliseconds of work in Python, a number of turns that is found beforehand, so that what is interrupted
takes longer instead of doing less. Then the loop waits without the GIL, as for an accelerator, until the next step is
due. Every so many steps begin with taking a batch. What is timed is the step with its taking, without the wait. The
loader works ahead as far as it does by itself, and is held up by the loop: all give the same images per second.

A machine that is shared is fast at some moments and slow at others, and the slow ones make up the upper percentiles.
So as many steps as beside the loader run with none, one half right before it is opened and the other right after it is
closed, and each percentile is divided by the same one of these, so that p99 may be less than p95.
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
"""Where the machine is as fast as it gets."""
STEPS_PER_BATCH = 10
IMAGES_PER_SECOND = BATCH / (STEPS_PER_BATCH * PERIOD)
PERCENTILES = {"p50": 50, "p95": 95, "p99": 99}
WARM_UP = 40
"""Steps before the time counts: each loader has filled its buffers by then."""
FIRST = 10
"""Steps before the time counts where there is no loader: the first ones take longer."""


def train(
    *, loader: str | None, keywords: dict[str, Any], folder: str, workers: int, steps: int, step_turns: int
) -> dict[str, float]:
    """Run so many steps beside a loader; None is no loader."""
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
    """Time the steps with no loader, after some that do not count."""
    time_steps(lambda: None, 0, FIRST, turns)
    return time_steps(lambda: None, 0, steps, turns)


def percentile(values: list[float], percent: int) -> float:
    """Return the least value that so many percent do not exceed."""
    return sorted(values)[ceil(len(values) * percent / 100) - 1]


def run_steps(take: Any, steps: int, turns: int) -> tuple[list[float], dict[str, float]]:
    """Time the steps, after some that do not count, and say what all of it took."""
    time_steps(take, 0, WARM_UP, turns)
    cpu, began = cpu_seconds(), time.perf_counter()
    took = time_steps(take, WARM_UP, steps, turns)
    seconds, cpu = time.perf_counter() - began, cpu_seconds() - cpu
    return took, {
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
