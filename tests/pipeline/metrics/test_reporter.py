"""Test the lines that pipelines log about their stages and queues."""

from __future__ import annotations

import contextlib
import functools
import gc
import itertools
import logging
import re
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.delays import tolerates_delays
from tests.pipeline.support import source, wait_until

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
from spdl.pipeline._metrics.report_lines import queue_line, task_line
from spdl.pipeline.config import set_compact_log, set_default_hook_class, set_default_queue_class
from spdl.pipeline.defs import Aggregate, Merge, Pipe, PipelineConfig, SinkConfig, SourceConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TASKS, QUEUES = "spdl.pipeline.tasks", "spdl.pipeline.queues"

_DURATION = r" *([\d.]+) \[( us| ms|sec)\]"
TASK_LINE = re.compile(
    rf"\[\d+:(\d+:.+)\]\tCompleted +(\d+) tasks \( *(\d+) failed\)\. "
    rf"Ave task time: {_DURATION}\. P90: {_DURATION}\. P99: {_DURATION}\."
)
QUEUE_LINE = re.compile(
    rf"\[\d+:(\d+:.+)_queue\]\tProcessed +(\d+) items in {_DURATION} \(QPS: *([\d.]+)\) "
    rf"Ave wait time: put: {_DURATION}, get \(by next stage\): {_DURATION}\. "
    rf"P90: put: {_DURATION}, get: {_DURATION}\. P99: put: {_DURATION}, get: {_DURATION}\. Occupancy rate: (\d+)%"
)
_UNITS = {" us": 1e-6, " ms": 1e-3, "sec": 1.0}


class Lines:
    """The statistics in the logged lines."""

    def __init__(self, records: list[logging.LogRecord]) -> None:
        self.tasks: list[tuple[str, TaskPerfStats]] = []
        self.queues: list[tuple[str, QueuePerfStats]] = []
        for record in records:
            if record.name == TASKS:
                self.tasks.append(self._task(record.getMessage()))
            elif record.name == QUEUES:
                self.queues.append(self._queue(record.getMessage()))

    @staticmethod
    def _task(text: str) -> tuple[str, TaskPerfStats]:
        found = TASK_LINE.fullmatch(text)
        assert found is not None, text
        name, tasks, failures, *times = found.groups()
        return name, TaskPerfStats(int(tasks), int(failures), *_seconds(times))

    @staticmethod
    def _queue(text: str) -> tuple[str, QueuePerfStats]:
        found = QUEUE_LINE.fullmatch(text)
        assert found is not None, text
        name, items, amount, unit, _qps, *rest = found.groups()
        put, get, p90_put, p90_get, p99_put, p99_get = _seconds(rest[:-1])
        (elapsed,) = _seconds([amount, unit])
        share = int(rest[-1]) / 100
        return name, QueuePerfStats(elapsed, int(items), put, get, p90_put, p99_put, p90_get, p99_get, share)

    def task(self, name: str) -> TaskPerfStats:
        """Return the statistics of the only line about a stage."""
        (stats,) = (stats for each, stats in self.tasks if each.endswith(name))
        return stats

    def queue(self, name: str) -> QueuePerfStats:
        """Return the statistics of the only line about a queue."""
        (stats,) = (stats for each, stats in self.queues if each.endswith(name))
        return stats

    def names(self) -> tuple[list[str], list[str]]:
        """Return the names of the stages and of the queues that have lines."""
        return sorted(name for name, _ in self.tasks), sorted(name for name, _ in self.queues)


