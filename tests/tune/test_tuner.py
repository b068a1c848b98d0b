"""Pipelines that tune themselves, in real time.

How far a limit goes depends on the machine, so that is tested in virtual time; those that are about it are marked.
"""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Self

import pytest
from tests.pipeline.support import source, wait_until

from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.pipeline import Pipeline, PipelineBuilder


def sleeps(seconds: float) -> Callable[[int], int]:
    def op(item: int) -> int:
        time.sleep(seconds)
        return item

    return op


class Reader:
    """Reads a pipeline in a thread, until it is told to stop."""

    def __init__(self, pipeline: Pipeline[Any], seconds: float = 0.0) -> None:
        self.count = 0
        self.seconds = seconds
        self._pipeline = pipeline
        self._stopped = False
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        for _ in self._pipeline:
            self.count += 1
            if self.seconds:
                time.sleep(self.seconds)
            if self._stopped:
                return

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped = True
        self._thread.join()


def endless(*ops: Callable[[int], Any], **options: Any) -> PipelineBuilder[Any, Any]:
    builder = source(itertools.count())
    for index, op in enumerate(ops):
        builder.pipe(op, name=f"op{index}", **options)
    return builder


def slots(pipeline: Pipeline[Any], name: str = "op0") -> int:
    return next(stage.concurrency for stage in pipeline.statistics().stages if stage.name == name)


class TestTuning:
    def test_an_op_that_waits_gets_more_threads(self) -> None:
        pipeline = endless(sleeps(0.02)).add_sink().build(autotune=True)
        with pipeline.auto_stop(), Reader(pipeline):
            assert wait_until(lambda: slots(pipeline) > 1 and len(pipeline.tuning_log()) >= 2, 60)
        log = pipeline.tuning_log()
        assert [step.elapsed for step in log] == sorted(step.elapsed for step in log)
        # On a busy machine, others may come before.
        first = next(step for step in log if step.concurrency["op0"] > 1)
        assert f"concurrency of 'op0' 1 -> {first.concurrency['op0']}" in first.reason
        tuned = pipeline.tuned()
        assert tuned.num_threads == tuned.concurrency["op0"] == slots(pipeline)

    @pytest.mark.long
    def test_an_op_that_waits_gets_many_threads(self) -> None:
        pipeline = endless(sleeps(0.02)).add_sink().build(autotune=True)
        with pipeline.auto_stop(), Reader(pipeline) as reader:
            assert wait_until(lambda: slots(pipeline) >= 32, 20)
            before = reader.count
            time.sleep(1)
            # One thread would make 50.
            assert reader.count - before > 400
        assert pipeline.tuned().num_threads >= 32

    def test_an_async_op_takes_no_threads(self) -> None:
        async def op(item: int) -> int:
            await asyncio.sleep(0.05)
            return item

        pipeline = endless(op).add_sink().build(autotune=True)
        with pipeline.auto_stop(), Reader(pipeline):
            assert wait_until(lambda: slots(pipeline) >= 4, 60)
        assert pipeline.tuned().num_threads == 1

    @pytest.mark.long
    def test_a_slow_consumer_is_left_alone(self) -> None:
        pipeline = endless(sleeps(0.002)).add_sink().build(autotune=True)
        with pipeline.auto_stop(), Reader(pipeline, 0.02):
            assert wait_until(lambda: pipeline.tuned().settled, 20)
            time.sleep(1)
        assert pipeline.tuning_log() == []
        # On a busy machine it waits a little at times.
        assert "consumer is the limit" in pipeline.tuned().reason or "More slots" in pipeline.tuned().reason

    @pytest.mark.long
    def test_no_more_than_the_source_gives(self) -> None:
        def items() -> Any:
            while True:
                time.sleep(0.01)
                yield 1

        pipeline = source(items()).pipe(sleeps(0.02), name="op0").add_sink().build(autotune=True)
        with pipeline.auto_stop(), Reader(pipeline):
            assert wait_until(lambda: slots(pipeline) >= 2 and pipeline.tuned().settled, 30)
        assert slots(pipeline) <= 8
        assert "source is the limit" in pipeline.tuned().reason

    @pytest.mark.long
    def test_a_lock_inside_an_op_is_noticed(self) -> None:
        lock = threading.Lock()

        def op(item: int) -> int:
            with lock:
                time.sleep(0.01)
            return item

        pipeline = endless(op).add_sink().build(autotune=True)
        with pipeline.auto_stop(), Reader(pipeline):
            assert wait_until(lambda: pipeline.tuned().settled, 30)
            # Without a lock it would be 64.
            assert slots(pipeline) <= 8
        assert any("undone" in step.reason for step in pipeline.tuning_log())

    @pytest.mark.long
    def test_the_bytes_in_flight_are_a_limit(self) -> None:
        def op(_: int) -> bytes:
            time.sleep(0.02)
            return bytes(1 << 20)

        pipeline = endless(op).add_sink().build(autotune=True, max_bytes=6 << 20)
        with pipeline.auto_stop(), Reader(pipeline):
            assert wait_until(lambda: pipeline.tuned().settled, 30)
            assert 3 <= slots(pipeline) <= 16
            found = pipeline.statistics()
        # Where ops come late, there is room meanwhile, and the slots that are too many are empty.
        assert "bytes in flight" in pipeline.tuned().reason or "stay empty" in pipeline.tuned().reason
        assert found.peak_bytes <= found.max_bytes == 6 << 20


