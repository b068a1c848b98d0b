"""Pipelines that tune themselves, left alone once they have settled, and then made slower.

Run as a program, it does the work of one case, given as JSON: `{"name": "waiting", "quiet": 60}`.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from _autotune_work import hashing, loading, looping, sleeping, straggling
from spdl.pipeline import PipelineBuilder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from _autotune_work import Op
    from spdl.pipeline import Pipeline

__all__ = ["CASES", "MARK", "Case"]

MARK = 0.92
TIMES = 4
"""How many times slower the ops become."""
# Seconds of a look at the rate, after which the pipelines must have settled or be as fast again, and for which they are
# watched then.
LOOK, TOO_LONG, WATCHED = 0.5, 60.0, 10.0


class Case(NamedTuple):
    """A pipeline to leave alone.

    Attributes:
        title: What it is.
        make: Makes the first op, which becomes slower, of the factor by which it is.
        others: Makes the ops behind it.
        consumer: Seconds that the loop takes for each item.
        share: Which part of its rate it can have again: all of it where the loop is the limit, and a quarter where the
            cores or the GIL are.
        computes: Whether it takes whole cores, so that no other case may run beside it.
        pipelines: How many such pipelines run at once in the process.
        max_bytes: The bytes that the items of a pipeline may keep; None for no bound.
    """

    title: str
    make: Callable[[float], Op]
    others: Callable[[], Sequence[Op]] = list
    consumer: float = 0.0
    share: float = 1.0
    computes: bool = False
    pipelines: int = 1
    max_bytes: int | None = None


def _threaded(factor: float) -> Op:
    """Return an op that computes on two threads of its own."""
    pool, half = ThreadPoolExecutor(2), hashing(0.004 * factor)

    def op(item: Any) -> Any:
        list(pool.map(half, (item, item)))
        return item

    return op


CASES = {
    "still": Case("20 ms of waiting; the loop takes 4 ms", lambda factor: sleeping(0.02 * factor), consumer=0.004),
    # No op may take as long as the pipeline has to be as fast again.
    "still_stragglers": Case(
        "5 ms of waiting, 1 % of the items 0.25 s; the loop takes 2 ms",
        lambda factor: straggling(0.005 * factor),
        consumer=0.002,
    ),
    "still_two_stages": Case(
        "5 ms of waiting and 1 ms of native code; the loop takes 20 ms",
        lambda factor: sleeping(0.005 * factor),
        lambda: [hashing(0.001)],
        consumer=0.02,
    ),
    "still_two_pipelines": Case(
        "20 ms of waiting and 1 ms of native code, two such pipelines at once; each loop takes 10 ms",
        lambda factor: sleeping(0.02 * factor),
        lambda: [hashing(0.001)],
        consumer=0.01,
        pipelines=2,
    ),
    "still_large": Case(
        "50 ms of waiting, items of 64 MB under 512 MB; the loop takes 50 ms",
        lambda factor: loading(0.05 * factor, 64 << 20),
        consumer=0.05,
        max_bytes=512 << 20,
    ),
    "still_gil": Case("3 ms of Python", lambda factor: looping(0.003 * factor), share=1 / TIMES, computes=True),
    "still_cpu": Case("8 ms of native code", lambda factor: hashing(0.008 * factor), share=1 / TIMES, computes=True),
    "still_threaded": Case("8 ms of native code on two threads of its own", _threaded, share=1 / TIMES, computes=True),
}


class Slowing:
    """An op that can be replaced by a slower one."""

    def __init__(self, op: Op) -> None:
        self.op = op

    def __call__(self, item: Any) -> Any:
        """Do what the op does."""
        return self.op(item)


class Loop:
    """The loop of a pipeline: a thread that reads all the time, and counts."""

    def __init__(self, pipeline: Pipeline[Any], seconds: float) -> None:
        self.count = 0
        self._items, self._seconds = pipeline.get_iterator(), seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        for _ in self._items:
            self.count += 1
            if self._seconds:
                time.sleep(self._seconds)
            if self._ended.is_set():
                break

    def end(self) -> None:
        """Read no more."""
        self._ended.set()
        self._thread.join()


def hold_still(case: Case, quiet: float) -> dict[str, Any]:
    """Let pipelines settle, look whether they stay quiet, make their first op slower, and wait for their rate."""
    first = Slowing(case.make(1))
    ops = [first, *case.others()]
    pipelines = [_tuned(ops, case.max_bytes) for _ in range(case.pipelines)]
    slower = case.make(TIMES)
    for pipeline in pipelines:
        pipeline.start()
    loops = [Loop(pipeline, case.consumer) for pipeline in pipelines]

    def rate(seconds: float) -> float:
        begin, before = time.perf_counter(), sum(loop.count for loop in loops)
        time.sleep(seconds)
        return (sum(loop.count for loop in loops) - before) / (time.perf_counter() - begin)

    def settled() -> bool:
        return all(pipeline.tuned().settled for pipeline in pipelines)

    def steps() -> int:
        return sum(len(pipeline.tuning_log()) for pipeline in pipelines)

    try:
        begin = time.perf_counter()
        while not settled() and time.perf_counter() - begin < TOO_LONG:
            time.sleep(LOOK)
        found: dict[str, Any] = {
            "title": case.title,
            "settled_after_seconds": time.perf_counter() - begin if settled() else None,
            "quiet_seconds": quiet,
        }
        before = steps()
        found["per_second"] = per_second = rate(quiet)
        found["changes_while_quiet"] = steps() - before
        begin, first.op = time.perf_counter(), slower
        wanted = MARK * case.share * per_second
        while rate(LOOK) < wanted and time.perf_counter() - begin < TOO_LONG:
            pass
        found["again_after_seconds"] = time.perf_counter() - begin
        found |= {"share_again": case.share, "per_second_again": rate(WATCHED)}
        found["settled_again"] = settled()
        return found | {"found": [dict(pipeline.tuned().concurrency) for pipeline in pipelines]}
    finally:
        for loop in loops:
            loop.end()
        for pipeline in pipelines:
            pipeline.stop()


def _tuned(ops: Sequence[Op], max_bytes: int | None) -> Pipeline[Any]:
    builder = PipelineBuilder[Any, Any]().add_source(range(10**9))
    for index, op in enumerate(ops):
        builder.pipe(op, name=f"op{index}")
    return builder.add_sink().build(autotune=True, max_bytes=max_bytes)


if __name__ == "__main__":
    arguments = json.loads(sys.argv[1])
    print(json.dumps(hold_still(CASES[arguments["name"]], arguments["quiet"])))
