"""Test what comes between: requests to stop, reads and errors while a pipeline starts."""

from __future__ import annotations

import gc
import operator
import threading
import weakref
from concurrent.futures import Future, ProcessPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import let_go, source

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.pipeline import Pipeline


class Pool(ProcessPoolExecutor):
    """A pool that calls a function when it is asked to start its processes, and starts none."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        super().__init__(1)
        self.meanwhile = meanwhile
        self.submitted = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.submitted += 1
        self.meanwhile()
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def _nothing() -> None: ...


def _with_pools(*pools: Pool) -> Pipeline[Any]:
    builder = source(range(10))
    for pool in pools:
        builder.pipe(operator.neg, executor=pool)
    return builder.add_sink(3).build(num_threads=1)


def _in_a_thread(function: Callable[[], object]) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join(20)


class TestStopDuringTheStart:
    """A request to stop comes while the first of two pools starts its processes."""

    @pytest.mark.parametrize("elsewhere", [True, False], ids=["other thread", "signal handler"])
    def test_it_ends_the_start(self, elsewhere: bool) -> None:  # noqa: FBT001 - it is parametrized.
        first = Pool(lambda: _in_a_thread(pipeline.stop) if elsewhere else pipeline.stop())
        second = Pool(_nothing)
        pipeline = _with_pools(first, second)
        assert list(pipeline.get_iterator(timeout=10)) == []
        assert (first.submitted, second.submitted) == (1, 0)
        assert not [thread for thread in threading.enumerate() if thread.name.startswith("spdl")]
        pipeline.stop()

    def test_nothing_is_kept(self) -> None:
        gc.collect()
        first, second = Pool(lambda: _in_a_thread(pipeline.stop)), Pool(_nothing)
        pipeline = _with_pools(first, second)
        pools = [weakref.ref(first), weakref.ref(second)]
        pipeline.start()
        first.meanwhile = _nothing
        del first, second
        let_go()
        assert [pool() for pool in pools] == [None, None]
