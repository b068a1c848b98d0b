"""Workers that die: the pipeline fails, or runs their items again, and nothing hangs or gets lost."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from spdl.pipeline import PipelineBuilder, PipelineFailure
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig

from . import ops

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KILLS = int(os.environ.get("SPDL_TEST_KILLS", "6"))


def region(op: Callable[[Any], Any], items: Any = range(30), **options: Any) -> Any:
    workers = ProcessPoolExecutorConfig(2, **options)
    return PipelineBuilder().add_source(items).to(workers).pipe(op).to(MAIN_PROCESS).add_sink()


def workers(others: set[int]) -> list[psutil.Process]:
    """Return the workers of this process: children of the fork server, or of this process.

    Those of an earlier test, which are still about to end, are among the others.
    """
    found = []
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if process.pid not in others and ("spdl_region" in process.name() or _holds_channel(process)):
                found.append(process)
    return found


def _holds_channel(process: psutil.Process) -> bool:
    parent = process.parent()
    return parent is not None and parent.pid != os.getpid() and not process.children()


@pytest.mark.parametrize(("op", "how"), [(ops.die_on, "SIGKILL"), (ops.exit_on, "exit status 0")])
def test_a_death_fails_the_pipeline(op: Callable[[Any], Any], how: str) -> None:
    begin = time.monotonic()
    with pytest.raises(PipelineFailure) as caught, region(op).build(num_threads=1).auto_stop() as pipeline:
        list(pipeline.get_iterator(timeout=60))
    assert time.monotonic() - begin < 30
    (error,) = caught.value.exceptions
    assert "has died" in str(error)
    assert how in str(error)
    assert "source item" in str(error)


def test_a_death_is_told_in_epochs() -> None:
    builder = PipelineBuilder().add_source(range(10), continuous=True).to(ProcessPoolExecutorConfig(2))
    builder = builder.pipe(ops.die_on).to(MAIN_PROCESS).add_sink()
    with pytest.raises(PipelineFailure), builder.build(num_threads=1).auto_stop() as pipeline:
        list(pipeline.get_iterator(timeout=60))


def test_items_are_run_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    op = ops.DieOnce(str(tmp_path / "died"), 40)
    with region(op, range(200), on_death="rerun").build(num_threads=1).auto_stop() as pipeline:
        assert sorted(pipeline.get_iterator(timeout=60)) == list(range(200))
        assert pipeline.statistics().in_flight == 0
        assert pipeline.failures() == []
    assert any("Its items are run again" in record.getMessage() for record in caplog.records)


def test_results_of_generators_come_once_if_run_again(tmp_path: Path) -> None:
    workers = ProcessPoolExecutorConfig(2, on_death="rerun")
    builder = PipelineBuilder().add_source(range(60)).to(workers).pipe(ops.DieOnce(str(tmp_path / "died"), 33))
    builder = builder.pipe(ops.three).pipe(ops.three, concurrency=2).to(MAIN_PROCESS).add_sink()
    with builder.build(num_threads=1).auto_stop() as pipeline:
        out = sorted(pipeline.get_iterator(timeout=60))
    assert out == sorted(z for x in range(60) for y in ops.three(x) for z in ops.three(y))


@pytest.mark.parametrize(
    ("killers", "processes", "order"),
    [
        ([7], 2, "completion"),
        ([0, 1, 2], 3, "input"),
        ([0, 1, 2], 1, "completion"),
        ([5, 60, 61, 299], 2, "input"),
    ],
)
def test_only_the_items_that_kill_are_given_up(killers: list[int], processes: int, order: Any) -> None:
    workers = ProcessPoolExecutorConfig(processes, on_death="rerun")
    builder = PipelineBuilder().add_source(range(300)).to(workers)
    builder = builder.pipe(ops.Killers(killers), output_order=order).pipe(ops.three)
    with builder.to(MAIN_PROCESS).add_sink().build(num_threads=1).auto_stop() as pipeline:
        out = list(pipeline.get_iterator(timeout=60))
        failures = pipeline.failures()
        assert pipeline.statistics().in_flight == 0
    assert sorted(position for failure in failures for position in failure.positions) == killers
    assert all("3 workers have died with the item" in failure.error for failure in failures)
    expected = [y for x in range(300) if x not in killers for y in ops.three(x)]
    assert (out if order == "input" else sorted(out)) == expected


def test_in_a_region_that_gathers_others_are_given_up_with_the_item_that_kills() -> None:
    workers = ProcessPoolExecutorConfig(2, on_death="rerun")
    builder = PipelineBuilder().add_source(range(20)).to(workers).pipe(ops.die_on).aggregate(50).to(MAIN_PROCESS)
    with builder.add_sink().build(num_threads=1).auto_stop() as pipeline:
        out = [x for batch in pipeline.get_iterator(timeout=60) for x in batch]
        given_up = [position for failure in pipeline.failures() for position in failure.positions]
    assert 7 in given_up
    assert sorted([*out, *given_up]) == list(range(20))


class DiesOnceSeen:
    """Kills its process at item 4, once somebody has seen item 3."""

    def __init__(self, seen: Path) -> None:
        self.seen = seen

    def __call__(self, item: int) -> int:
        if item == 4:
            end = time.monotonic() + 60
            while not self.seen.exists() and time.monotonic() < end:
                time.sleep(0.01)
            os.kill(os.getpid(), signal.SIGKILL)
        return item


def test_items_whose_batch_has_come_in_part_are_not_run_again_and_it_says_why(tmp_path: Path) -> None:
    workers = ProcessPoolExecutorConfig(1, on_death="rerun")
    builder = PipelineBuilder().add_source(range(12)).to(workers).aggregate(3).disaggregate()
    builder = builder.pipe(DiesOnceSeen(tmp_path / "seen")).to(MAIN_PROCESS)
    builder = builder.pipe(lambda item: (tmp_path / "seen").touch() if item == 3 else item).add_sink()
    with pytest.raises(PipelineFailure) as caught, builder.build(num_threads=1).auto_stop() as pipeline:
        list(pipeline.get_iterator(timeout=60))
    message = str(caught.value.exceptions[0])
    assert "cannot be run again" in message
    assert "aggregate(op=collate(3), drop_last=False) has made results of several" in message


@pytest.mark.parametrize("initializer", [None, ops.exit_at_once])
def test_workers_that_die_of_something_else_than_their_items(initializer: Callable[[], None] | None) -> None:
    builder = region(ops.exit_always, range(1000), on_death="rerun", initializer=initializer)
    with pytest.raises(PipelineFailure) as caught, builder.build(num_threads=1).auto_stop() as pipeline:
        list(pipeline.get_iterator(timeout=60))
    assert "10 workers have died and finished no item in between" in str(caught.value.exceptions[0])


def test_order_is_kept_if_items_are_run_again(tmp_path: Path) -> None:
    workers = ProcessPoolExecutorConfig(2, on_death="rerun")
    builder = PipelineBuilder().add_source(range(100)).to(workers)
    builder = builder.pipe(ops.DieOnce(str(tmp_path / "died"), 50), output_order="input").to(MAIN_PROCESS).add_sink()
    with builder.build(num_threads=1).auto_stop() as pipeline:
        assert list(pipeline.get_iterator(timeout=60)) == list(range(100))


def test_epochs_are_complete_if_workers_die(tmp_path: Path) -> None:
    workers = ProcessPoolExecutorConfig(2, on_death="rerun")
    builder = PipelineBuilder().add_source(range(50), continuous=True).to(workers)
    builder = builder.pipe(ops.DieOnce(str(tmp_path / "died"), 49)).to(MAIN_PROCESS).add_sink()
    with builder.build(num_threads=1).auto_stop() as pipeline:
        for _ in range(3):
            assert sorted(pipeline.get_iterator(timeout=60)) == list(range(50))


@pytest.mark.long
@pytest.mark.parametrize("seed", range(KILLS))
def test_kills_at_random_moments(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - no secret.
    policy = rng.choice(["fail", "rerun"])
    items = range(400)
    others = {process.pid for process in psutil.Process().children(recursive=True)}
    pipeline = region(ops.nap, items, on_death=policy).build(num_threads=1)
    taken: list[int] = []
    errors: list[BaseException] = []
    killed, begin, seconds = False, 0.0, 0.0
    with pipeline.auto_stop():
        iterator = iter(pipeline.get_iterator(timeout=60))
        stop_at = rng.randrange(300)
        try:
            for item in iterator:
                taken.append(item)
                if not killed and len(taken) >= stop_at and (found := workers(others)):
                    os.kill(rng.choice(found).pid, signal.SIGKILL)
                    killed = True
                    begin = time.monotonic()
        except PipelineFailure as failure:
            errors = list(failure.exceptions)
            seconds = time.monotonic() - begin
    assert bool(errors) == (policy == "fail" and killed)
    assert all("has died" in str(error) for error in errors)
    assert seconds < 20
    assert len(set(taken)) == len(taken)
    if policy == "rerun":
        assert sorted(taken) == list(items)
