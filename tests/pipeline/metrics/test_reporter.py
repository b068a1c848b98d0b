"""Test the lines that pipelines log about their stages and queues."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import itertools
import logging
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.metrics.lines import QUEUES, TASKS, Lines
from tests.pipeline.support import rests, source, wait_until

from spdl.pipeline import (
    AsyncQueue,
    PipelineBuilder,
    PipelineFailure,
    QueuePerfStats,
    StageInfo,
    StatsQueue,
    TaskHook,
    TaskPerfStats,
    TaskStatsHook,
    build_pipeline,
)
from spdl.pipeline.config import set_compact_log, set_default_hook_class, set_default_queue_class
from spdl.pipeline.defs import Aggregate, Merge, Pipe, PipelineConfig, SinkConfig, SourceConfig

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(autouse=True)
def _listen(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "spdl.pipeline")


def nap(seconds: float) -> Callable[[Any], Any]:
    def op(x: Any) -> Any:
        time.sleep(seconds)
        return x

    return op


def drain(pipeline: Any, *, consume: float = 0) -> list[Any]:
    items = []
    with pipeline.auto_stop():
        for item in pipeline.get_iterator(timeout=20):
            items.append(item)
            time.sleep(consume)
    return items


def run(builder: PipelineBuilder[Any, Any], *, consume: float = 0, sink: int = 3, **kwargs: Any) -> list[Any]:
    return drain(builder.add_sink(sink).build(num_threads=kwargs.pop("num_threads", 4), **kwargs), consume=consume)


class TestWords:
    """The lines equal the reference's to the letter. The expected ones are from a run of it."""

    @pytest.mark.parametrize(
        ("seconds", "shown"),
        [
            (0, "   0.0 [ us]"),
            (4e-9, "   0.0 [ us]"),
            (99.94e-6, "  99.9 [ us]"),
            (99.96e-6, " 100.0 [ us]"),
            (1e-4, "   0.1 [ ms]"),
            (0.09994, "  99.9 [ ms]"),
            (0.9999, " 999.9 [ ms]"),
            (1.0, "   1.0 [sec]"),
            (3599, "3599.0 [sec]"),
            (12345678.0, "12345678.0 [sec]"),
        ],
    )
    def test_durations(self, caplog: pytest.LogCaptureFixture, seconds: float, shown: str) -> None:
        stats = TaskPerfStats(123456, 1234, seconds, seconds, seconds)
        asyncio.run(TaskStatsHook(StageInfo(0, "1", "x", 2)).interval_stats_callback(stats))
        assert caplog.messages == [
            f"[0:1:x[2]]\tCompleted 123456 tasks (1234 failed). Ave task time: {shown}. P90: {shown}. P99: {shown}."
        ]

    @pytest.mark.parametrize(("rate", "shown"), [(0.0049, 0), (0.015, 1), (0.995, 99), (0.999, 99), (1.0, 100)])
    def test_queues(self, caplog: pytest.LogCaptureFixture, rate: float, shown: int) -> None:
        stats = QueuePerfStats(100.0, 5, 1e-6, 2e-6, 3e-6, 4e-6, 5e-6, 6e-6, rate)
        asyncio.run(StatsQueue[Any](StageInfo(0, "1", "x", 2)).interval_stats_callback(stats))
        (line,) = caplog.messages
        assert line == (
            "[0:1:x[2]_queue]\tProcessed     5 items in  100.0 [sec] (QPS:    0.1) Ave wait time: put:    1.0 [ us], "
            "get (by next stage):    2.0 [ us]. P90: put:    3.0 [ us], get:    5.0 [ us]. P99: put:    4.0 [ us], "
            f"get:    6.0 [ us]. Occupancy rate: {shown}%"
        )


