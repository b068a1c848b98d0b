"""Test profiles of ops that fail, drop items, or do not take an item twice."""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from typing import Any

import pytest
from tests.pipeline.aggregators import Pairs
from tests.pipeline.profiling.profiles import ALL, Notes, concurrencies, napping, profile
from tests.pipeline.support import source

from spdl.pipeline import (
    PipelineFailure,
)
from spdl.pipeline.defs import Aggregator

pytestmark = pytest.mark.usefixtures("short")


@pytest.mark.usefixtures("patient")
def test_ops_that_do_not_take_an_item_twice(caplog: pytest.LogCaptureFixture) -> None:
    """Each item is used by one measurement only, and its result is passed on. Nothing counts as a failure."""
    calls = Counter[int]()

    def use_up(x: int) -> int:
        calls[x] += 1
        if calls[x] > 1:
            raise TypeError("used up")
        return -x

    notes = Notes()
    results = profile(source(range(1, 201)).pipe(use_up, retries=5).pipe(notes))
    assert set(calls) == set(range(1, 201))
    assert sum(calls.values()) == 202  # The trial calls the op on its item twice more, to be sure.
    assert notes.given == {-x for x in range(1, 201)}
    assert concurrencies(results[0]) == ALL
    assert all(it.num_failures == 0 for it in results[0].stats)
    assert not caplog.records
    shares = [it.num_inputs for it in results[0].stats]
    assert sum(shares) == 199
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


@pytest.mark.usefixtures("patient")
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

    with pytest.raises(
        RuntimeError, match="'once' uses its items up, and got only 1 of them: raise `num_inputs`, now 1"
    ):
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
        RuntimeError,
        match=r"'broken' failed on every item .* (3[2-9]|[4-6][0-9]|70) of them: ValueError: no such file"
        r" \(.*test_profile_ops.py:\d+\)$",
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


@pytest.mark.usefixtures("patient")
def test_an_aggregator_starts_afresh_afterwards() -> None:
    for drop_last in (True, False):
        pairs = Pairs[int]()
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


def test_an_op_that_wants_the_process_to_end() -> None:
    def leave(_: int) -> None:
        raise SystemExit(3)

    with pytest.raises(PipelineFailure) as failure:
        profile(source(range(9)).pipe(leave))
    assert isinstance(failure.value.exceptions[0].__cause__, SystemExit)
