"""A pipeline's page, read from another process or another thread."""

from __future__ import annotations

import itertools
import math
import os
import random
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.observe.pages import SOURCE_VALUES, STAGE_VALUES, VALUES, begin_page, folder_of_all_pages
from tests.observe.programs import observed, own_page
from tests.observe.programs import running as running_program
from tests.pipeline.support import source

from spdl.observe import ObservedPipeline, PageError, find_pipelines
from spdl.pipeline import PipelineFailure, build_pipeline
from spdl.pipeline.defs import Merge, Pipe, PipelineConfig, SinkConfig, SourceConfig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spdl.observe import Observation


# A busy machine may take long.
pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="needs files in memory"), pytest.mark.timeout(240)]

ROOT = Path(__file__).parents[3]

# How many reads the test of torn records makes.
READS = int(os.environ.get("SPDL_TEST_PAGE_READS", "5000"))


def test_the_page_says_what_the_statistics_say() -> None:
    def op(item: int) -> int | None:
        if item % 10 == 0:
            raise ValueError(item)
        return None if item % 10 == 1 else item

    gate = threading.Event()
    calls = itertools.count(1)

    def last(item: int) -> int:
        # Not the last item: that may overtake others.
        if next(calls) == 80:
            gate.wait()
        return item

    pipeline = source(range(100)).pipe(op, concurrency=2, name="op").pipe(last, name="last").add_sink(200)
    with pipeline.build(num_threads=3).auto_stop() as running_pipeline:
        page = own_page(running_pipeline)
        deadline = time.monotonic() + 60
        while not all_but_the_last_are_done(page.observe()):
            assert time.monotonic() < deadline, page.observe()
            time.sleep(0.01)
        try:
            seen = page.observe()
            src, first, second, sink = running_pipeline.statistics().stages
        finally:
            gate.set()
        assert (seen.sources[0].emitted, seen.sink_size) == (src.num_emitted, sink.queue_size) == (100, 79)
        for observed_stage, stage in zip(seen.stages, (first, second), strict=True):
            assert observed_stage.completed == stage.num_completed
            assert observed_stage.emitted == stage.num_emitted
            assert observed_stage.failed == stage.num_failed
            assert observed_stage.dropped == stage.num_dropped
            assert observed_stage.running == stage.running
            assert observed_stage.busy_seconds == pytest.approx(stage.busy_seconds)
            assert observed_stage.concurrency == stage.concurrency
        assert (seen.failures, seen.delivered, seen.num_threads) == (10, 0, 3)
        assert [stage.name for stage in page.head.stages] == ["op", "last"]
        assert page.head.stages[1].feeders == (1,)
        assert page.head.sources == ("src",)
        assert len(list(running_pipeline)) == 80
    assert page.state() == "ended"


def test_a_stage_that_merges_has_the_queues_of_all_its_branches() -> None:
    branches = [PipelineConfig(SourceConfig(itertools.count()), [Pipe(abs, concurrency=3)], SinkConfig(1))] * 2
    config: PipelineConfig[Any] = PipelineConfig(Merge(branches), [], SinkConfig(1))
    with build_pipeline(config, num_threads=6).auto_stop() as pipeline:
        page = own_page(pipeline)
        # Nobody reads, so all the places are taken in the end, and what the slots have finished waits for one.
        deadline = time.monotonic() + 60
        while (merge := page.observe().stages[-1]).queued < 2 * (2 + 3):
            assert time.monotonic() < deadline, merge
            time.sleep(0.01)
        stage = pipeline.statistics().stages[-2]
        assert (merge.queued, merge.capacity) == (stage.queue_size, stage.queue_capacity) == (10, 4)


def all_but_the_last_are_done(seen: Observation) -> bool:
    """Return whether one of 100 items is in the last stage, 20 have failed or were dropped, and the others wait."""
    first, last = seen.stages
    return (first.running, first.failed, first.dropped, last.running, seen.sink_size) == (0, 10, 10, 1, 79)


