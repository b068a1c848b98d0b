import asyncio
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.pipeline.support import wait_until
from tests.traces import Trace, read

from spdl.observe import record_trace
from spdl.pipeline import ItemContext, PipelineBuilder, PipelineFailure, TaskHook
from spdl.pipeline.defs import Aggregator


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "trace.json.gz"


def double(item: int) -> int:
    return 2 * item


async def fetch(item: int) -> int:
    await asyncio.sleep(0.001)
    return item


def run(path: Path, builder: PipelineBuilder[Any, Any], num_threads: int = 2) -> tuple[list[Any], Trace]:
    with record_trace(path):
        pipeline = builder.build(num_threads=num_threads)
        with pipeline.auto_stop():
            results = list(pipeline)
    return results, read(path)


def ways(trace: Trace) -> list[list[str]]:
    """Return the names of the slices on the way of each source item, in the order of the source."""
    flows = trace.flows()
    return [[piece.name for piece in flows[flow]] for flow in sorted(flows)]


def test_each_item_flows_from_the_source_through_the_stages_to_the_consumer(path: Path) -> None:
    builder = PipelineBuilder().add_source(range(20)).pipe(fetch, concurrency=4, output_order="input")
    results, trace = run(path, builder.pipe(double, name="double", concurrency=2, output_order="input").add_sink(3))

    assert results == [2 * item for item in range(20)]
    assert ways(trace) == [["src", "fetch", "double", "step"]] * 20
    assert sorted(piece.notes["item"] for piece in trace.named("double")) == list(range(20))
    assert [piece.notes["item"] for piece in trace.named("step")] == list(range(20))


def test_each_worker_has_a_row_and_coroutines_have_their_own(path: Path) -> None:
    barrier = threading.Barrier(2)

    def meet(item: int) -> int:
        barrier.wait(30)
        return item

    builder = PipelineBuilder().add_source(range(8)).pipe(fetch, concurrency=4).pipe(meet, concurrency=2)
    _, trace = run(path, builder.add_sink(3))

    workers = {row.name: row for row in trace.rows.values() if row.named("meet")}
    # Two at a time, of three.
    assert 2 <= len(workers) <= 3
    assert all("worker_thread" in name and row.thread is not None for name, row in workers.items())
    assert len({row.thread for row in workers.values()}) == len(workers)
    lanes = [row.name for row in trace.rows.values() if row.named("fetch")]
    assert 2 <= len(lanes) <= 4
    assert all(name.startswith("fetch (") for name in lanes)


def test_a_batch_has_the_flows_of_all_its_items(path: Path) -> None:
    results, trace = run(path, PipelineBuilder().add_source(range(10)).aggregate(4).pipe(len, name="len").add_sink(3))

    assert results == [4, 4, 2]
    gathered = "aggregate(op=collate(4), drop_last=False)"
    assert ways(trace) == [["src", gathered, "len", "step"]] * 10
    assert [piece.notes["items"] for piece in trace.named("len")] == [4, 4, 2]
    assert [len(piece.flows) for piece in trace.named("step")] == [4, 4, 2]


class Pairs(Aggregator[int, tuple[int, int]]):
    def __init__(self) -> None:
        self.kept: list[int] = []

    def accumulate(self, item: int) -> tuple[int, int] | None:
        self.kept.append(item)
        if len(self.kept) < 2:
            return None
        first, second = self.kept
        self.kept = []
        return first, second

    def flush(self) -> None:
        self.kept = []


def test_an_aggregators_calls_are_slices(path: Path) -> None:
    results, trace = run(path, PipelineBuilder().add_source(range(4)).aggregate(Pairs()).add_sink(3))

    assert results == [(0, 1), (2, 3)]
    # Each item is accumulated, and then leaves in a pair; the flush has no item.
    assert [len(way) for way in ways(trace)] == [4] * 4
    assert sum(not piece.flows for piece in trace.named(ways(trace)[0][1])) == 1


def several(item: int) -> Iterator[int]:
    yield item
    yield item


async def several_later(item: int) -> AsyncIterator[int]:
    for _ in range(2):
        await asyncio.sleep(0.001)
        yield item


@pytest.mark.parametrize("op", [several, several_later])
def test_each_result_of_a_generator_is_a_slice(path: Path, op: Callable[[int], Any]) -> None:
    results, trace = run(path, PipelineBuilder().add_source(range(5)).pipe(op, name="several").add_sink(3))

    assert results == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    for way in ways(trace):
        assert way[0] == "src"
        assert way.count("several") >= 2
        assert way.count("step") == 2


def call(op: Callable[[int], Any], item: int) -> Any:
    return op(item)