def _seconds(groups: list[str]) -> list[float]:
    return [float(amount) * _UNITS[unit] for amount, unit in zip(groups[::2], groups[1::2], strict=True)]


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
    def test_durations(self, seconds: float, shown: str) -> None:
        line = task_line("0:1:x[2]", TaskPerfStats(123456, 1234, seconds, seconds, seconds))
        assert line == (
            f"[0:1:x[2]]\tCompleted 123456 tasks (1234 failed). Ave task time: {shown}. P90: {shown}. P99: {shown}."
        )

    @pytest.mark.parametrize(("rate", "shown"), [(0.0049, 0), (0.015, 1), (0.995, 99), (0.999, 99), (1.0, 100)])
    def test_queues(self, rate: float, shown: int) -> None:
        stats = QueuePerfStats(100.0, 5, 1e-6, 2e-6, 3e-6, 4e-6, 5e-6, 6e-6, rate)
        assert queue_line("0:1:x[2]", stats) == (
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
        # There is no event loop thread.
        assert not [thread for thread in threading.enumerate() if "event_loop" in thread.name]

    @tolerates_delays
    def test_each_has_its_own_interval(self, caplog: pytest.LogCaptureFixture) -> None:
        run(
            source(range(60)).pipe(nap(0.005), name="op"),
            queue_class=functools.partial(StatsQueue, interval=0.05),
            task_hook_factory=lambda info: [TaskStatsHook(info, 0.02)],
            report_stats_interval=0.001,
        )
        lines = Lines(caplog.records)
        # On a busy machine some lines may be missing, but there are never more.
        assert 4 <= len(lines.tasks) <= 40
        assert 3 * 3 <= len(lines.queues) < len(lines.tasks) * 3

    def test_a_hook_of_the_users_brings_no_line(self, caplog: pytest.LogCaptureFixture) -> None:
        class Silent(TaskHook):
            def task_hook(self, input_item: Any = None) -> contextlib.nullcontext[None]:
                return contextlib.nullcontext()

        run(source(range(3)).pipe(str), task_hook_factory=lambda _info: [Silent()])
        assert Lines(caplog.records).names() == ([], ["0:src", "2:sink"])


class TestValues:
    """The values for ops, sources and consumers that take known times."""

    @tolerates_delays
    def test_a_slow_stage(self, caplog: pytest.LogCaptureFixture) -> None:
        """The reference logs, for 60 items of 10 ms: put 4.5, get 0.0 ms, 99 %; downstream put 0.0, get 5.2 ms, 0 %."""
        run(source(range(60)).pipe(nap(0.01), concurrency=2, name="slow").pipe(abs, name="quick"))
        lines = Lines(caplog.records)
        slow, upstream, downstream = lines.task("slow[2]"), lines.queue("src"), lines.queue("slow[2]")
        assert (slow.num_tasks, slow.num_failures) == (60, 0)
        assert 0.01 <= slow.ave_time <= slow.p99_time
        assert upstream.num_items == downstream.num_items == 60
        assert upstream.ave_put_time == pytest.approx(slow.ave_time / 2, rel=0.3)
        assert upstream.ave_get_time < 0.002
        assert upstream.occupancy_rate > 0.8
        assert downstream.ave_put_time < 0.002
        assert downstream.ave_get_time == pytest.approx(slow.ave_time / 2, rel=0.3)
        assert downstream.p90_get_time >= 0.009
        assert downstream.occupancy_rate < 0.2
        assert upstream.elapsed == pytest.approx(30 * slow.ave_time, rel=0.2)

    @tolerates_delays
    def test_a_slow_stage_behind_a_quick_one(self, caplog: pytest.LogCaptureFixture) -> None:
        """The reference logs, for 1 and 5 ms: put 4.0, get 0.0 ms, 98 %."""
        run(source(range(60)).pipe(nap(0.001), name="quick").pipe(nap(0.005), name="slow"))
        lines = Lines(caplog.records)
        between, slow = lines.queue("quick"), lines.task("slow")
        # On a busy machine the quick stage may be late at times.
        assert 0.25 * slow.ave_time <= between.ave_put_time < slow.ave_time
        assert between.p90_put_time >= 0.5 * slow.ave_time
        assert between.ave_get_time < 0.002
        assert between.occupancy_rate > 0.6

    @tolerates_delays
    def test_a_slow_source(self, caplog: pytest.LogCaptureFixture) -> None:
        """The reference logs, for 5 and 1 ms: put 0.0, get 4.1 ms, 2 %."""

        def slowly() -> Iterator[int]:
            for x in range(60):
                time.sleep(0.005)
                yield x

        run(source(slowly()).pipe(nap(0.001), name="op"))
        before = Lines(caplog.records).queue("src")
        assert before.num_items == 60
        assert before.ave_put_time < 0.002
        assert 0.0035 <= before.ave_get_time < 0.01
        assert before.p90_get_time >= 0.0035
        assert before.occupancy_rate < 0.2

    @pytest.mark.parametrize("concurrency", [1, 4])
    @tolerates_delays
    def test_a_slow_consumer(self, caplog: pytest.LogCaptureFixture, concurrency: int) -> None:
        """The reference logs, for 10 ms: put 10 ms for each slot that waits, get 0.0 ms, 98 %."""
        run(source(range(60)).pipe(nap(0.001), name="op", concurrency=concurrency), consume=0.01)
        sink = Lines(caplog.records).queue("sink")
        assert sink.num_items == 60
        assert 0.007 * concurrency <= sink.ave_put_time < 0.02 * concurrency
        assert sink.p90_put_time >= 0.008 * concurrency
        assert sink.ave_get_time < 0.002
        assert sink.occupancy_rate > 0.9

    @tolerates_delays
    def test_a_quick_consumer(self, caplog: pytest.LogCaptureFixture) -> None:
        run(source(range(60)).pipe(nap(0.005), name="op"))
        sink = Lines(caplog.records).queue("sink")
        # This may fail if a busy machine delays the consumer.
        assert sink.ave_put_time < 0.001
        assert sink.p90_put_time == 0
        assert 0.004 <= sink.ave_get_time < 0.01
        assert sink.p90_get_time >= 0.0045
        assert sink.occupancy_rate < 0.3

    def test_epochs_are_no_items(self, caplog: pytest.LogCaptureFixture) -> None:
        pipeline = source([1, 2, 3], continuous=True).pipe(abs, name="op").aggregate(2).add_sink(1).build(num_threads=1)
        with pipeline.auto_stop():
            for _ in range(4):
                assert list(pipeline.get_iterator(timeout=10)) == [[1, 2], [3]]
        lines = Lines(caplog.records)
        assert lines.queue("sink").num_items == 8
        assert 12 <= lines.queue("src").num_items <= 40

    @tolerates_delays
    def test_many_items_are_all_counted(self, caplog: pytest.LogCaptureFixture) -> None:
        run(
            source(range(30_000)).pipe(abs, name="one", concurrency=4).pipe(abs, name="two", output_order="input"),
            sink=50,
        )
        lines = Lines(caplog.records)
        assert [stats.num_tasks for _, stats in lines.tasks] == [30_000] * 2
        assert [stats.num_items for _, stats in lines.queues] == [30_000] * 3
        for _, stats in lines.tasks:
            assert 0 < stats.ave_time < 0.001


class TestIntervals:
    """Lines at intervals cover the time since the last ones."""

    @tolerates_delays
    def test_they_add_up_to_the_line_at_the_end(self, caplog: pytest.LogCaptureFixture) -> None:
        run(source(range(100)).pipe(nap(0.003), name="op"), report_stats_interval=0.05)
        lines = Lines(caplog.records)
        *laps, total = [stats for name, stats in lines.tasks if name == "1:op"]
        assert total.num_tasks == 100
        assert len(laps) >= 3
        assert 100 - 0.15 / 0.003 <= sum(lap.num_tasks for lap in laps) <= 100
        assert all(lap.num_tasks < 60 for lap in laps)
        for name in ("0:src", "2:sink"):
            *parts, whole = [stats for each, stats in lines.queues if each == name]
            assert whole.num_items == 100
            assert sum(part.num_items for part in parts) <= 100
            assert all(0.04 <= part.elapsed <= 0.3 for part in parts)
            assert sum(part.elapsed for part in parts) <= whole.elapsed * 1.01

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
        assert time.monotonic() - begin < 5

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