class TestWhatIsReported:
    """Each stage and each queue gets one line when it has ended."""

    def test_stages_one_behind_the_other(self, caplog: pytest.LogCaptureFixture) -> None:
        def fails(x: int) -> int:
            if x == 5:
                raise ValueError(x)
            return x

        graph = source(range(20)).pipe(fails, concurrency=2, name="decode").aggregate(4)
        assert len(run(graph)) == 5
        lines = Lines(caplog.records)
        batch = "2:aggregate(op=collate(4), drop_last=False)"
        assert lines.names() == (["1:decode[2]", batch], ["0:src", "1:decode[2]", "3:sink"])
        decode = lines.task("decode[2]")
        assert (decode.num_tasks, decode.num_failures) == (20, 1)
        assert lines.task(batch).num_tasks == 19
        items = {name: stats.num_items for name, stats in lines.queues}
        assert items == {"0:src": 20, "1:decode[2]": 19, "3:sink": 5}

    def test_a_plain_queue_at_the_sink_leaves_the_last_stage_its_line(self, caplog: pytest.LogCaptureFixture) -> None:
        def queue_class(info: StageInfo, *, buffer_size: int) -> AsyncQueue[Any]:
            plain = info.stage_name == "sink"
            return (AsyncQueue if plain else StatsQueue)(info, buffer_size=buffer_size)

        graph = source(range(6)).pipe(lambda x: x, name="last")
        assert len(run(graph, queue_class=queue_class)) == 6
        assert Lines(caplog.records).names()[1] == ["0:src", "1:last"]

    def test_graphs(self, caplog: pytest.LogCaptureFixture) -> None:
        branches = [PipelineConfig(SourceConfig(range(4)), [Pipe(abs, name="abs")], SinkConfig(1)) for _ in range(2)]
        config = PipelineConfig(Merge(branches), [Pipe(str, name="str")], SinkConfig(2))
        assert len(drain(build_pipeline(config, num_threads=2))) == 8
        lines = Lines(caplog.records)
        assert lines.names() == (
            ["0:merge", "2:abs", "4:abs", "5:str"],
            ["0:merge", "1:src[0]", "2:abs", "3:src[1]", "4:abs", "6:sink"],
        )
        counts = {name: stats.num_tasks for name, stats in lines.tasks}
        assert counts == {"0:merge": 0, "2:abs": 4, "4:abs": 4, "5:str": 8}
        items = {name: stats.num_items for name, stats in lines.queues}
        assert items == {"0:merge": 8, "1:src[0]": 4, "2:abs": 4, "3:src[1]": 4, "4:abs": 4, "6:sink": 8}
        assert all(stats.ave_get_time < 5 for _, stats in lines.queues)

    def test_forks(self, caplog: pytest.LogCaptureFixture) -> None:
        paths: list[list[Any]] = [[Pipe(str, name="str")], [Pipe(float, name="float"), Aggregate(2)]]
        graph = source(range(10)).path_variants(lambda x: x % 2, paths)
        assert len(run(graph)) == 8
        texts = [record.getMessage() for record in caplog.records if record.name in (TASKS, QUEUES)]
        stages = sorted(text.split("]\t")[0].split(":", 2)[2] for text in texts)
        assert stages == sorted(
            [
                "src_queue",
                "path_variants",
                "path_variants_path0_queue",
                "path_variants_path1_queue",
                "str",
                "str_queue",
                "float",
                "float_queue",
                "aggregate(op=collate(2), drop_last=False)",
                "aggregate(op=collate(2), drop_last=False)_queue",
                "path_variants_merge",
                "sink_queue",
            ]
        )

    def test_a_source_alone(self, caplog: pytest.LogCaptureFixture) -> None:
        assert run(source(range(7))) == list(range(7))
        lines = Lines(caplog.records)
        assert lines.names() == ([], ["1:sink"])
        assert lines.queue("sink").num_items == 7

    def test_an_end_before_the_end_is_one(self, caplog: pytest.LogCaptureFixture) -> None:
        pipeline = source(range(1000)).pipe(nap(0.001), name="op").add_sink(3).build(num_threads=2)
        with pipeline.auto_stop():
            for _ in range(5):
                pipeline.get_item(timeout=10)
        lines = Lines(caplog.records)
        assert lines.names() == (["1:op"], ["0:src", "2:sink"])
        assert lines.queue("sink").num_items == 5
        assert 5 <= lines.task("op").num_tasks < 50

    def test_a_pipeline_that_fails(self, caplog: pytest.LogCaptureFixture) -> None:
        def op(x: int) -> int:
            raise ValueError(x)

        with pytest.raises(PipelineFailure):
            run(source(range(100)).pipe(nap(0.001), name="first").pipe(op, name="bad", max_failures=2))
        lines = Lines(caplog.records)
        assert lines.names() == (["1:first", "2:bad"], ["0:src", "1:first", "3:sink"])
        assert (lines.task("bad").num_tasks, lines.task("bad").num_failures, lines.task("bad").ave_time) == (3, 3, 0)
        assert lines.queue("sink").num_items == 0

    @pytest.mark.parametrize("compact", [True, False])
    def test_compact_logs_have_the_same_lines(self, caplog: pytest.LogCaptureFixture, *, compact: bool) -> None:
        set_compact_log(compact)
        try:
            run(source(range(3)).pipe(str, name="op"))
        finally:
            set_compact_log(None)
        assert Lines(caplog.records).names() == (["1:op"], ["0:src", "2:sink"])

    def test_with_nobody_listening_nothing_is_logged(self, caplog: pytest.LogCaptureFixture) -> None:
        caplog.set_level(logging.WARNING, "spdl.pipeline")
        run(source(range(30)).pipe(nap(0.002)), report_stats_interval=0.01)
        assert not caplog.records


