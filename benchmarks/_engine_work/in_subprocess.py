"""Measure items per second that come out of another process."""

from __future__ import annotations

import gc
import os
import resource
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from usage import peak_memory_mb

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


def make_bytes(size: int, index: int) -> bytes:
    """Make an item whose content tells which item it is."""
    return bytes((index & 255,)) * size


def make_array(size: int, index: int) -> Any:
    """Make the same item as a numpy array."""
    import numpy as np  # noqa: PLC0415 - the other works do without it.

    return np.full(size, index & 255, np.uint8)


MAKERS: dict[str, Callable[[int, int], Any]] = {"bytes": make_bytes, "array": make_array}


class Items:
    """An iterable that yields a number of items, over and over."""

    def __init__(self, items: int, make: Callable[[int], Any]) -> None:
        self.items, self.make = items, make

    def __call__(self) -> Items:
        """Return itself, as it is its own factory."""
        return self

    def __iter__(self) -> Iterator[Any]:
        """Yield the items."""
        return map(self.make, range(self.items))


def pipeline(*, items: int, size: int, kind: str, stages: int, threads: int) -> dict[str, float]:
    """Run a pipeline in another process that makes the items and passes them through stages that do nothing."""
    from stream import same  # noqa: PLC0415 - only this work needs it.

    from spdl.pipeline import PipelineBuilder, run_pipeline_in_subprocess  # noqa: PLC0415 - the contender's.

    builder: Any = PipelineBuilder().add_source(range(items)).pipe(partial(MAKERS[kind], size), output_order="input")
    for _ in range(stages - 1):
        builder.pipe(same, output_order="input")
    return measure(run_pipeline_in_subprocess(builder.add_sink(3).get_config(), num_threads=threads), items, size)


def iterable(*, items: int, size: int, kind: str) -> dict[str, float]:
    """Iterate in another process over the object that makes the items, without an engine."""
    from spdl.pipeline import iterate_in_subprocess  # noqa: PLC0415 - the contender's.

    return measure(iterate_in_subprocess(Items(items, partial(MAKERS[kind], size))), items, size)


def measure(there: Iterable[Any], items: int, size: int) -> dict[str, float]:
    """Check the items of a pass and return how fast they came. The pass before it is not measured."""
    for _ in there:
        pass
    wrong = 0
    begin = time.perf_counter()
    for count, item in enumerate(there):
        wrong += len(item) != size or item[0] != count & 255 or item[-1] != count & 255
    seconds = time.perf_counter() - begin
    if wrong or count != items - 1:
        raise SystemExit(f"{count + 1} items came out of {items}, {wrong} of them wrong")
    memory = peak_memory_mb() + _peak_memory_of_children_mb()
    del there
    gc.collect()
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(each.ru_utime + each.ru_stime for each in used)
    return {
        "items_per_second": items / seconds,
        "megabytes_per_second": items * size / seconds / 1e6,
        # The time of both passes and of starting two processes.
        "cpu_seconds_per_thousand": cpu / (2 * items) * 1e3,
        "peak_memory_mb": memory,
    }


def _peak_memory_of_children_mb() -> float:
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
    statuses = [Path(f"/proc/{pid}/status").read_text(encoding="ascii") for pid in children]
    lines = [line for status in statuses for line in status.splitlines() if line.startswith("VmHWM:")]
    return sum(int(line.split()[1]) for line in lines) / 1024
