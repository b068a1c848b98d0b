"""Test what comes between: requests to stop, reads and errors while a pipeline starts."""

from __future__ import annotations

import gc
import operator
import threading
import weakref
from concurrent.futures import Future, ProcessPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import let_go, source, wait_until

from spdl.pipeline import PipelineFailure

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


class TestStartThatFails:
    """A pool's op cannot be sent to its processes, which is found after the first pool has started its own."""

    @staticmethod
    def _failing(meanwhile: Callable[[], object]) -> Pipeline[Any]:
        builder = source(range(10)).pipe(operator.neg, executor=Pool(meanwhile))
        return builder.pipe(lambda item: item, executor=Pool(_nothing)).add_sink(3).build(num_threads=1)

    def test_other_readers_are_told(self) -> None:
        got: list[str | int] = []
        reads = threading.Event()

        def read() -> None:
            reads.set()
            try:
                got.extend(pipeline.get_iterator(timeout=10))
            except PipelineFailure as failure:
                got.append(str(failure.exceptions[0]))

        reader = threading.Thread(target=read)

        def wait_for_reader() -> None:
            reader.start()
            assert reads.wait(10)
            assert wait_until(lambda: pipeline._engine.sink.readers)

        pipeline = self._failing(wait_for_reader)
        with pytest.raises(TypeError, match="cannot be sent"):
            pipeline.start()
        reader.join(10)
        assert len(got) == 1
        assert str(got[0]).startswith("The pipeline could not be started: TypeError: Stage '<lambda>': the op cannot")

    def test_later_reads_fail_and_a_stop_does_not(self) -> None:
        pipeline = self._failing(_nothing)
        with pytest.raises(TypeError, match="cannot be sent"):
            next(iter(pipeline))
        for _ in range(2):
            with pytest.raises(PipelineFailure) as raised:
                pipeline.get_item(timeout=10)
            assert "TypeError" in str(raised.value.exceptions[0])
        pipeline.stop()

    def test_nothing_is_kept(self) -> None:
        gc.collect()
        pipeline = self._failing(_nothing)
        executor = weakref.ref(pipeline._engine.nodes[0].executor)  # type: ignore[attr-defined]
        gone = weakref.ref(pipeline)
        with pytest.raises(TypeError) as raised:
            pipeline.start()
        # Its frames hold what took part in the start.
        del raised
        let_go()
        assert executor() is None
        del pipeline
        let_go()
        assert gone() is None
