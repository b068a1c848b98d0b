"""Measure the shuffling of a billion indices: the time to the first one, the memory, and how many come per second.

Claims: an order of 10**9 indices yields its first one in less than 1 ms and never holds 1 MB, and 20 million indices a
second on one thread are computed in arrays. Beside it stands numpy's permutation, which draws everything first: it is
measured with 10**7 indices, since a hundred times as many would need 8 GB.

Run it as `python benchmarks/shuffle.py [--rounds N] [--json FILE]`. Rounds take turns. The exit status says whether the
claims hold.
"""

import argparse
import json
import statistics
import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np

from spdl.cli._common.machine import provenance
from spdl.source import EpochSampler, KeyedPermutation

INDICES = 10**9
BESIDE = 10**7
ARRAY = 2_000_000
MARKS = {"first_milliseconds": 1.0, "megabytes": 1.0, "indices_per_second": 20e6}


def first_milliseconds(seed: int) -> float:
    """Return how long a new sampler takes until its first index."""
    begin = perf_counter()
    next(iter(EpochSampler(INDICES, seed=seed, batch_size=256, rank=3, world_size=8)))
    return 1000 * (perf_counter() - begin)


def megabytes(seed: int) -> float:
    """Return the most memory that Python and numpy hold while a hundred thousand indices are read one by one."""
    tracemalloc.start()
    try:
        for _ in zip(range(100_000), EpochSampler(INDICES, seed=seed, rank=3, world_size=8), strict=False):
            pass
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


def indices_per_second(seed: int) -> float:
    """Return how many indices are computed per second of wall time, as arrays of 8,192."""
    order = KeyedPermutation(INDICES, seed=seed)
    positions = np.arange(seed * ARRAY, (seed + 1) * ARRAY).reshape(-1, 8000)
    begin = perf_counter()
    for part in positions:
        order.take(part)
    return ARRAY / (perf_counter() - begin)


def iterated_per_second(seed: int) -> float:
    """Return how many indices a sampler yields per second to a loop that does nothing."""
    sampler = EpochSampler(INDICES, seed=seed, batch_size=256, rank=3, world_size=8)
    begin = perf_counter()
    for _ in zip(range(ARRAY // 2), sampler, strict=False):
        pass
    return ARRAY / 2 / (perf_counter() - begin)


def numpy_first_milliseconds(seed: int) -> float:
    """Return how long numpy takes until the first index of an order of a hundredth of the size."""
    begin = perf_counter()
    np.random.default_rng(seed).permutation(BESIDE)[0]
    return 1000 * (perf_counter() - begin)


WORK: dict[str, Callable[[int], float]] = {
    "first_milliseconds": first_milliseconds,
    "megabytes": megabytes,
    "indices_per_second": indices_per_second,
    "iterated_per_second": iterated_per_second,
    "numpy_first_milliseconds": numpy_first_milliseconds,
}


def judge(medians: dict[str, float]) -> dict[str, bool]:
    """Return for each claim whether it holds."""
    return {
        name: medians[name] >= mark if name.endswith("per_second") else medians[name] < mark
        for name, mark in MARKS.items()
    }


def main() -> int:
    """Measure, print the medians, and write all figures if that is asked for. Return the exit status."""
    parser = argparse.ArgumentParser(description="Measure the shuffling of a billion indices.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to this file")
    options = parser.parse_args()

    # The first call imports and compiles what a running program already has.
    first_milliseconds(0)
    figures: dict[str, list[float]] = {name: [] for name in WORK}
    for seed in range(1, options.rounds + 1):
        for name, work in WORK.items():
            figures[name].append(work(seed))
    medians = {name: statistics.median(values) for name, values in figures.items()}
    held = judge(medians)
    for name, median in medians.items():
        verdict = f"  mark {MARKS[name]:,.0f}: {'held' if held[name] else 'MISSED'}" if name in held else ""
        print(f"{name:26} median {median:16,.3f}  from {min(figures[name]):,.3f} to {max(figures[name]):,.3f}{verdict}")
    if options.json:
        result = {"indices": INDICES, "marks": MARKS, "held": held, "figures": figures, "provenance": provenance()}
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    return 0 if all(held.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
