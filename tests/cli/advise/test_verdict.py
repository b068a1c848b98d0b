"""The verdict on given times and cores."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.cli.advise.loops import PYTHON, SHORT, STARVED, steps

from spdl.cli._advise.measured import Loader, Measured, Rank
from spdl.cli._advise.page import headline
from spdl.cli._advise.verdict import judge

DESCRIPTION = {"file": "train.py", "line": 3, "num_workers": 4}


def loader(workers: int = 4, **changes: Any) -> Loader:
    return Loader(DESCRIPTION | {"num_workers": workers}, **STARVED | changes)


def test_a_starved_loop() -> None:
    verdict = judge(loader(), cores=16)
    assert verdict.kind == "decoding"
    assert verdict.share == pytest.approx(0.75)
    assert verdict.headspace == pytest.approx(4.0)
    assert not verdict.headspace_measured
    # A tenth of the time holds the GIL. Eleven threads, each of which takes 160 ms for a batch, are as fast as that.
    assert (verdict.limit, verdict.threads) == ("GIL", 11)
    assert verdict.gain == pytest.approx(0.04 / 0.0155)


def test_the_step_whose_batch_was_there_says_the_headspace() -> None:
    verdict = judge(loader(ahead_steps=10, ahead=0.08), cores=16)
    assert verdict.headspace == pytest.approx(5.0)
    assert verdict.headspace_measured


def nearly_starved(share: float, alone: float, spread: float) -> Loader:
    """Return a loop of steps of 100 ms in all, whose length without waiting was measured on eight steps."""
    return loader(
        wait=10 * share,
        step=10 * (1 - share),
        start=0.0,
        **steps(100, 0.1, spread, "period", "periods"),
        **steps(8, alone, spread, "ahead", "ahead_steps"),
    )


@pytest.mark.parametrize(
    ("share", "alone", "spread", "is_starved"),
    [
        # All steps are alike: what was measured counts, wherever the waiting is.
        (0.07, 0.100, 0.0, False),
        (0.07, 0.093, 0.001, False),
        (0.15, 0.095, 0.001, False),
        (0.07, 0.085, 0.001, True),
        # Steps that differ: eight of these say nothing, and the waiting is that of a hundred.
        (0.07, 0.085, 0.030, False),
        (0.15, 0.095, 0.030, True),
        (0.15, 0.089, 0.010, True),
        # A loop that does not wait is not starved, whatever made its steps longer.
        (0.04, 0.050, 0.001, False),
    ],
)
def test_a_loop_that_waits_a_little(share: float, alone: float, spread: float, *, is_starved: bool) -> None:
    verdict = judge(nearly_starved(share, alone, spread), cores=16)
    assert (verdict.kind != "not starved") is is_starved
    assert verdict.headspace == pytest.approx(0.1 / alone)
    assert verdict.headspace_range is not None
    low, high = verdict.headspace_range
    assert low <= verdict.headspace <= high


def test_the_range_of_the_headspace_is_that_of_the_means() -> None:
    verdict = judge(nearly_starved(0.5, 0.05, 0.01), cores=16)
    usual, ahead = 0.01 / math.sqrt(99) / 0.1, 0.01 / math.sqrt(7) / 0.05
    error = 1 + 2 * math.hypot(usual, ahead)
    assert verdict.headspace_range == pytest.approx((2 / error, 2 * error))


def test_one_step_measures_nothing() -> None:
    one = judge(loader(**steps(1, 0.01, 0.0, "ahead", "ahead_steps")), cores=16)
    assert (one.headspace_measured, one.headspace_range) == (False, None)


@pytest.mark.parametrize(
    ("cores", "changes", "limit", "gain"),
    [
        (2, {}, "cores", 0.04 / (0.17 / 2)),
        (16, {"fetch_cpu": 1.5, "fetch": 1.5, "send_cpu": 9.0}, "step", 4.0),
        (16, {"released": 0.0, "fetch_cpu": 3.0, "fetch": 3.0}, "GIL", 0.04 / 0.03),
        # Reading takes time and no core: 16 threads do it in that of a step, and 32 in more if it takes a second.
        (16, {"fetch_cpu": 1.0, "kinds": {"reading": 9.0}}, "step", 4.0),
        (16, {"fetch": 100.0, "fetch_cpu": 1.0, "kinds": {"reading": 10.0}}, "threads", 0.04 / (1.005 / 32)),
    ],
)
def test_what_limits_threads(cores: float, changes: dict[str, Any], limit: str, gain: float) -> None:
    verdict = judge(loader(**changes), cores)
    assert verdict.limit == limit
    assert verdict.gain == pytest.approx(gain, rel=0.01)


@pytest.mark.parametrize(
    ("cores", "workers", "changes", "found"),
    [
        # A worker takes 36 ms for a batch and a step 10, so four of them keep up with it.
        (16, 1, PYTHON, (4, 4.0, "step")),
        # Two cores have 46 ms to do for each batch: two workers do that in 23 ms.
        (2, 1, PYTHON, (2, 0.04 / 0.023, "cores")),
        # There are as many already as the cores let compute.
        (2, 2, PYTHON, (2, 1.0, "cores")),
        (2, 4, PYTHON, (4, 1.0, "cores")),
        # The loop itself unpickles for 5 ms of each step.
        (16, 1, {**PYTHON, "wait_cpu": 0.5}, (3, 0.04 / 0.015, "step")),
        # Nobody knows what sending costs where no worker does it.
        (16, 0, {**PYTHON, "sent": 0, "send_cpu": 0.0}, (4, 4.0, "step")),
    ],
)
def test_python_code_is_for_processes(
    cores: float, workers: int, changes: dict[str, Any], found: tuple[int, float, str]
) -> None:
    verdict = judge(loader(workers, **changes), cores)
    processes, gain, limit = found
    assert (verdict.processes, verdict.process_limit) == (processes, limit)
    assert verdict.process_gain == pytest.approx(gain)
    # The lines to change are those for threads.
    assert not verdict.worth


@pytest.mark.parametrize(
    "changes",
    [
        # It releases the GIL for nearly all of its time.
        {"fetch_cpu": 3.0, "fetch": 3.0, "released": 9.8},
        # Python code that takes less than a step.
        {**PYTHON, "fetch_cpu": 0.5, "fetch": 0.5},
        # Handing the batches over is what costs.
        {**PYTHON, "send_cpu": 9.0, "wait_cpu": 2.5},
    ],
)
def test_threads_are_not_given_up_for_processes_that_do_no_better(changes: dict[str, Any]) -> None:
    verdict = judge(loader(1, **changes), cores=16)
    assert verdict.processes is None
    assert verdict.worth


def test_cores_that_others_use_are_not_counted() -> None:
    # The threads had a core for a quarter of the time that they could have used one.
    busy = judge(loader(on_core=4.0, for_core=12.0), cores=16)
    idle = judge(loader(on_core=16.0, for_core=0.0), cores=16)
    assert busy.gain <= idle.gain
    assert judge(loader(on_core=4.0, for_core=12.0, step_cpu=0.1, fetch_cpu=1.0), cores=2).costs is not None


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({"kinds": {"reading": 7.0, "decoding": 1.0}}, "reading"),
        ({"kinds": {"waiting": 7.0}}, "waiting"),
        ({"kinds": {}}, "other"),
        ({"collate": 20.0}, "collating"),
        ({"send_cpu": 20.0}, "pickling"),
        # The loop's process unpickles 30 ms for each batch, while four workers wait for it.
        ({"wait_cpu": 3.1}, "pickling"),
        ({"wait": 0.01, "start": 0.02}, "not starved"),
        # The workers of 20 iterations take 0.2 s to start. One batch takes 0.16 s.
        ({"wait": 0.01, "start": 7.2, "epochs": 20, "made": 20}, "start"),
        ({"wait": 0.01, "start": 3.2, "epochs": 20, "made": 20}, "not starved"),
        ({"waits": 3}, "unknown"),
        ({"batches": 0}, "unknown"),
    ],
)
def test_kinds(changes: dict[str, Any], kind: str) -> None:
    assert judge(loader(**changes), cores=16).kind == kind


STEPS, ALL = 1.01, 5.01


@pytest.mark.parametrize(
    ("changes", "keeping", "anew"),
    [
        # One beginning stays, and nine cost a batch.
        ({}, ALL / (0.4 + 9 * 0.02 + STEPS), False),
        # The loader is made for each iteration, so another line has to change as well.
        ({"made": 10}, ALL / (0.4 + 9 * 0.02 + STEPS), True),
        # Two loaders of one line, such as those of a function: each starts its workers once.
        ({"made": 2}, ALL / (0.8 + 8 * 0.02 + STEPS), False),
        # Two ranks, each of which makes it anew.
        ({"made": 10, "processes": 2}, ALL / (0.8 + 8 * 0.02 + STEPS), True),
        # One iteration, or as many as there are ranks: nothing is kept for another one.
        ({"epochs": 1}, None, False),
        ({"epochs": 2, "processes": 2, "made": 2}, None, False),
        # Workers that take no time to start.
        ({"start": 0.2}, None, False),
    ],
)
def test_what_keeping_the_workers_gains(changes: dict[str, Any], keeping: float | None, *, anew: bool) -> None:
    verdict = judge(loader(**SHORT | changes), cores=16)
    assert verdict.keeping_gain == (None if keeping is None else pytest.approx(keeping))
    assert verdict.anew is anew


def test_workers_that_are_kept_and_a_loop_without_any_have_none_to_keep() -> None:
    kept = Loader(DESCRIPTION | {"persistent_workers": True}, **STARVED | SHORT)
    assert judge(kept, cores=16).keeping_gain is None
    alone = judge(loader(0, **SHORT | {"sent": 0, "send_cpu": 0.0}), cores=16)
    # What it does at its first batch, it does in threads as well.
    assert (alone.kind, alone.keeping_gain) == ("not starved", None)


def test_the_gain_of_threads_counts_their_beginnings() -> None:
    # Each beginning costs what a batch takes a thread, 19.5 ms, and the steps are as they are.
    verdict = judge(loader(**SHORT), cores=16)
    assert (verdict.kind, verdict.starts, verdict.limit) == ("start", True, "step")
    assert verdict.step_gain == pytest.approx(1.0)
    assert verdict.gain == pytest.approx(ALL / (10 * 0.0195 + STEPS))
    # Where steps wait as well, both count.
    starved = judge(loader(**SHORT | {"wait": 1.0}), cores=16)
    assert starved.kind == "start"
    assert starved.step_gain == pytest.approx(2.0)
    assert starved.gain == pytest.approx(6.0 / (10 * 0.0195 + 1.0))
    # The largest of both is the kind.
    assert judge(loader(**SHORT | {"wait": 5.0}), cores=16).kind == "decoding"


def test_the_first_batches_are_no_start_of_workers() -> None:
    # A batch takes 0.39 s, and each iteration 0.4 s to give its first one.
    verdict = judge(loader(**SHORT | {"fetch": 38.9, "fetch_cpu": 38.9}), cores=16)
    assert (verdict.kind, verdict.starts, verdict.keeping_gain) == ("not starved", False, None)


def test_threads_are_no_remedy_for_the_start_of_workers_if_they_load_less() -> None:
    # A batch holds the GIL for 19 ms, where a step takes 10.1.
    verdict = judge(loader(**SHORT | {"released": 0.0}), cores=16)
    assert verdict.limit == "GIL"
    assert verdict.step_gain == pytest.approx(10.1 / 19)
    assert verdict.gain == pytest.approx(ALL / (10 * 0.0195 + STEPS * 19 / 10.1))
    assert verdict.keeping_gain is not None
    assert not verdict.worth


def test_threads_must_gain_more_than_keeping_the_workers() -> None:
    # Each of four beginnings is a second, of which one stays where workers are kept.
    assert judge(loader(**SHORT | {"epochs": 4}), cores=16).worth
    # Of forty, it is a tenth of one.
    assert not judge(loader(**SHORT | {"epochs": 40}), cores=16).worth
    assert judge(loader(**SHORT | {"epochs": 1}), cores=16).worth


def test_a_loop_that_loads_by_itself() -> None:
    # A batch takes 30 ms, the step 10. With 16 threads the step is the limit.
    verdict = judge(loader(0, sent=0, wait_cpu=3.0, fetch=2.9, fetch_cpu=2.9, collate=0.1, collate_cpu=0.1), cores=16)
    assert (verdict.kind, verdict.limit, verdict.threads) == ("decoding", "step", 3)
    assert verdict.gain == pytest.approx(4.0)


def test_workers_that_told_nothing_are_no_lack_of_batches() -> None:
    def said(**changes: Any) -> str:
        measured = Measured([loader(**changes)], [], "2.9.0")
        return headline(measured, [judge(measured.loaders[0], cores=16)])

    assert said(batches=0).startswith(
        "The loop waits for data 75% of its time. For what is not known: worker processes"
    )
    assert said(batches=0, steps=3) == "The job took too few batches to judge its loader: 3 steps were counted."
    assert said().startswith("The loop waits for data 75% of its time (30.0 ms of 40.0 ms a step)")


def test_ranks_of_a_distributed_job_share_the_cores() -> None:
    ranks = [Rank("0", 0.5), Rank("1", 0.0), Rank("1", 0.0)]
    assert Measured([], ranks, "").ranks_at_once == 2
    assert Measured([], [Rank(None, 0.5), Rank(None, 0.0)], "").ranks_at_once == 1
    assert Measured([], [], "").ranks_at_once == 1
