"""Ops and sources for the pipelines of these tests, and what the tests look at."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spdl.pipeline import PipelineBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from spdl.ray import RayLoader

SECONDS = 40.0


def slowly(item: Any) -> Any:
    """Return the item, in some time."""
    time.sleep(0.002)
    return item


def config(
    source: Any, *ops: Callable[..., Any], batch: int = 0, concurrency: int = 2, order: Any = "completion"
) -> Any:
    """Return a pipeline of these ops, and batches if they are asked for."""
    builder: Any = PipelineBuilder().add_source(source)
    for op in ops:
        builder = builder.pipe(op, concurrency=concurrency, output_order=order)
    if batch:
        builder = builder.aggregate(batch)
    return builder.add_sink(2).get_config()


def pids(loader: RayLoader[Any]) -> list[int]:
    """Return the numbers of the actors' processes that run."""
    return [actor.pid for actor in loader.statistics().actors]


def kill(pid: int) -> None:
    """Kill a process as the kernel does when memory runs out."""
    os.kill(pid, signal.SIGKILL)


def runs(pid: int) -> bool:
    """Return whether a process runs."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def descendants(pid: int) -> list[int]:
    """Return the processes below a process, and itself first."""
    found = [pid]
    for each in found:
        with suppress(OSError):
            for children in Path(f"/proc/{each}/task").glob("*/children"):
                found += map(int, children.read_text().split())
    return found


def await_that(condition: Callable[[], bool], what: str) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {SECONDS:g} s: {what}"
        time.sleep(0.02)


def is_free() -> bool:
    """Return whether all CPUs and all memory for objects are free."""
    import ray  # noqa: PLC0415 - an extra.

    total, free = ray.cluster_resources(), ray.available_resources()
    return all(free.get(name) == total[name] for name in ("CPU", "object_store_memory"))


def flat(batches: Iterable[Any]) -> list[Any]:
    """Return the items of batches."""
    return [item for batch in batches for item in batch]
