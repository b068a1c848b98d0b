"""Helpers that the tests of the engine share."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import threading
import time
import zlib
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from spdl.pipeline import Pipeline, PipelineBuilder

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


# Without a GIL, an object whose last reference another thread drops lives on until its own thread, which may be asleep,
# or the collector frees it. With a GIL it dies at once, and tests must not need the collector.
FREE_THREADED = not getattr(sys, "_is_gil_enabled", lambda: True)()


def let_go() -> None:
    """Make sure that all unreferenced objects are dead, except for cycles."""
    if FREE_THREADED:
        gc.collect()


def source(items: Any, **kwargs: Any) -> PipelineBuilder[Any, Any]:
    return PipelineBuilder[Any, Any]().add_source(items, **kwargs)


def run(builder: PipelineBuilder[Any, Any], *, num_threads: int = 4, sink: int = 3) -> list[Any]:
    with builder.add_sink(sink).build(num_threads=num_threads).auto_stop() as pipeline:
        return list(pipeline.get_iterator(timeout=20))


def wait_until(condition: Callable[[], object], seconds: float = 20) -> bool:
    """Wait for a condition, and return whether it came true. The limit only guards against waiting for ever."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


class Gate:
    """A gate that threads wait at, and that tells when one has come.

    Wherever a busy machine holds that thread up then, the call of `wait` and `wait` itself end its stack.
    """

    def __init__(self) -> None:
        self._closed = threading.Lock()
        self._closed.acquire()
        self._is_set = False
        self._arrivals: SimpleQueue[None] = SimpleQueue()

    def wait(self, timeout: float) -> bool:
        """Wait until it is opened, and return whether it was."""
        self._arrivals.put(None)
        if not self._closed.acquire(timeout=timeout):
            return False
        self._closed.release()
        return True

    def is_awaited(self, seconds: float = 20) -> bool:
        """Wait until a thread comes to wait, and return whether one has come."""
        try:
            self._arrivals.get(timeout=seconds)
        except Empty:
            return False
        return True

    def set(self) -> None:
        """Open it."""
        if not self._is_set:
            self._is_set = True
            self._closed.release()


def rests(pipeline: Pipeline[Any]) -> bool:
    """Return whether all workers are idle and no source is pulled, as all places are taken or nothing is left."""
    engine = pipeline._engine
    with engine.lock:
        workers = engine.workers
        if not 0 < len(workers.idle) == len(workers._gates):
            return False
        return not any(
            source.pulling or source.closing or (source.has_place() and not source.ended) for source in engine.sources
        )


def twice(x: int) -> Iterator[int]:
    yield x
    yield x + 100


async def twice_async(x: int) -> AsyncIterator[int]:
    yield x
    await asyncio.sleep(0)
    yield x + 100


def slow_first(x: int) -> int:
    time.sleep(0.05 if x == 0 else 0)
    return x


def fails_at(*bad: int) -> Any:
    def op(x: int) -> int:
        if x in bad:
            raise ValueError(f"{x} is bad")
        return x

    return op


def build(
    source: Any = range(10), op: Any = None, *, sink: int = 3, num_threads: int = 2, **kwargs: Any
) -> Pipeline[Any]:
    builder = PipelineBuilder[Any, Any]().add_source(source)
    if op is not None:
        builder.pipe(op, **kwargs)
    return builder.add_sink(sink).build(num_threads=num_threads)


def through_json(pipeline: Pipeline[Any]) -> Any:
    """Return the pipeline's state after a way through a file."""
    return json.loads(json.dumps(pipeline.state_dict()))


def written_by_hand(state: Any) -> Any:
    """Return a state with the checksum of its content, as if somebody had written it."""
    content = {name: part for name, part in state.items() if name != "checksum"}
    return {**content, "checksum": zlib.crc32(json.dumps(content, sort_keys=True).encode())}


def rest(pipeline: Pipeline[Any], state: Any) -> list[Any]:
    """Return what comes in a pipeline that goes on from a state."""
    pipeline.load_state_dict(state)
    with pipeline.auto_stop():
        return list(pipeline.get_iterator(timeout=20))