class TestPins:
    @pytest.mark.parametrize("concurrency", [1, 3])
    def test_a_concurrency_that_was_given_stays(self, concurrency: int) -> None:
        builder = endless(sleeps(0.01), concurrency=concurrency)
        pipeline = builder.pipe(sleeps(0.02), name="free").add_sink().build(autotune=True)
        with pipeline.auto_stop(), Reader(pipeline):
            assert wait_until(lambda: slots(pipeline, "free") > concurrency, 60)
            assert slots(pipeline) == concurrency
        assert all(step.concurrency["op0"] == concurrency for step in pipeline.tuning_log())

    def test_threads_that_were_given_stay(self) -> None:
        pipeline = endless(sleeps(0.02)).add_sink().build(autotune=True, num_threads=3)
        with pipeline.auto_stop(), Reader(pipeline):
            assert wait_until(lambda: slots(pipeline) == 3, 60)
        assert {step.num_threads for step in pipeline.tuning_log()} == {3}
        assert max(step.concurrency["op0"] for step in pipeline.tuning_log()) == 3

    def test_a_limit_that_is_set_meanwhile_stays(self) -> None:
        pipeline = endless(sleeps(0.02)).add_sink().build(autotune=True)
        with pipeline.auto_stop(), Reader(pipeline):
            assert wait_until(lambda: slots(pipeline) >= 2, 60)
            pipeline.set_concurrency("op0", 5)
            time.sleep(1)
            assert slots(pipeline) == 5
        assert pipeline.tuned().concurrency == {"op0": 5}

    def test_threads_that_are_set_meanwhile_stay(self) -> None:
        pipeline = endless(sleeps(0.02)).add_sink().build(autotune=True)
        with pipeline.auto_stop(), Reader(pipeline):
            pipeline.set_num_threads(4)
            assert wait_until(lambda: slots(pipeline) == 4, 60)
            time.sleep(0.5)
            assert pipeline.tuned().num_threads == 4

    def test_stages_that_cannot_change_are_left_alone(self) -> None:
        builder = source([[1, 2]] * 300).disaggregate().pipe(sleeps(0.002), name="op0").aggregate(10)
        pipeline = builder.add_sink().build(autotune=True)
        with pipeline.auto_stop():
            assert len(list(pipeline)) == 60
        assert pipeline.tuned().concurrency.keys() == {"op0"}

    def test_an_executor_gets_no_more_than_it_has_workers(self) -> None:
        with ThreadPoolExecutor(4) as executor:
            pipeline = endless(sleeps(0.02), executor=executor).add_sink().build(autotune=True)
            with pipeline.auto_stop(), Reader(pipeline):
                assert wait_until(lambda: slots(pipeline) == 4, 60)
            assert pipeline.tuned().num_threads == 1
            assert max(step.concurrency["op0"] for step in pipeline.tuning_log()) == 4