def test_ends_of_epochs_in_the_sink_are_no_items() -> None:
    def op(item: int) -> int | None:
        return item or None

    pipeline = source([0], continuous=True).pipe(op).add_sink(4)
    with pipeline.build(num_threads=1).auto_stop() as running_pipeline:
        page = own_page(running_pipeline)
        deadline = time.monotonic() + 60
        while (seen := page.observe()).sink_size < 4:
            assert seen.delivered == 0
            assert time.monotonic() < deadline, seen
            time.sleep(0.01)
        assert seen.delivered == 0


@pytest.mark.parametrize("max_bytes", [5000, None])
def test_the_page_says_how_many_bytes_are_in_flight(max_bytes: int | None) -> None:
    builder = source(itertools.count()).pipe(lambda _: bytes(1000), concurrency=2, name="read").add_sink(50)
    with builder.build(num_threads=2, max_bytes=max_bytes).auto_stop() as pipeline:
        page = own_page(pipeline)
        ready = 50 if max_bytes is None else 5
        deadline = time.monotonic() + 60
        while page.observe().sink_size < ready:
            assert time.monotonic() < deadline, page.observe()
            time.sleep(0.01)
        # A worker looks for what fits some time after it has put the last one there.
        while max_bytes and pipeline.statistics().seconds_short_of_bytes < 0.1:
            assert time.monotonic() < deadline, pipeline.statistics()
            time.sleep(0.01)
        seen, told = page.observe(), pipeline.statistics()
        assert seen.max_bytes == told.max_bytes == (max_bytes or 0)
        assert seen.bytes_in_flight == told.bytes_in_flight == (max_bytes or 0)
        assert seen.peak_bytes == told.peak_bytes == (max_bytes or 0)
        assert 0 <= seen.seconds_short_of_bytes <= told.seconds_short_of_bytes
        if max_bytes is None:
            assert told.seconds_short_of_bytes == 0
        elif pipeline.get_item():
            # Another is made in its place, which ends a wait of a tenth of a second at least.
            while page.observe().seconds_short_of_bytes < 0.1:
                assert time.monotonic() < deadline, page.observe()
                time.sleep(0.01)


def test_a_row_says_what_a_thread_does() -> None:
    entered, gate = threading.Event(), threading.Event()

    def op(item: int) -> int:
        entered.set()
        gate.wait()
        return item

    begin = time.perf_counter()
    with source(range(3)).pipe(op, name="op").add_sink(9).build(num_threads=1).auto_stop() as pipeline:
        page = own_page(pipeline)
        entered.wait()
        threads = page.observe().threads
        running = {int(path.name) for path in Path("/proc/self/task").iterdir()}
        gate.set()
        busy = [thread for thread in threads if thread.part == 1]
        assert len(busy) == 1
        assert begin < busy[0].since < time.perf_counter()
        assert busy[0].thread in running
        assert len(list(pipeline)) == 3


def test_a_consumer_that_waits_is_seen() -> None:
    gate = threading.Event()
    with source(itertools.count()).pipe(lambda _: gate.wait()).add_sink().build(num_threads=1).auto_stop() as pipeline:
        page = own_page(pipeline)
        reader = threading.Thread(target=pipeline.get_item)
        before = time.perf_counter()
        reader.start()
        while page.observe().consumer_waiting_since == 0:
            assert time.perf_counter() < before + 60
            time.sleep(0.001)
        assert before < page.observe().consumer_waiting_since < time.perf_counter()
        gate.set()
        reader.join()
        assert page.observe().consumer_waiting_since == 0


def test_a_consumer_that_waits_before_the_first_worker_begins_is_seen() -> None:
    waits, gate = threading.Event(), threading.Event()

    def hold_back(_: Any, event: str, called: Any) -> None:
        if threading.current_thread() is not reader:  # A worker, at its very first step.
            sys.setprofile(None)
            assert waits.wait(60)
        elif event == "c_call" and called.__name__ == "acquire" and called.__self__.locked():
            sys.setprofile(None)
            waits.set()

    pipeline = source(itertools.count()).pipe(lambda _: gate.wait()).add_sink().build(num_threads=1)
    reader = threading.Thread(target=pipeline.get_item)
    before = time.perf_counter()
    threading.setprofile(hold_back)
    try:
        pipeline.start()
        reader.start()
    finally:
        threading.setprofile(None)
    try:
        assert before < own_page(pipeline).observe().consumer_waiting_since < time.perf_counter()
    finally:
        gate.set()
        reader.join()
        pipeline.stop()