def test_functions_that_return_coroutines(path: Path) -> None:
    results, trace = run(
        path, PipelineBuilder().add_source(range(5)).pipe(partial(call, fetch), name="lazy").add_sink(3)
    )
    assert sorted(results) == list(range(5))
    # The call, and what the event loop awaits.
    assert ways(trace) == [["src", "lazy", "lazy", "step"]] * 5


@pytest.mark.parametrize("kind", [ThreadPoolExecutor, ProcessPoolExecutor])
def test_executors(path: Path, kind: Any) -> None:
    with kind(2) as executor:
        results, trace = run(
            path, PipelineBuilder().add_source(range(12)).pipe(double, executor=executor, concurrency=4).add_sink(3)
        )
    assert sorted(results) == [2 * item for item in range(12)]
    assert ways(trace) == [["src", "double", "step"]] * 12
    rows = {row.name for row in trace.rows.values() if row.named("double")}
    expected = "ThreadPoolExecutor" if kind is ThreadPoolExecutor else "double ("
    assert all(expected in name for name in rows), rows


class Doing(TaskHook):
    @asynccontextmanager
    async def task_hook(self, input_item: Any = None) -> AsyncIterator[None]:
        yield


def test_hooks(path: Path) -> None:
    with record_trace(path):
        pipeline = (
            PipelineBuilder()
            .add_source(range(12))
            .pipe(double, concurrency=2)
            .add_sink(3)
            .build(num_threads=2, task_hook_factory=lambda _: [Doing()])
        )
        with pipeline.auto_stop():
            assert sorted(pipeline) == [2 * item for item in range(12)]
    assert ways(read(path)) == [["src", "double", "step"]] * 12


def test_failures_drops_and_retries(path: Path) -> None:
    failed: list[int] = []

    def picky(item: int) -> int | None:
        if item == 1 or (item == 2 and 2 not in failed):
            failed.append(item)
            raise ValueError("no")
        return None if item == 3 else item

    builder = PipelineBuilder().add_source(range(5)).pipe(picky, retries=1, retry_delay=0.0, output_order="input")
    results, trace = run(path, builder.add_sink(3))

    assert results == [0, 2, 4]
    assert [way[1:] for way in ways(trace)] == [
        ["picky", "step"],
        ["picky", "picky"],
        ["picky", "picky", "step"],
        ["picky"],
        ["picky", "step"],
    ]
    errors = [(piece.notes["item"], piece.notes["error"]) for piece in trace.named("picky") if "error" in piece.notes]
    assert sorted(errors) == [(1, "ValueError"), (1, "ValueError"), (2, "ValueError")]


def test_merged_sources_have_flows_of_their_own(path: Path) -> None:
    first = PipelineBuilder().add_source(range(3)).pipe(double, name="first")
    second = PipelineBuilder().add_source(range(4)).pipe(double, name="second")
    results, trace = run(path, PipelineBuilder().merge([first, second]).pipe(str, name="text").add_sink(9))

    assert len(results) == 7
    found = sorted(ways(trace))
    assert found == [["src[0]", "first", "text", "step"]] * 3 + [["src[1]", "second", "text", "step"]] * 4


def test_an_async_source(path: Path) -> None:
    async def items() -> AsyncIterator[int]:
        for item in range(4):
            await asyncio.sleep(0.001)
            yield item

    results, trace = run(path, PipelineBuilder().add_source(items()).pipe(double).add_sink(3))
    assert results == [0, 2, 4, 6]
    assert ways(trace) == [["src", "double", "step"]] * 4


def test_a_source_with_a_thread_of_its_own(path: Path) -> None:
    builder = PipelineBuilder().add_source(range(4), dedicated_thread=True).pipe(double).add_sink(3)
    _, trace = run(path, builder)
    assert {row.name.rpartition("_thread")[0] for row in trace.rows.values() if row.named("src")} == {"spdl_source"}


def test_ops_that_ask_for_the_context(path: Path) -> None:
    def where(item: int, context: ItemContext) -> tuple[int, int]:
        return item, context.position

    results, trace = run(path, PipelineBuilder().add_source([*"abc"]).pipe(where, output_order="input").add_sink(3))
    assert results == [("a", 0), ("b", 1), ("c", 2)]
    assert ways(trace) == [["src", "where", "step"]] * 3


def test_epochs(path: Path) -> None:
    with record_trace(path):
        pipeline = PipelineBuilder().add_source(range(3), continuous=True).pipe(double).add_sink(3).build()
        with pipeline.auto_stop():
            assert [list(pipeline), list(pipeline)] == [[0, 2, 4]] * 2
    steps = read(path).named("step")
    assert [piece.notes["item"] for piece in steps] == list(range(6))


