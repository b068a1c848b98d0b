"""Compare the recommendations with a model of a pipeline whose best concurrencies are known."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.cli._common.console import Console
from spdl.cli._profile.advice import ENOUGH, Advice, advise
from spdl.cli._profile.view import print_profile
from spdl.pipeline import ProfileResult, ProfileStats

CONCURRENCIES = (32, 16, 8, 4, 1)


@dataclass
class Op:
    """An op that waits and computes for given seconds, with or without the GIL, `flow` times per source item."""

    waits: float
    computes: float
    holds: bool = False
    flow: float = 1.0

    def rate(self, concurrency: float, cores: float) -> float:
        """Return ops per second: concurrency times the rate of one, unless computing reaches its limit."""
        alone = concurrency / (self.waits + self.computes)
        return min(alone, (1 if self.holds else cores) / self.computes) if self.computes else alone


def result_of(op: Op, name: str, cores: float) -> ProfileResult:
    measured = []
    for concurrency in CONCURRENCIES:
        rate = op.rate(concurrency, cores)
        num = 1_000_000
        runnable = max(1.0, concurrency * op.computes / (op.waits + op.computes))
        measured.append(
            ProfileStats(
                concurrency=concurrency,
                qps=rate,
                occupancy_rate=0.0,
                num_inputs=num,
                num_outputs=num,
                seconds=num / rate,
                busy_seconds=concurrency * num / rate,
                cpu_seconds=op.computes * num,
                num_runnable=1.0 if op.holds else runnable,
                num_waiting=0.0,
            )
        )
    return ProfileResult(name, measured, op.flow)


def advice_for(*ops: Op, cores: float = 4) -> Advice:
    return advise([result_of(op, f"op{index}", cores) for index, op in enumerate(ops)], cores)


ops = st.builds(
    Op,
    waits=st.sampled_from([0.0, 0.0, 0.001, 0.02]),
    computes=st.floats(1e-5, 0.01),
    holds=st.booleans(),
    flow=st.sampled_from([1.0, 1.0, 0.03, 3.0]),
)


@given(st.lists(ops, min_size=1, max_size=5), st.sampled_from([1, 2, 16]))
def test_every_stage_keeps_up_and_no_thread_is_idle(declared: list[Op], cores: int) -> None:
    advice = advice_for(*declared, cores=cores)
    for op, concurrency in zip(declared, advice.concurrency, strict=True):
        keeps_up = op.rate(concurrency, cores) / op.flow
        assert keeps_up >= 0.99 * ENOUGH * min(advice.items_per_second, op.rate(32, cores) / op.flow)
        if concurrency > 1:
            # With a concurrency of one less, it would not keep up, or only just.
            fewer = op.rate(concurrency - 1, cores) / op.flow
            assert fewer < 1.2 * advice.items_per_second
    assert advice.num_threads == sum(advice.concurrency)


@given(st.lists(ops, min_size=1, max_size=5), st.sampled_from([1, 2, 16]))
def test_no_more_is_expected_than_is_possible(declared: list[Op], cores: int) -> None:
    advice = advice_for(*declared, cores=cores)
    for op in declared:
        assert advice.items_per_second <= op.rate(32, cores) / op.flow * 1.001
    assert advice.items_per_second * sum(op.computes * op.flow for op in declared) <= cores * 1.001


def test_stages_that_wait_get_as_many_as_it_takes() -> None:
    advice = advice_for(Op(0.0099, 1e-5), Op(0, 0.002, holds=True))
    # The second stage does 500 items/s, so the first needs a concurrency of 5, and some to spare.
    assert list(advice.concurrency) == [6, 1]
    assert advice.num_threads == 7
    assert advice.items_per_second == pytest.approx(500, rel=0.02)
    assert advice.limit == "Stage 'op1' is the limit: alone it keeps up with 500 items/s at best."


def test_computing_gets_a_thread_per_core() -> None:
    assert list(advice_for(Op(0, 0.01), cores=4).concurrency) == [4]
    assert list(advice_for(Op(0, 0.01), cores=2).concurrency) == [2]


def test_together_they_need_more_than_the_cores() -> None:
    advice = advice_for(Op(0, 0.01), Op(0, 0.03), cores=4)
    assert advice.items_per_second == pytest.approx(100)
    assert advice.limit == (
        "The CPU is the limit: the stages take 40.0 ms of it per item, most in 'op1', and there are 4 cores."
    )


def test_together_they_need_more_than_one_gil() -> None:
    advice = advice_for(Op(0, 0.01, holds=True), Op(0, 0.03, holds=True), cores=8)
    assert advice.items_per_second == pytest.approx(25)
    assert advice.limit == "The GIL is the limit: it is held for 40.0 ms per item, most in 'op1'."


def test_async_stages_need_no_threads() -> None:
    results = [result_of(Op(0.01, 1e-5), "fetch", 4)]
    results.append(ProfileResult("loop", results[0].stats, 1.0, is_async=True))
    advice = advise(results, 4)
    assert advice.num_threads == advice.concurrency[0] == advice.concurrency[1] == 29


def test_noise_does_not_make_ops_that_hold_the_gil_concurrent() -> None:
    plain = result_of(Op(0, 0.001, holds=True), "op", 4)
    first, *others = plain.stats
    lucky = ProfileStats(
        first.concurrency,
        3 * first.qps,
        0.0,
        first.num_inputs,
        first.num_outputs,
        0,
        first.seconds / 3,
        first.busy_seconds,
        first.cpu_seconds,
        1.0,
        0.0,
    )
    assert list(advise([ProfileResult("op", [lucky, *others])], 4).concurrency) == [1]


def test_a_stage_of_which_no_item_came_to_an_end() -> None:
    measured = [ProfileStats(it, 1e5, 0.0, 0, 100_000, 0, 1.0, 1.0, 1.0, 1.0, 0.0) for it in CONCURRENCIES]
    advice = advise([ProfileResult("endless", measured)], 2)
    assert math.isfinite(advice.items_per_second)
    assert advice.num_threads >= 1


def test_a_few_quick_calls_are_no_reason_for_processes(capsys: pytest.CaptureFixture[str]) -> None:
    """Threads had hardly begun, so no more than one was runnable at a time."""
    measured = [
        ProfileStats(it, 1000.0, 0.0, it, it, 0, seconds=0.001 * it, busy_seconds=0.001 * it, cpu_seconds=0.001 * it)
        for it in CONCURRENCIES
    ]
    result = ProfileResult("op", [dataclasses.replace(it, num_runnable=1.0, num_waiting=0.0) for it in measured])
    advice = advise([result], 4)
    assert "GIL" not in advice.limit
    print_profile([result], advice, 4, Console())
    printed = " ".join(capsys.readouterr().out.split())
    assert "ProcessPoolExecutor" not in printed
    assert "raise --num-inputs" in printed


@pytest.mark.parametrize(
    ("hand_over", "said"),
    [
        (None, ""),
        (0.0001, ""),
        (0.002, "make it at most 5.0 times faster"),
        (0.02, "processes gain little here"),
    ],
)
def test_processes_are_advised_with_what_they_cost(
    hand_over: float | None, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = dataclasses.replace(result_of(Op(0, 0.01, holds=True), "op", 4), hand_over_seconds=hand_over)
    print_profile([result], advise([result], 4), 4, Console())
    printed = " ".join(capsys.readouterr().out.split())
    assert "ProcessPoolExecutor" in printed
    assert said in printed
    assert ("unpickles each result" in printed) == bool(said)
