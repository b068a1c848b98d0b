"""What is measured, with which items, how often ops are called, and what the next stage is given."""

from __future__ import annotations

import asyncio
import itertools
import logging
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import source

from spdl.pipeline import (
    AsyncQueue,
    PipelineBuilder,
    PipelineFailure,
    ProfileHook,
    ProfileResult,
    TaskHook,
    config,
    profile_pipeline,
)
from spdl.pipeline.defs import Aggregator

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

pytestmark = pytest.mark.usefixtures("short")

ALL = [32, 16, 8, 4, 1]


def profile(builder: PipelineBuilder[Any, Any], num_inputs: int = 1000, **kwargs: Any) -> list[ProfileResult]:
    return profile_pipeline(builder.add_sink().get_config(), num_inputs, **kwargs)


def concurrencies(result: ProfileResult) -> list[int]:
    return [it.concurrency for it in result.stats]


class Notes:
    """An op that passes its items on and knows which they were."""

    def __init__(self) -> None:
        self.given: set[Any] = set()

    def __call__(self, x: Any) -> Any:
        self.given.add(tuple(x) if isinstance(x, list) else x)
        return x


def napping(seconds: float) -> Callable[[Any], Any]:
    def nap(x: Any) -> Any:
        time.sleep(seconds)
        return x

    return nap