class TestAsking:
    def test_nothing_is_lost(self) -> None:
        raised = threading.Event()
        items = itertools.chain(itertools.takewhile(lambda _: not raised.is_set(), itertools.count()), [-1])
        builder = source(items).pipe(sleeps(0.004), output_order="input", name="op0")
        got: list[int] = []
        with builder.add_sink().build(autotune=True).auto_stop() as pipeline:
            for item in pipeline.get_iterator(timeout=50):
                got.append(item)
                if slots(pipeline) > 1:
                    raised.set()
        assert got == [*range(len(got) - 1), -1]
        assert raised.is_set()

    def test_a_state_says_that_items_may_have_overtaken_each_other(self) -> None:
        for options, in_order in (({}, False), ({"concurrency": 1}, True), ({"output_order": "input"}, True)):
            pipeline = source(range(5)).pipe(str, **options).add_sink().build(autotune=True)
            assert pipeline.state_dict()["in_order"] is in_order

    def test_a_state_says_so_also_when_the_limit_is_back_at_one(self) -> None:
        pipeline = source(range(5)).pipe(str).add_sink().build()
        assert pipeline.state_dict()["in_order"] is True
        pipeline.set_concurrency("str", 2)
        pipeline.set_concurrency("str", 1)
        assert pipeline.state_dict()["in_order"] is False

    def test_a_resumed_run_delivers_what_was_missing(self) -> None:
        def make() -> Pipeline[Any]:
            return source(range(400)).pipe(sleeps(0.002), name="op0").aggregate(7).add_sink().build(autotune=True)

        with make().auto_stop() as pipeline:
            received = [pipeline.get_item() for _ in range(20)]
            state = pipeline.state_dict()
        resumed = make()
        resumed.load_state_dict(state)
        with resumed.auto_stop():
            received += list(resumed)
        assert sorted(item for batch in received for item in batch) == list(range(400))

    def test_without_it_there_is_no_log(self) -> None:
        pipeline = source([1]).pipe(str).add_sink().build()
        with pytest.raises(RuntimeError, match="autotune=True"):
            pipeline.tuned()
        with pytest.raises(RuntimeError, match="autotune=True"):
            pipeline.tuning_log()

    def test_before_the_start_there_is_nothing_to_tell(self) -> None:
        pipeline = source([1]).pipe(str).add_sink().build(autotune=True)
        assert pipeline.tuning_log() == []
        assert pipeline.tuned().concurrency == {"str": 1}
        assert not pipeline.tuned().settled

    def test_a_flag_is_asked_for(self) -> None:
        with pytest.raises(TypeError, match="`autotune` must be True or False, got 'yes'"):
            source([1]).add_sink().build(autotune="yes")  # type: ignore[arg-type]

    def test_a_pipeline_without_stages(self) -> None:
        with source(range(5)).add_sink().build(autotune=True).auto_stop() as pipeline:
            assert list(pipeline) == list(range(5))
        assert pipeline.tuned().concurrency == {}

    def test_the_launcher_says_how_many_share_the_cores(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("LOCAL_WORLD_SIZE", "many")
        with pytest.raises(ValueError, match="LOCAL_WORLD_SIZE"):
            source([1]).add_sink().build(autotune=True)

    def test_off_it_is_not_imported(self) -> None:
        program = (
            "import sys; from spdl.pipeline import PipelineBuilder as B\n"
            "with B().add_source([1]).pipe(str).add_sink().build().auto_stop() as p: list(p)\n"
            "assert not [name for name in sys.modules if name.startswith('spdl.tune')]"
        )
        subprocess.run([sys.executable, "-c", program], check=True)


def same_item(item: int) -> int:
    return item


def test_stages_in_regions_are_told_as_they_were_declared() -> None:
    builder = source(range(100)).to(ProcessPoolExecutorConfig(2)).pipe(same_item, name="there", concurrency=3)
    with builder.to(MAIN_PROCESS).add_sink(3).build(autotune=True).auto_stop() as pipeline:
        assert len(list(pipeline)) == 100
    tuned = pipeline.tuned()
    assert tuned.concurrency["there"] == 3
    assert "name='there', concurrency=3)" in str(tuned)
