"""Measure the states of a running pipeline over a billion items: the time to make one, its size, and the way back.

Claims: `state_dict()` takes less than 50 microseconds while the pipeline runs, and its JSON has less than 1 kB, or less
than 8 kB if one item has been stuck since the beginning while others overtook it. A new pipeline that is told such a
state has its first item within 200 ms, which includes building it. `ImageLoader` stands beside it, with photos.

Run it as `python benchmarks/resume.py [--rounds N] [--json FILE]`. Rounds take turns. The exit status says whether the
claims hold.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import threading
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from spdl.cli._common.machine import provenance
from spdl.dataloader import ImageLoader
from spdl.pipeline import PipelineBuilder
from spdl.source import EpochSampler

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.pipeline import Pipeline

ITEMS = 10**9
READ = 20_000
ASKED = 500
MARKS = {
    "microseconds": 50.0,
    "bytes": 1_000.0,
    "bytes_with_one_stuck": 8_000.0,
    "first_item_milliseconds": 200.0,
    "loader_microseconds": 50.0,
    "loader_bytes": 1_000.0,
    "loader_first_batch_milliseconds": 200.0,
}

Figures = dict[str, float]


def build(op: Callable[[int], Any]) -> Pipeline[Any]:
    """Return a pipeline over all items in a random order."""
    source = EpochSampler(ITEMS, seed=1, rank=0, world_size=1)
    return PipelineBuilder().add_source(source).pipe(op, concurrency=4).add_sink(16).build(num_threads=4)


def ask(read: Callable[[], object], state_dict: Callable[[], Any]) -> tuple[float, Any]:
    """Return the median time of a state in microseconds, and the last one. Between two of them an item is read."""
    times, state = [], None
    for _ in range(ASKED):
        read()
        begin = perf_counter()
        state = state_dict()
        times.append(perf_counter() - begin)
    return 1e6 * statistics.median(times), state


def running() -> Figures:
    """Ask a pipeline that runs, and have another one go on."""
    with build(abs).auto_stop() as pipeline:
        items = iter(pipeline)
        for _ in range(READ):
            next(items)
        microseconds, state = ask(lambda: next(items), pipeline.state_dict)
    begin = perf_counter()
    resumed = build(abs)
    resumed.load_state_dict(state)
    with resumed.auto_stop():
        next(iter(resumed))
        first = perf_counter() - begin
    return {"microseconds": microseconds, "bytes": len(json.dumps(state)), "first_item_milliseconds": 1000 * first}


def stuck() -> Figures:
    """Ask a pipeline whose first item is not done."""
    held, free = threading.Lock(), threading.Event()

    def op(item: int) -> int:
        if held.acquire(blocking=False):
            free.wait()
        return item

    with build(op).auto_stop() as pipeline:
        items = iter(pipeline)
        for _ in range(READ):
            next(items)
        state = pipeline.state_dict()
        free.set()
    return {"bytes_with_one_stuck": len(json.dumps(state))}


def loader() -> Figures:
    """Ask the image loader, and have another one go on."""
    photo = b"P6 8 8 255 " + bytes(8 * 8 * 3)

    def make() -> ImageLoader:
        return ImageLoader([(photo, 0)] * 1_000_000, 4, size=8, shuffle=True, num_threads=2, output="numpy")

    made = make()
    batches = iter(made)
    microseconds, state = ask(lambda: next(batches), made.state_dict)
    batches.close()
    begin = perf_counter()
    resumed = make()
    resumed.load_state_dict(state)
    next(iter(resumed))
    return {
        "loader_microseconds": microseconds,
        "loader_bytes": len(json.dumps(state)),
        "loader_first_batch_milliseconds": 1000 * (perf_counter() - begin),
    }


def main() -> int:
    """Measure, print the medians, and write all figures if that is asked for. Return the exit status."""
    parser = argparse.ArgumentParser(description="Measure the states of running pipelines.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to this file")
    options = parser.parse_args()

    figures: dict[str, list[float]] = {name: [] for name in MARKS}
    for number in range(options.rounds + 1):
        for measure in (running, stuck, loader):
            found = measure()
            # The first round imports and compiles what a running program already has.
            for name in found if number else ():
                figures[name].append(found[name])
    medians = {name: statistics.median(values) for name, values in figures.items()}
    held = {name: medians[name] < mark for name, mark in MARKS.items()}
    for name, median in medians.items():
        verdict = "held" if held[name] else "MISSED"
        span = f"from {min(figures[name]):,.1f} to {max(figures[name]):,.1f}"
        print(f"{name:32} median {median:10,.1f}  {span}  mark {MARKS[name]:,.0f}: {verdict}")
    if options.json:
        result = {"items": ITEMS, "marks": MARKS, "held": held, "figures": figures, "provenance": provenance()}
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return 0 if all(held.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