class Gauge:
    """An op that waits, once, until as many of it run as are expected."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.expected = 1
        self.running = self.most = 0

    def __call__(self, x: Any) -> Any:
        with self.changed:
            self.running += 1
            self.most = max(self.most, self.running)
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.most >= self.expected, timeout=5)
        time.sleep(0.001)
        with self.changed:
            self.running -= 1
        return x


def test_concurrencies_in_the_reference_s_order() -> None:
    results = profile(source(range(100)).pipe(str, name="text").aggregate(4).disaggregate())
    assert [it.name for it in results] == ["text", "aggregate(op=collate(4), drop_last=False)", "disaggregate"]
    assert [concurrencies(it) for it in results] == [ALL, [1], [1]]


def test_so_many_ops_run_at_once() -> None:
    """Whatever the declaration and the executor say."""
    gauge = Gauge()
    most: dict[int, int] = {}

    class Hook(Quiet):
        def begins(self, concurrency: int) -> None:
            gauge.expected, gauge.most = concurrency, 0

        def measured(self, concurrency: int) -> None:
            most[concurrency] = gauge.most

    with ThreadPoolExecutor(2) as executor:
        profile(source(range(100)).pipe(gauge, concurrency=3, executor=executor), hook=Hook())
    assert most == {it: it for it in ALL}


class Quiet(ProfileHook):
    """Writes down what it is told."""

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
    """They would be measured, too, and tell of items that are none."""

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
    """They have a bound that no scheduler beats; how near they come depends on how busy the machine is."""

    (result,) = profile(source(range(50)).pipe(napping(0.01)))
    for it in result.stats:
        assert 0 < it.qps < 1.05 * it.concurrency / 0.01
        assert it.qps == pytest.approx(it.num_outputs / it.seconds)
        assert it.busy_seconds >= 0.01 * it.num_inputs
        assert it.cpu_seconds < 0.5 * it.busy_seconds
        assert 0 <= it.occupancy_rate <= 1


def test_occupancy_of_a_stage_that_gives_many_results_at_once() -> None:
    def burst(x: int) -> list[int]:
        time.sleep(0.02)
        return [x] * 100

    *_, one = profile(source(range(8)).pipe(burst).disaggregate())
    assert one.stats[0].occupancy_rate > 0


@pytest.mark.parametrize("seconds", [0.06, 0.15, 0.4])
def test_slow_ops_run_one_round_per_concurrency(seconds: float) -> None:
    """Longer than a measurement should take: it ends with the ops that it began with, and some that wait already."""
    calls = Counter[int]()

    def slow(x: int) -> int:
        calls[x] += 1
        time.sleep(seconds)
        return x

    began = time.monotonic()
    (result,) = profile(source(range(100)).pipe(slow))
    assert [it.num_inputs for it in result.stats] == ALL
    # The trial is three calls at most.
    assert sum(calls.values()) <= sum(ALL) + 3
    assert time.monotonic() - began < (len(ALL) + 3) * seconds + 2
    assert all(it.qps < 1.05 * it.concurrency / seconds for it in result.stats)


def test_time_is_bounded_whatever_the_number_of_inputs() -> None:
    began = time.monotonic()
    profile(source(range(10_000)).pipe(napping(0.005)), 10_000)
    # Five measurements of 0.1 seconds; the rest is for a busy machine.
    assert time.monotonic() - began < 5


def test_the_first_items_and_no_more_are_read() -> None:
    pulled: list[int] = []

    def numbers() -> Iterator[int]:
        for x in itertools.count():
            pulled.append(x)
            yield x

    notes = Notes()
    profile(source(numbers()).pipe(notes), 7)
    assert pulled == list(range(7))
    assert notes.given == set(range(7))


def test_the_rest_of_an_iterator_is_closed() -> None:
    closed: list[bool] = []

    def numbers() -> Iterator[int]:
        try:
            yield from range(100)
        finally:
            closed.append(True)

    numbers_in_time = numbers()
    profile(source(numbers_in_time).pipe(abs), 5)
    assert closed == [True]


def test_an_exhausted_iterator_is_not_closed() -> None:
    class Numbers:
        left = 3

        def __iter__(self) -> Numbers:
            return self

        def __next__(self) -> int:
            if not self.left:
                raise StopIteration
            self.left -= 1
            return self.left

        def close(self) -> None:
            raise AssertionError("closed")

    profile(source(Numbers()).pipe(abs))


def test_async_source() -> None:
    closed: list[bool] = []

    class Numbers:
        async def __aiter__(self) -> AsyncIterator[int]:
            try:
                for x in itertools.count():
                    await asyncio.sleep(0)
                    yield x
            finally:
                closed.append(True)

    notes = Notes()
    profile(source(Numbers()).pipe(notes), 5)
    assert notes.given == set(range(5))
    assert closed == [True]


def test_one_epoch_of_a_continuous_source() -> None:
    class Epochs:
        begun = 0

        def __iter__(self) -> Iterator[int]:
            self.begun += 1
            return iter(range(3))

    epochs = Epochs()
    notes = Notes()
    profile(source(epochs, continuous=True).pipe(notes))
    assert epochs.begun == 1
    assert notes.given == {0, 1, 2}


def test_a_slow_source_gives_what_it_gives_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spdl.pipeline._profiling._first_items._MOST_SECONDS", 0.1)

    def numbers() -> Iterator[int]:
        for x in itertools.count():
            time.sleep(0.02)
            yield x

    notes = Notes()
    profile(source(numbers()).pipe(notes))
    assert 1 <= len(notes.given) <= 7


def test_source_on_a_thread_of_its_own() -> None:
    threads: set[int] = set()

    def numbers() -> Iterator[int]:
        for x in range(20):
            threads.add(threading.get_ident())
            yield x

    profile(source(numbers(), dedicated_thread=True).pipe(abs))
    assert len(threads) == 1


def test_none_among_the_items() -> None:
    (result,) = profile(source([None, None]).pipe(lambda x: x is None))
    assert all(it.num_failures == 0 for it in result.stats)


def test_what_a_stage_gives_is_what_the_next_one_gets() -> None:
    given = Counter[str]()

    def note(x: str) -> str:
        given[x] += 1
        return x

    profile(source(range(50)).pipe(str).pipe(note))
    assert set(given) == {str(x) for x in range(50)}


def test_batches_of_what_was_given_once() -> None:
    notes = Notes()
    profile(source(range(100)).aggregate(25).pipe(notes))
    assert notes.given == {tuple(range(start, start + 25)) for start in range(0, 100, 25)}


def test_no_more_results_are_kept_than_were_asked_for() -> None:
    notes = Notes()

    def many(x: int) -> Iterator[int]:
        yield from range(1000 * x, 1000 * x + 1000)

    profile(source(range(20)).pipe(many).pipe(notes), 20)
    assert 1 <= len(notes.given) <= 20


def test_flow_is_items_per_source_item() -> None:
    def thrice(x: int) -> Iterator[int]:
        yield x
        yield x
        yield x

    builder = source(range(600)).pipe(thrice).pipe(lambda x: x if x % 2 else None, name="odd").aggregate(3).pipe(len)
    flows = [it.flow for it in profile(builder)]
    # The first ones are cut off in the middle of generators.
    assert flows == [1.0, pytest.approx(3, rel=0.4), pytest.approx(1.5, rel=0.4), pytest.approx(0.5, rel=0.4)]


def test_an_endless_generator() -> None:
    def endless(x: int) -> Iterator[int]:
        while True:
            yield x

    began = time.monotonic()
    results = profile(source(range(3)).pipe(endless).pipe(abs))
    assert time.monotonic() - began < 10
    assert all(it.num_outputs > 0 for it in results[0].stats)


def test_async_ops() -> None:
    async def nap(x: int) -> int:
        await asyncio.sleep(0.005)
        return x

    async def twice(x: int) -> AsyncIterator[int]:
        yield x
        yield x

    results = profile(source(range(50)).pipe(nap).pipe(twice).pipe(abs))
    assert [it.is_async for it in results] == [True, True, False]
    assert [concurrencies(it) for it in results] == [ALL] * 3
    assert max(it.qps for it in results[0].stats) > 4 * results[0].stats[-1].qps


def test_as_many_items_as_measurements() -> None:
    """Each measurement gets one of the items that can be used only once."""
    seen: set[int] = set()

    def once(x: int) -> int:
        if x in seen:
            raise TypeError("used up")
        seen.add(x)
        return x

    (result,) = profile(source(range(6)).pipe(once))
    assert concurrencies(result) == ALL
    assert [it.num_inputs for it in result.stats] == [1] * 5


def test_ops_that_do_not_take_an_item_twice(caplog: pytest.LogCaptureFixture) -> None:
    """Each item is used once, by whichever measurement, and its result is passed on. That is nobody's mistake."""
    calls = Counter[int]()

    def use_up(x: int) -> int:
        calls[x] += 1
        if calls[x] > 1:
            raise TypeError("used up")
        return -x

    notes = Notes()
    results = profile(source(range(1, 201)).pipe(use_up, retries=5).pipe(notes))
    used = set(calls)
    assert used <= set(range(1, 201))
    assert sum(calls.values()) == len(used) + 2  # The trial: twice more before it is believed.
    assert notes.given == {-x for x in used}
    assert concurrencies(results[0]) == ALL
    assert all(it.num_failures == 0 for it in results[0].stats)
    assert not caplog.records
    shares = [it.num_inputs for it in results[0].stats]
    assert sum(shares) == len(used) - 1
    # Where the machine stalls, a measurement has seen enough before it has used its share.
    if len(used) == 200:
        assert shares == sorted(shares, reverse=True)
        assert shares[0] > 1.5 * shares[1] > 2 * shares[2]