class TestWhoAsksForThem:
    """Hooks produce the lines about tasks, and queues those about queues."""

    def test_no_hooks_no_lines_on_tasks(self, caplog: pytest.LogCaptureFixture) -> None:
        run(source(range(3)).pipe(str), task_hook_factory=lambda _info: [])
        set_default_hook_class(None)
        try:
            run(source(range(3)).pipe(str))
        finally:
            set_default_hook_class()
        lines = Lines(caplog.records)
        assert lines.names() == ([], ["0:src", "0:src", "2:sink", "2:sink"])

    def test_queues_that_measure_nothing(self, caplog: pytest.LogCaptureFixture) -> None:
        run(source(range(3)).pipe(str, name="op"), queue_class=AsyncQueue)
        assert Lines(caplog.records).names() == (["1:op"], [])

    @pytest.mark.parametrize("where", ["build", "default"])
    def test_the_classes_themselves_are_as_nothing(self, caplog: pytest.LogCaptureFixture, where: str) -> None:
        graph = source(range(30)).pipe(nap(0.002), name="op")
        if where == "build":
            run(graph, queue_class=StatsQueue, task_hook_factory=lambda info: [TaskStatsHook(info)])
        else:
            set_default_hook_class(TaskStatsHook)
            set_default_queue_class(StatsQueue)
            try:
                run(graph)
            finally:
                set_default_hook_class()
                set_default_queue_class()
        lines = Lines(caplog.records)
        assert lines.names() == (["1:op"], ["0:src", "2:sink"])
        assert lines.task("op").num_tasks == 30
        assert lines.task("op").ave_time >= 0.002
        # There is no event loop thread.
        assert not [thread for thread in threading.enumerate() if "event_loop" in thread.name]

    def test_a_hook_of_the_users_brings_no_line(self, caplog: pytest.LogCaptureFixture) -> None:
        class Silent(TaskHook):
            def task_hook(self, input_item: Any = None) -> contextlib.nullcontext[None]:
                return contextlib.nullcontext()

        run(source(range(3)).pipe(str), task_hook_factory=lambda _info: [Silent()])
        assert Lines(caplog.records).names() == ([], ["0:src", "2:sink"])


