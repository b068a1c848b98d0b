"""Test what `profile_pipeline` measures, in which order, and what it reports to hooks."""

from __future__ import annotations

import logging
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.profiling.profiles import ALL, AsyncGauge, Gauge, concurrencies, napping, profile
from tests.pipeline.support import source

from spdl.pipeline import (
    AsyncQueue,
    PipelineBuilder,
    ProfileHook,
    ProfileResult,
    TaskHook,
    config,
    profile_pipeline,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.usefixtures("short")


def test_concurrencies_in_the_reference_s_order() -> None:
    results = profile(source(range(100)).pipe(str, name="text").aggregate(4).disaggregate())
    assert [it.name for it in results] == ["text", "aggregate(op=collate(4), drop_last=False)", "disaggregate"]
    assert [concurrencies(it) for it in results] == [ALL, [1], [1]]


@pytest.mark.parametrize("kind", ["executor", "in order", "async"])
def test_so_many_ops_run_at_once(kind: str) -> None:
    """The concurrency measured is independent of the declaration and the executor."""
    gauge = AsyncGauge() if kind == "async" else Gauge()
    most: dict[int, int] = {}

    class Hook(Quiet):
        def begins(self, concurrency: int) -> None:
            gauge.expected, gauge.most = concurrency, 0

        def measured(self, concurrency: int) -> None:
            most[concurrency] = gauge.most

    with ThreadPoolExecutor(2) as executor:
        options: dict[str, Any] = {"executor": {"executor": executor}, "in order": {"output_order": "input"}}
        profile(source(range(100)).pipe(gauge, concurrency=3, **options.get(kind, {})), hook=Hook())
    assert most == {it: it for it in ALL}


class Quiet(ProfileHook):
    """A hook that writes down its calls."""

    def __init__(self) -> None:
        self.entered: list[Any] = []

    def begins(self, concurrency: int) -> None:
        pass

    def measured(self, concurrency: int) -> None:
        pass

    @contextmanager
    def pipeline_profile_hook(self) -> Iterator[None]:
        self.entered.append("pipeline")
        yield
        self.entered.append(("left", "pipeline"))

    @contextmanager
    def stage_profile_hook(self, stage: str, concurrency: int) -> Iterator[None]:
        self.entered.append((stage, concurrency))
        self.begins(concurrency)
        yield
        self.measured(concurrency)
        self.entered.append(("left", (stage, concurrency)))


def test_hooks_surround_the_profile_and_each_measurement() -> None:
    hook = Quiet()
    profile(source(range(9)).pipe(abs).aggregate(3), hook=hook)
    batches = ("aggregate(op=collate(3), drop_last=False)", 1)
    expected: list[Any] = ["pipeline"]
    for what in [*(("abs", it) for it in ALL), batches]:
        expected += [what, ("left", what)]
    assert hook.entered == [*expected, ("left", "pipeline")]


def test_what_a_hook_raises_ends_the_profile() -> None:
    class Hook(Quiet):
        def measured(self, concurrency: int) -> None:
            raise OSError("the disk of the traces is full")

    with pytest.raises(OSError, match="traces"):
        profile(source(range(9)).pipe(abs), hook=Hook())


def test_callback_gets_each_result_at_once() -> None:
    seen: list[ProfileResult] = []
    calls: list[int] = []

    def second(x: Any) -> Any:
        calls.append(len(seen))
        return x

    results = profile(source(range(20)).pipe(abs).pipe(second), callback=seen.append)
    assert seen == results
    assert set(calls) == {1}


def test_defaults_of_the_process() -> None:
    seen: list[ProfileResult] = []
    hook = Quiet()
    config.set_default_profile_callback(seen.append)
    config.set_default_profile_hook(hook)
    try:
        results = profile(source(range(20)).pipe(abs))
        assert seen == results
        assert hook.entered[0] == "pipeline"
        other: list[ProfileResult] = []
        another = Quiet()
        profile(source(range(20)).pipe(abs), callback=other.append, hook=another)
    finally:
        config.set_default_profile_callback(None)
        config.set_default_profile_hook(None)
    assert (len(seen), len(other)) == (1, 1)
    assert hook.entered.count("pipeline") == another.entered.count("pipeline") == 1


def test_default_hooks_queues_and_tasks_of_pipelines_are_left_out() -> None:
    """They would be measured, too, and would report items that are none."""

    def refuse(*_: Any, **__: Any) -> Any:
        raise AssertionError("made for a profile")

    class Hook(TaskHook):
        __init__ = refuse

    class Queue(AsyncQueue[Any]):
        __init__ = refuse

    config.set_default_hook_class(Hook)
    config.set_default_queue_class(Queue)
    config.set_default_background_tasks([refuse])
    config.set_default_build_callback(refuse)
    try:
        assert len(profile(source(range(20)).pipe(abs))) == 1
    finally:
        config.set_default_hook_class()
        config.set_default_queue_class()
        config.set_default_background_tasks(None)
        config.set_default_build_callback(None)


def test_rates_of_ops_that_sleep() -> None:
    """No scheduler can exceed the bound of the rate. How close it comes depends on how busy the machine is."""

    (result,) = profile(source(range(50)).pipe(napping(0.01)))
    for it in result.stats:
        assert 0 < it.qps < 1.2 * it.concurrency / 0.01
        assert it.qps == pytest.approx(it.num_outputs / it.seconds)
        assert it.busy_seconds >= 0.01 * it.num_inputs
        assert it.cpu_seconds < 0.5 * it.busy_seconds
        assert 0 <= it.occupancy_rate <= 1


def test_occupancy_of_a_stage_that_gives_many_results_at_once() -> None:
    def burst(x: int) -> list[int]:
        time.sleep(0.02)
        return [x] * 100

    def occupancy() -> float:
        *_, one = profile(source(range(8)).pipe(burst).disaggregate())
        return one.stats[0].occupancy_rate

    # A few milliseconds are measured, in which a busy machine may let the reader run all the time.
    assert any(occupancy() > 0 for _ in range(5))


@pytest.mark.parametrize("seconds", [0.06, 0.4])
def test_slow_ops_run_one_round_per_concurrency(seconds: float) -> None:
    """A measurement shorter than one op ends with the ops that it began with, and some that wait already."""
    calls = Counter[int]()

    def slow(x: int) -> int:
        calls[x] += 1
        time.sleep(seconds)
        return x

    began = time.monotonic()
    (result,) = profile(source(range(100)).pipe(slow))
    assert [it.num_inputs for it in result.stats] == ALL
    # The trial makes three calls at most.
    assert sum(calls.values()) <= sum(ALL) + 3
    assert time.monotonic() - began < (len(ALL) + 3) * seconds + 20
    assert all(it.qps < 1.2 * it.concurrency / seconds for it in result.stats)


def test_time_is_bounded_whatever_the_number_of_inputs() -> None:
    began = time.monotonic()
    profile(source(range(10_000)).pipe(napping(0.005)), 10_000)
    # There are five measurements of 0.1 seconds. One after the other, all items would take 50 seconds each time.
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(("rank", "num_results"), [("0", 1), ("", 1), ("1", 0), ("7", 0)])
def test_only_the_first_process_of_a_job_profiles(rank: str, num_results: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", rank)
    assert len(profile(source(range(9)).pipe(abs))) == num_results


def test_wrong_arguments() -> None:
    builder = PipelineBuilder[Any, Any]().add_source(range(3)).pipe(abs).add_sink()
    wrong: Any = builder
    with pytest.raises(TypeError, match=r"`cfg` must be a PipelineConfig, .*`get_config\(\)` makes one"):
        profile_pipeline(wrong)
    for number, error in ((0, ValueError), (-3, ValueError), (2.5, TypeError), (True, TypeError)):
        with pytest.raises(error, match="`num_inputs` must be an int of at least 1"):
            profile_pipeline(builder.get_config(), number)  # type: ignore[arg-type]
    not_callable: Any = 3
    with pytest.raises(TypeError, match="`callback` must be callable or None"):
        profile_pipeline(builder.get_config(), callback=not_callable)
    a_class: Any = Quiet
    with pytest.raises(TypeError, match="`hook` must be an instance of a subclass of ProfileHook, or None"):
        profile_pipeline(builder.get_config(), hook=a_class)


def test_results_are_logged_and_read_well(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "spdl.pipeline")
    (result,) = profile(source(range(9)).pipe(abs, name="size"))
    (message,) = [record.getMessage() for record in caplog.records]
    assert message == str(result)
    assert message.startswith("size: ")
    for it in result.stats:
        assert f"{it.qps:,.1f} at {it.concurrency}" in message