def test_ops_that_give_nothing_for_an_item_seen_before() -> None:
    seen: set[int] = set()

    def deduplicate(x: int) -> int | None:
        if x in seen:
            return None
        seen.add(x)
        return x

    (result,) = profile(source(range(100)).pipe(deduplicate))
    assert all(it.num_outputs == it.num_inputs for it in result.stats)


def test_iterators_among_the_items() -> None:
    results = profile(source(range(50)).pipe(lambda x: iter([x, x])).disaggregate().pipe(abs))
    assert results[1].stats[0].num_outputs == 2 * results[1].stats[0].num_inputs


def test_a_single_item_that_is_used_up() -> None:
    calls: list[int] = []

    def once(x: int) -> int:
        calls.append(x)
        if len(calls) > 1:
            raise TypeError("used up")
        return x

    with pytest.raises(RuntimeError, match="'once' uses its items up, and was given 1 only: raise `num_inputs`, now 1"):
        profile(source(range(9)).pipe(once), 1)


def test_ops_that_fail_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    calls = itertools.count()

    def flaky(x: int) -> int:
        if next(calls) % 7 == 3:
            raise ValueError(x)
        return x

    told: list[Any] = []
    (result,) = profile(source(range(70)).pipe(flaky, max_failures=0, on_failure=told.append))
    for it in result.stats:
        assert it.num_failures == pytest.approx(it.num_inputs / 7, abs=2)
        assert it.num_outputs == it.num_inputs - it.num_failures
    assert told == []