class TestTheEnd:
    def pages(self) -> list[ObservedPipeline]:
        return find_pipelines(os.getpid())

    def test_a_pipeline_that_is_read_to_its_end_has_no_page(self) -> None:
        pipeline = source(range(9)).add_sink().build(num_threads=1)
        assert not self.pages()
        pipeline.start()
        assert len(list(pipeline)) == 9
        assert not self.pages()
        pipeline.stop()

    def test_nor_has_one_that_is_stopped(self) -> None:
        with source(iter(int, 1)).add_sink().build(num_threads=1).auto_stop() as pipeline:
            pipeline.get_item()
            assert len(self.pages()) == 1
        assert not self.pages()

    def test_nor_one_that_fails(self) -> None:
        def broken(_: int) -> None:
            raise SystemExit(3)

        pipeline = source(range(9)).pipe(broken).add_sink().build(num_threads=1)
        with pytest.raises(PipelineFailure), pipeline.auto_stop():
            pipeline.get_item()
        assert not self.pages()

    def test_nor_one_that_nobody_refers_to(self) -> None:
        pipeline: Any = source(iter(int, 1)).add_sink().build(num_threads=1)
        pipeline.get_item()
        assert len(self.pages()) == 1
        del pipeline
        deadline = time.monotonic() + 60
        while self.pages():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def test_nor_one_whose_program_ends(self) -> None:
        program = (
            "from spdl.pipeline import PipelineBuilder\n"
            "pipeline = PipelineBuilder().add_source(iter(int, 1)).add_sink().build(num_threads=1)\n"
            "print(pipeline.get_item(), flush=True)"
        )
        process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
        assert process.communicate(timeout=60)[0] == b"0\n"
        assert not find_pipelines(process.pid)


def test_the_user_may_want_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPDL_OBSERVE", "0")
    with source(range(9)).add_sink().build(num_threads=1).auto_stop() as pipeline:
        assert pipeline.get_item() == 0
        assert not find_pipelines(os.getpid())


def test_only_the_user_can_read_it() -> None:
    with source(iter(int, 1)).add_sink().build(num_threads=1).auto_stop() as pipeline:
        path = own_page(pipeline).path
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.parent == folder_of_all_pages()
        assert path.parent.stat().st_mode & 0o777 == 0o700


def test_a_forked_child_leaves_the_page_to_its_parent() -> None:
    with source(iter(int, 1)).pipe(lambda x: x).add_sink(1).build(num_threads=2).auto_stop() as pipeline:
        page = own_page(pipeline)
        pipeline.get_item()
        child = os.fork()
        if child == 0:
            del pipeline
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        before = page.observe().now
        deadline = time.monotonic() + 60
        while page.observe().now <= before:
            assert time.monotonic() < deadline
            pipeline.get_item()
            time.sleep(0.001)
        assert page.state() == "running"


_WORK = """
import ctypes, os, time
from spdl.observe import find_pipelines
from spdl.pipeline import PipelineBuilder

def wait_for_the_page():
    # Another thread writes down what was done until now.
    page = find_pipelines(os.getpid())[0]
    while page.observe().stages[0].completed < 250:
        time.sleep(0.01)

def parse(item):
    if item == 300:
        wait_for_the_page()
        {stuck}
    time.sleep(0.0005)
    return item

pipeline = PipelineBuilder().add_source(range(10**9)).pipe(parse, name="parse").add_sink().build(num_threads=2)
with pipeline.auto_stop():
    for _ in pipeline:
        pass
"""