def test_the_consumer_waits_and_steps_in_turn(path: Path) -> None:
    def slow(item: int) -> int:
        assert wait_until(lambda: pipeline._engine.sink.readers, 20), "the consumer does not wait"
        time.sleep(0.01)
        return item

    begin = time.perf_counter()
    with record_trace(path):
        pipeline = PipelineBuilder().add_source(range(5)).pipe(slow).add_sink(3).build(num_threads=1)
        with pipeline.auto_stop():
            for _ in pipeline:
                pass
    elapsed = time.perf_counter() - begin
    row = read(path).row("consumer of pipeline")
    assert [piece.name for piece in row.pieces[:10]] == ["wait for data", "step"] * 5
    waited = sum((piece.end or 0) - piece.begin for piece in row.named("wait for data"))
    assert 0.04 <= waited * 1e-6 < elapsed


def test_queues_are_counted(path: Path) -> None:
    builder = PipelineBuilder().add_source(range(30)).pipe(double, name="same").pipe(double, name="same")
    _, trace = run(path, builder.add_sink(4))

    names = [name.rpartition(" (")[0] for name in trace.counters]
    assert sorted(names) == ["queue of same", "queue of same 2", "queue of sink"]
    for values in trace.counters.values():
        assert len(values) == 30
        assert all(0 <= value <= 6 for _, value in values)


def test_what_goes_on_has_no_end(path: Path) -> None:
    begun, goes_on = threading.Event(), threading.Event()

    def hang(item: int) -> int:
        begun.set()
        assert goes_on.wait(30)
        return item

    with record_trace(path):
        pipeline = PipelineBuilder().add_source(range(5)).pipe(hang).add_sink(3).build(num_threads=1)
        pipeline.start()
        assert begun.wait(30)
    goes_on.set()
    assert list(pipeline) == list(range(5))
    pipeline.stop()
    (piece,) = read(path).named("hang")
    assert piece.end is None
    assert piece.notes["item"] == 0


def test_only_the_latest_events_are_kept(path: Path) -> None:
    with record_trace(path, max_events=50):
        pipeline = PipelineBuilder().add_source(range(1000)).pipe(double).add_sink(3).build(num_threads=1)
        with pipeline.auto_stop():
            assert len(list(pipeline)) == 1000
    trace = read(path)
    pieces = [piece for row in trace.rows.values() for piece in row.pieces]
    # One more may go on.
    assert 50 <= len(pieces) <= 51
    assert max(int(piece.notes["item"]) for piece in pieces if "item" in piece.notes) == 999
    assert min(int(piece.notes["item"]) for piece in pieces if "item" in piece.notes) > 900
    assert sum(map(len, trace.counters.values())) == 50


def test_pipelines_that_were_built_elsewhere_are_not_in_it(path: Path) -> None:
    before = PipelineBuilder().add_source(range(3)).pipe(double, name="before").add_sink().build()
    with record_trace(path), before.auto_stop():
        list(before)
    after = PipelineBuilder().add_source(range(3)).pipe(double, name="after").add_sink().build()
    with after.auto_stop():
        list(after)
    assert read(path).rows == {}
    assert {type(node).__name__ for node in (*before._engine.nodes, *after._engine.nodes)} == {"FunctionNode"}


def test_statistics_are_told_as_ever(path: Path) -> None:
    with record_trace(path):
        pipeline = PipelineBuilder().add_source(range(5)).pipe(double).add_sink(9).build(num_threads=1)
        with pipeline.auto_stop():
            assert pipeline.get_item(timeout=60) == 0
            deadline = time.monotonic() + 60
            while pipeline.statistics().stages[-1].queue_size < 4:
                assert time.monotonic() < deadline
            assert list(pipeline) == [2, 4, 6, 8]
    assert [stage.num_completed for stage in pipeline.statistics().stages] == [5, 5, 5]


def test_many_ways_to_the_same_item(path: Path) -> None:
    builder = PipelineBuilder().add_source(range(2))
    for _ in range(40):
        # Each of these doubles the number of ways.
        builder.aggregate(2).disaggregate()
    results, trace = run(path, builder.aggregate(2).add_sink())
    assert results == [[0, 1]]
    assert len(trace.flows()) == 2


def test_a_coroutine_that_nobody_awaits_is_closed(path: Path) -> None:
    async def never() -> None:
        raise AssertionError

    failed = threading.Event()

    def op(item: int) -> Any:
        if item == 1:
            raise SystemExit
        assert failed.wait(30)
        return never()

    with record_trace(path):
        pipeline = PipelineBuilder().add_source(range(2)).pipe(op, concurrency=2).add_sink(1).build(num_threads=2)
        pipeline.start()
        with pytest.raises(PipelineFailure):
            pipeline.get_item(timeout=60)
        failed.set()
        pipeline.stop()
        # Python complains of coroutines that were never awaited, which fails the test.
        gc.collect()
    assert {piece.notes.get("error") for piece in read(path).named("op")} == {None, "SystemExit"}