def test_ops_that_fail_always(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)

    def broken(_: int) -> int:
        raise ValueError("no such file")

    with pytest.raises(
        RuntimeError, match=r"'broken' failed on every item .* concurrency of 32\. .*no such file"
    ) as told:
        profile(source(range(70)).pipe(abs).pipe(broken).pipe(abs))
    assert isinstance(told.value.__cause__, PipelineFailure)


def test_timeouts_are_left_out() -> None:
    (result,) = profile(source(range(70)).pipe(napping(0.01), timeout=0.001, on_timeout="drop"))
    assert all(it.num_failures == 0 for it in result.stats)


def test_a_stage_that_keeps_everything_back() -> None:
    with pytest.raises(
        RuntimeError, match=r"'abs' cannot be profiled, since 'drop' gave nothing.* `num_inputs`, now 5"
    ):
        profile(source(range(70)).pipe(lambda _: None, name="drop").pipe(abs), 5)


def test_the_last_stage_may_keep_everything_back() -> None:
    written: list[int] = []
    (result,) = profile(source(range(70)).pipe(written.append))
    assert [it.qps for it in result.stats] == [0] * 5
    assert all(it.num_inputs > 0 for it in result.stats)


def test_an_aggregator_starts_afresh_afterwards() -> None:
    class Pairs(Aggregator[int, list[int]]):
        def __init__(self) -> None:
            self.held: list[int] = []

        def accumulate(self, item: int) -> list[int] | None:
            self.held.append(item)
            return self.flush() if len(self.held) == 2 else None

        def flush(self) -> list[int] | None:
            held, self.held = self.held, []
            return held or None

    for drop_last in (True, False):
        pairs = Pairs()
        (result,) = profile(source(range(9)).aggregate(pairs, drop_last=drop_last))
        assert result.stats[0].num_outputs > 0
        assert pairs.held == []


def test_an_aggregator_that_raises() -> None:
    class Broken(Aggregator[int, int]):
        def accumulate(self, item: int) -> int:
            raise KeyError(item)

        def flush(self) -> None:
            pass

    with pytest.raises(PipelineFailure) as failure:
        profile(source(range(9)).aggregate(Broken()))
    assert isinstance(failure.value.exceptions[0], KeyError)


def test_a_source_that_raises() -> None:
    def numbers() -> Iterator[int]:
        yield 1
        raise OSError("disk on fire")

    with pytest.raises(PipelineFailure) as failure:
        profile(source(numbers()).pipe(abs))
    assert isinstance(failure.value.exceptions[0], OSError)


def test_an_op_that_wants_the_process_to_end() -> None:
    def leave(_: int) -> None:
        raise SystemExit(3)

    with pytest.raises(PipelineFailure) as failure:
        profile(source(range(9)).pipe(leave))
    assert isinstance(failure.value.exceptions[0].__cause__, SystemExit)


def test_a_source_without_items() -> None:
    with pytest.raises(RuntimeError, match=r"The source 'src' \(source\(list at 0x.*\)\) gave no items"):
        profile(source([]).pipe(abs))


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


def test_ordered_stages() -> None:
    (result,) = profile(source(range(50)).pipe(napping(0.002), output_order="input"))
    assert max(it.qps for it in result.stats) > 4 * result.stats[-1].qps