@pytest.mark.parametrize("stuck", ["time.sleep(1000)", "ctypes.PyDLL(None).sleep(1000)"])
def test_a_process_that_hangs_is_read_whether_it_holds_the_gil_or_not(stuck: str) -> None:
    with running_program(_WORK.format(stuck=stuck)) as process:
        page = observed(
            process,
            lambda seen: (
                seen.stages[0].completed >= 250
                and any(it.position == 300 and time.perf_counter() - it.since > 0.5 for it in seen.threads)
            ),
        )
        seen = page.observe()
        assert page.state() == "running"
        assert page.head.stages[0].name == "parse"
        assert 250 <= seen.stages[0].completed <= 300


def test_a_process_that_has_become_another_program_runs_no_pipeline() -> None:
    program = """
import os, sys
from spdl.pipeline import PipelineBuilder

pipeline = PipelineBuilder().add_source(iter(int, 1)).add_sink(2).build(num_threads=1)
pipeline.start()
for _ in range(10):
    pipeline.get_item()
sys.stdin.readline()
os.execv(sys.executable, [sys.executable, "-c", "import time; time.sleep(100)"])
"""
    with running_program(program, stdin=subprocess.PIPE) as process:
        page = observed(process, lambda seen: seen.delivered >= 1)
        assert page.state() == "running"
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.close()
        deadline = time.monotonic() + 60
        while page.state() == "running":
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert page.state() == "killed"
        assert process.poll() is None


def test_a_process_that_was_killed_leaves_its_page() -> None:
    with running_program(_WORK.format(stuck="pass")) as process:
        page = observed(process, lambda seen: seen.delivered > 100)
        process.send_signal(signal.SIGKILL)
        process.wait()
        (found,) = find_pipelines(process.pid)
        assert found.state() == page.state() == "killed"
        assert found.observe().delivered > 100
        found.remove()
        assert not find_pipelines(process.pid)


_WRITER = f"""
import sys
from pathlib import Path
from tests.observe.pages import begin_page

file = begin_page(Path(sys.argv[1]), rows=4)
number = 1.0
file.write([number] * {VALUES})
print(file, flush=True)
while True:
    number += 1
    file.write([number] * {VALUES})
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "pages"
    folder.mkdir(0o700)
    return folder


@contextmanager
def written_at_full_speed(folder: Path) -> Iterator[ObservedPipeline]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])}
    command = [sys.executable, "-c", _WRITER, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as writer:
        try:
            assert writer.stdout is not None
            assert b"PageFile" in writer.stdout.readline()
            (page,) = find_pipelines(folder=folder)
            yield page
        finally:
            writer.kill()


def whole(page: ObservedPipeline) -> float:
    """Return the number that all counters are, and see that they are."""
    seen = page.observe()
    of_source = (getattr(seen.sources[0], name) for name in SOURCE_VALUES)
    of_stage = (getattr(seen.stages[0], name) for name in STAGE_VALUES)
    numbers = {seen.now, seen.consumer_waited, seen.seconds_short_of_bytes, *of_source, *of_stage}
    assert len(numbers) == 1, numbers
    return seen.now


def test_no_record_is_torn(folder: Path) -> None:
    with written_at_full_speed(folder) as page:
        first = last = 0.0
        for _ in range(READS):
            now = whole(page)
            assert now >= last
            first, last = first or now, now
        deadline = time.monotonic() + 60
        while last <= first + 100:
            assert time.monotonic() < deadline, "the writer has hardly written meanwhile"
            last = whole(page)


def test_counters_never_run_backwards(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the reads of the two copies the writer writes the first one anew, and begins with the second."""
    file = begin_page(folder)
    assert file is not None
    for number in (1.0, 2.0, 3.0):
        file.write([number] * VALUES)
    (page,) = find_pipelines(folder=folder)
    assert page.observe().now == 3
    layout, pread = page._layout, os.pread

    def overtaken(descriptor: int, size: int, offset: int) -> bytes:
        seen = pread(descriptor, size, offset)
        monkeypatch.undo()
        file.write([4.0] * VALUES)
        with page.path.open("r+b") as half:
            half.seek(layout.copy_at(5) + 40)
            half.write(b"half written")
        return seen

    monkeypatch.setattr(os, "pread", overtaken)
    assert page.observe().now == 4