class TestValues:
    """The values that need no known times; tests/pipeline/timed has the others."""

    def test_epochs_are_no_items(self, caplog: pytest.LogCaptureFixture) -> None:
        pipeline = source([1, 2, 3], continuous=True).pipe(abs, name="op").aggregate(2).add_sink(4).build(num_threads=1)
        with pipeline.auto_stop():
            for _ in range(4):
                assert list(pipeline.get_iterator(timeout=10)) == [[1, 2], [3]]
            # So that there are ends of epochs in the sink.
            assert wait_until(lambda: rests(pipeline))
        lines = Lines(caplog.records)
        assert lines.queue("sink").num_items == 8
        assert 12 <= lines.queue("src").num_items <= 40

    def test_many_items_are_all_counted(self, caplog: pytest.LogCaptureFixture) -> None:
        run(
            source(range(8_000)).pipe(abs, name="one", concurrency=4).pipe(abs, name="two", output_order="input"),
            sink=50,
        )
        lines = Lines(caplog.records)
        assert [stats.num_tasks for _, stats in lines.tasks] == [8_000] * 2
        assert [stats.num_items for _, stats in lines.queues] == [8_000] * 3
        for _, stats in lines.tasks:
            assert 0 < stats.ave_time < 0.1


class TestIntervals:
    """Lines at intervals cover the time since the last ones."""

    def test_they_come_while_nothing_moves(self, caplog: pytest.LogCaptureFixture) -> None:
        gate = threading.Event()
        pipeline = (
            source([1])
            .pipe(lambda x: gate.wait(20) and x, name="op")
            .add_sink(1)
            .build(num_threads=1, report_stats_interval=0.01)
        )
        with pipeline.auto_stop():
            assert wait_until(lambda: sum(record.name == TASKS for record in caplog.records) >= 3)
            gate.set()
            assert pipeline.get_item(timeout=10) == 1
        first = Lines(caplog.records).tasks[0][1]
        assert first == TaskPerfStats(0, 0, 0, 0, 0)

    def test_they_do_not_hold_up_the_end(self) -> None:
        begin = time.monotonic()
        run(source(range(3)).pipe(str), report_stats_interval=3600)
        assert time.monotonic() - begin < 9

    def test_they_keep_no_pipeline_alive(self) -> None:
        pipeline = source(iter(int, 1)).pipe(nap(0.001)).add_sink(1).build(num_threads=1, report_stats_interval=0.01)
        pipeline.start()
        pipeline.get_item(timeout=10)
        threads = [thread for thread in threading.enumerate() if thread.name.startswith("spdl_")]
        assert any("timer" in thread.name for thread in threads)
        del pipeline
        gc.collect()
        assert wait_until(lambda: not any(thread.is_alive() for thread in threads))

    def test_handlers_run_without_the_lock_and_may_fail(self) -> None:
        """A handler called under the lock could not wait for the pipeline to move on."""
        seen: list[int] = []

        class Handler(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                before = pipeline.statistics().stages[1].num_completed
                # The last ones come when nothing moves any more.
                seconds = 0.5 if seen else 20
                wait_until(lambda: pipeline.statistics().stages[1].num_completed > before, seconds)
                seen.append(pipeline.statistics().stages[1].num_completed - before)
                raise RuntimeError("the disk is full")

        handler = Handler()
        logger = logging.getLogger(TASKS)
        logger.addHandler(handler)
        # The timer may come late on a busy machine.
        items = itertools.takewhile(lambda x: x < 200 or len(seen) < 3, itertools.count())
        graph = source(items).pipe(nap(0.002), name="op").add_sink(300)
        pipeline = graph.build(num_threads=1, report_stats_interval=0.03)
        try:
            with pipeline.auto_stop():
                got = list(pipeline.get_iterator(timeout=20))
        finally:
            logger.removeHandler(handler)
        assert got == list(range(max(200, len(got))))
        assert len(seen) >= 3
        assert seen[0] > 0