def test_two_pipelines_at_once(path: Path) -> None:
    with record_trace(path):
        first = PipelineBuilder().add_source(range(5)).pipe(double, name="first").add_sink().build(num_threads=1)
        second = PipelineBuilder().add_source(first).pipe(double, name="second").add_sink().build(num_threads=1)
        with first.auto_stop(), second.auto_stop():
            assert list(second) == [0, 4, 8, 12, 16]
    trace = read(path)
    assert sorted(ways(trace)) == [["src", "first", "step"]] * 5 + [["src", "second", "step"]] * 5
    assert len({piece.notes["pipeline"] for row in trace.rows.values() for piece in row.pieces}) == 2


def test_pipelines_whose_numbers_are_far_apart_have_flows_of_their_own(path: Path) -> None:
    with record_trace(path):
        for _ in range(2):
            pipeline = PipelineBuilder().add_source(range(3)).pipe(double).add_sink().build(num_threads=1)
            with pipeline.auto_stop():
                assert list(pipeline) == [0, 2, 4]
            # These are never read. The next one has the number of the first one and 1024.
            for _ in range(1023):
                PipelineBuilder().add_source([]).add_sink().build(num_threads=1)
    assert ways(read(path)) == [["src", "double", "step"]] * 6


def test_one_trace_at_a_time(path: Path, tmp_path: Path) -> None:
    first = record_trace(path)
    with first, pytest.raises(RuntimeError, match="one trace at a time"), record_trace(tmp_path / "other"):
        pass
    with record_trace(path):
        pass
    assert not (tmp_path / "other").exists()


def run_and_raise(path: Path) -> None:
    with record_trace(path):
        pipeline = PipelineBuilder().add_source(range(3)).pipe(double).add_sink().build(num_threads=1)
        with pipeline.auto_stop():
            list(pipeline)
        raise KeyError


def test_it_is_written_where_the_body_raises(path: Path) -> None:
    with pytest.raises(KeyError):
        run_and_raise(path)
    assert len(read(path).named("double")) == 3


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_leaves_the_file_alone(path: Path) -> None:
    with record_trace(path):
        child = os.fork()
        if child:
            pipeline = PipelineBuilder().add_source(range(3)).pipe(double).add_sink().build(num_threads=1)
            with pipeline.auto_stop():
                list(pipeline)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    if not child:
        os._exit(0)
    assert len(read(path).named("double")) == 3


def test_the_process_is_named(path: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import sys\nfrom spdl.observe import record_trace\nwith record_trace(sys.argv[1]):\n    pass\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])}
    for program, name in (("train.py", "train.py"), ("-m train", "-m train")):
        words = program.split()
        subprocess.run([sys.executable, "-u", *words, path], check=True, cwd=tmp_path, env=environment, timeout=100)
        assert list(read(path).processes.values()) == [name]


def test_the_name_says_whether_it_is_compressed(tmp_path: Path) -> None:
    paths = [tmp_path / "trace", tmp_path / "trace.json", tmp_path / "trace.json.gz"]
    sizes = []
    for path in paths:
        results, trace = run(path, PipelineBuilder().add_source(range(2000)).pipe(double).add_sink(3))
        assert len(trace.named("double")) == len(results) == 2000
        sizes.append(path.stat().st_size)
    assert sizes[2] < 0.2 * min(sizes[:2])


def test_times_can_be_told_by_the_clock_on_the_wall(path: Path) -> None:
    before = time.time()
    _, trace = run(path, PipelineBuilder().add_source(range(3)).pipe(double).add_sink(3))
    (label,) = trace.labels.values()
    zero = datetime.fromisoformat(label.removeprefix("time 0 is ")).timestamp()
    times = [zero + 1e-6 * piece.begin for piece in trace.named("double")]
    assert all(before - 0.01 <= each <= time.time() + 0.01 for each in times)


@pytest.mark.parametrize("name", ['"quoted" \\', "löschen 解码", "half \ud800 of one", "two\nlines\0", "<a>&"])
def test_names_of_all_kinds(path: Path, name: str) -> None:
    _, trace = run(path, PipelineBuilder().add_source(range(3)).pipe(double, name=name).add_sink(3))
    shown = name.encode("utf-8", "replace").decode()
    assert len(trace.named(shown)) == 3
    assert len(trace.counters[f"queue of {shown} ({trace.named(shown)[0].notes['pipeline']}) items"]) == 3


def test_wrong_arguments_are_refused(path: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="`max_events` must be an int of at least 1"), record_trace(path, max_events=0):
        pass
    with pytest.raises(TypeError, match="`output` must be a path"), record_trace(3):  # type: ignore[arg-type]
        pass
    with pytest.raises(FileNotFoundError), record_trace(tmp_path / "nowhere" / "trace"):
        pass