def test_a_writer_that_is_killed_at_any_moment_leaves_a_whole_record(folder: Path) -> None:
    generator = random.Random(1)  # noqa: S311 - no secret.
    for _ in range(4):
        with written_at_full_speed(folder) as page:
            time.sleep(generator.random() / 50)
        last = whole(page)
        assert last > 0
        assert whole(page) == last


class TestDamage:
    def make(self, folder: Path) -> Path:
        file = begin_page(folder)
        assert file is not None
        file.write([1.0] * VALUES)
        file.write([2.0] * VALUES)
        return folder / "1-0.page"

    def test_a_page_that_was_only_begun_says_so(self, folder: Path) -> None:
        assert begin_page(folder) is not None
        (page,) = find_pipelines(folder=folder)
        with pytest.raises(PageError, match="no counters that are whole"):
            page.observe()

    def test_one_copy_is_enough(self, folder: Path) -> None:
        path = self.make(folder)
        page = ObservedPipeline(path)
        newest = page._layout.copy_at(2)
        content = bytearray(path.read_bytes())
        content[newest + 40] ^= 1
        path.write_bytes(content)
        assert ObservedPipeline(path).observe().now == 1.0

    def test_no_damage_is_believed_or_ends_the_reader(self, folder: Path) -> None:
        path = self.make(folder)
        content = path.read_bytes()
        generator = random.Random(1)  # noqa: S311 - no secret.
        told = 0
        for _ in range(150):
            damaged = bytearray(content)
            for _ in range(generator.randrange(1, 9)):
                damaged[generator.randrange(len(damaged))] = generator.randrange(256)
            if generator.random() < 0.3:
                del damaged[generator.randrange(len(damaged)) :]
            path.write_bytes(damaged)
            try:
                seen = ObservedPipeline(path).observe()
            except PageError:
                told += 1
            else:
                assert seen.now in (1.0, 2.0)
        assert told > 30

    def test_a_file_that_is_cut_short_meanwhile_is_told(self, folder: Path) -> None:
        path = self.make(folder)
        page = ObservedPipeline(path)
        os.truncate(path, 100)
        with pytest.raises(PageError):
            page.observe()

    def test_another_version_is_told(self, folder: Path) -> None:
        path = self.make(folder)
        content = bytearray(path.read_bytes())
        content[8] = 99
        path.write_bytes(content)
        with pytest.raises(PageError, match="version 99"):
            ObservedPipeline(path)
        assert find_pipelines(folder=folder) == []

    def test_a_loader_of_another_release_is_read_and_a_damaged_one_is_told(self, folder: Path) -> None:
        def told(pid: int, loader: object) -> ObservedPipeline:
            name = f"{pid}-0"
            assert begin_page(folder, name, loader=loader)
            return ObservedPipeline(folder / f"{name}.page")

        later = told(2, {"loader": "Later", "stages": [{"unit": "batch", "color": "red"}], "color": "red"})
        assert later.head.loader is not None
        assert (later.head.loader.loader, later.head.loader.stages[0].unit) == ("Later", "batch")
        for pid, loader in enumerate([7, [], {"stages": []}, {"loader": "L", "stages": 7}], 3):
            with pytest.raises(PageError, match="damaged"):
                told(pid, loader)

    @pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, [[]], {}, "x", None])
    @pytest.mark.parametrize("name", ["pid", "started_ticks", "pid_namespace", "pipeline"])
    def test_numbers_that_are_none_are_damage(self, folder: Path, name: str, value: object) -> None:
        about: dict[str, Any] = {name: value}
        assert begin_page(folder, **about)
        with pytest.raises(PageError, match="the page's head is damaged"):
            ObservedPipeline(folder / "1-0.page")
        assert find_pipelines(folder=folder) == []

    def test_a_folder_of_others_is_not_looked_at(self, folder: Path) -> None:
        self.make(folder)
        assert len(find_pipelines(folder=folder)) == 1
        folder.chmod(0o755)
        assert find_pipelines(folder=folder) == []
        assert begin_page(folder, "2-0") is None
