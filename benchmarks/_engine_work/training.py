"""A stand-in for a training loop, to measure how evenly its steps run while a loader works beside it.

A step is a millisecond of work in Python. 400 times a second, a step begins by taking the next item, which is a
millisecond of work on one core without the GIL. Between two such steps, the loop either waits without the GIL, as for
an accelerator, or goes on with steps that take no item. The time of a step includes taking the item and excludes that
wait. Both kinds of work are a fixed number of turns, found beforehand, so that interrupted work takes longer instead of
doing less.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import AbstractContextManager, nullcontext
from queue import Queue
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from usage import cpu_seconds, peak_memory_mb, spread

if TYPE_CHECKING:
    from collections.abc import Callable

PERIOD = 1 / 400
# Items that may wait for the loop. All loaders work ahead until this many wait.
AHEAD = 10
# Each loader fills its buffers before the first step that is timed.
WARM_UP = 100


def python_work(turns: int) -> int:
    """Hold the GIL for a number of turns of a loop."""
    state = 1
    for _ in range(turns):
        state = state * 1_103_515_245 + 12_345 & 0x7FFF_FFFF
    return state


def native_work(turns: int) -> bytes:
    """Keep a core busy without the GIL, which is released once and taken back once. It needs hardly any memory."""
    return hashlib.pbkdf2_hmac("sha256", b"item", b"salt", turns)


def calibrate() -> dict[str, int]:
    """Return how many turns of each kind of work take a millisecond when nothing interferes."""
    return {"step_turns": _turns(python_work), "item_turns": _turns(native_work)}


def _turns(work: Callable[[int], Any]) -> int:
    turns = 1000
    # The first guess is too short to be exact.
    for times in (100, 300):
        fastest = float("inf")
        for _ in range(times):
            begin = time.perf_counter()
            work(turns)
            fastest = min(fastest, time.perf_counter() - begin)
        turns = round(turns * 0.001 / fastest)
    return turns


def no_loader(*, steps: int, wait: bool, step_turns: int, item_turns: int) -> dict[str, float]:
    """Run the steps alone."""
    del item_turns
    return _train(lambda: None, nullcontext(), steps, step_turns, wait=wait)


def bare_threads(*, steps: int, wait: bool, step_turns: int, item_turns: int, threads: int) -> dict[str, float]:
    """Let bare threads do the items' work and put the items into a queue."""
    items: Queue[bytes] = Queue(AHEAD)
    ended = Event()

    def load() -> None:
        while not ended.is_set():
            items.put(native_work(item_turns))

    loaders = [Thread(target=load, daemon=True) for _ in range(threads)]
    for thread in loaders:
        thread.start()
    result = _train(items.get, nullcontext(), steps, step_turns, wait=wait)
    ended.set()
    # The queue has room for the items that each thread may still put.
    for _ in range(items.qsize()):
        items.get()
    for thread in loaders:
        thread.join()
    return result


def pipeline(*, steps: int, wait: bool, step_turns: int, item_turns: int, threads: int) -> dict[str, float]:
    """Let a pipeline do the items' work."""
    from spdl.pipeline import PipelineBuilder  # noqa: PLC0415 - the bare contenders do without.

    builder: Any = PipelineBuilder().add_source(range(10**9))
    builder.pipe(lambda _: native_work(item_turns), concurrency=threads)
    built = builder.add_sink(AHEAD).build(num_threads=threads)
    items = iter(built)
    return _train(lambda: next(items), built.auto_stop(), steps, step_turns, wait=wait)


def _train(
    take: Callable[[], Any], running: AbstractContextManager[Any], steps: int, turns: int, *, wait: bool
) -> dict[str, float]:
    took = []
    items = 0
    cpu = began = 0.0
    with running:
        due = time.perf_counter()
        for step in range(WARM_UP + steps):
            if step == WARM_UP:
                cpu, began, items = cpu_seconds(), time.perf_counter(), 0
            begin = time.perf_counter()
            if begin >= due:
                take()
                items += 1
                due += PERIOD
            python_work(turns)
            took.append(time.perf_counter() - begin)
            if wait:
                time.sleep(max(0.0, due - time.perf_counter()))
        seconds, cpu = time.perf_counter() - began, cpu_seconds() - cpu
    return {
        **spread(took[WARM_UP:]),
        "steps_per_second": steps / seconds,
        "items_per_second": items / seconds,
        "cpu_seconds": cpu,
        "peak_memory_mb": peak_memory_mb(),
    }
