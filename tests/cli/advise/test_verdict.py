"""The verdict on given times and cores."""

from __future__ import annotations

import math
from typing import Any

import pytest
from tests.cli.advise.loops import SHORT, STARVED, steps, trial, tried, turns

from spdl.cli._advise.advice_page import headline
from spdl.cli._advise.judge import judge
from spdl.cli._advise.measured import JobLoader, MeasuredJob, Rank

DESCRIPTION = {"file": "train.py", "line": 3, "num_workers": 4}


def loader(workers: int = 4, **changes: Any) -> JobLoader:
    return JobLoader(DESCRIPTION | {"num_workers": workers}, **STARVED | changes)


def test_a_starved_loop() -> None:
    verdict = judge(loader(), cores=16)
    assert (verdict.limit.kind, verdict.most) == ("CPU", "decoding")
    assert verdict.share == pytest.approx(0.75)
    assert verdict.headspace == pytest.approx(4.0)
    assert not verdict.headspace_measured


def test_the_step_whose_batch_was_there_says_the_headspace() -> None:
    verdict = judge(loader(ahead_steps=10, ahead=0.08), cores=16)
    assert verdict.headspace == pytest.approx(5.0)
    assert verdict.headspace_measured


def nearly_starved(share: float, alone: float, spread: float) -> JobLoader:
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
        (0.15, 0.095, 0.001, False),
        (0.15, 0.085, 0.001, True),
        # A step that is faster while the workers rest shares the cores with them: it does not wait for data.
        (0.07, 0.093, 0.001, False),
        (0.07, 0.085, 0.001, False),
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
    assert (verdict.limit.kind != "slow consumer") is is_starved
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
    ("ways", "best"),
    [
        ((turns("thread", 50.0),), ("thread", 4, 2.0)),
        ((turns("process", 50.0),), ("process", 4, 2.0)),
        ((turns("thread", 26.0),), None),
        ((turns("thread", 10.0),), None),
        # Each turn is compared with that of the job's own way, and all gain.
        ((turns("thread", [50.0, 50.0, 50.0, 24.0]),), None),
        # More of them that gain little more are not worth it.
        ((turns("thread", 50.0), turns("thread", 52.0, 16)), ("thread", 4, 2.0)),
        ((turns("thread", 50.0), turns("thread", 100.0, 16)), ("thread", 16, 4.0)),
        ((turns("thread", 20.0), turns("more", 75.0, 8)), ("more", 8, 3.0)),
        # What may be unsafe is recommended only if nothing else is.
        ((turns("process", 30.0), turns("unproven thread", 100.0)), ("process", 4, 1.2)),
        ((turns("process", 25.0), turns("unproven thread", 100.0)), ("unproven thread", 4, 4.0)),
        ((turns("thread", 50.0, error="KeyError: 3"),), None),
        # One turn alone may be an accident.
        ((turns("thread", 50.0, batches=[25.0], seconds=[0.5], starts=[0.1]),), None),
        ((turns("thread", 50.0, batches=[25.0] * 2, seconds=[0.5] * 2, starts=[0.1] * 2),), ("thread", 4, 2.0)),
        ((turns("thread", 50.0, seconds=[0.5, 0.5, 0.5, 0.0]),), None),
    ],
)
def test_the_best_of_what_was_tried(ways: tuple[dict[str, Any], ...], best: tuple[str, int, float] | None) -> None:
    found = judge(loader(trial=trial(*ways)), cores=16).best
    assert (None if found is None else (found.what, found.workers, round(found.gain, 6))) == best


def said(trial: dict[str, Any]) -> tuple[float, bool]:
    (_, way) = judge(loader(trial=trial), cores=16).tried
    return round(way.gain, 3), way.is_bound


def test_a_trial_that_may_show_too_little_gives_a_bound() -> None:
    now, quick = turns("now", 25.0), turns("thread", 70.0)
    assert said(tried([now, quick])) == (2.8, False)
    # Its own way is faster in the trial than in the job; or slower, so that the job itself is what counts.
    assert said(tried([turns("now", 30.0), quick])) == (2.333, True)
    assert said(tried([turns("now", 20.0), quick])) == (2.8, True)
    # Turns differ, as they do if few items take long.
    assert said(tried([now, turns("thread", [40.0, 60.0, 80.0, 90.0])])) == (2.8, True)
    # It steps nearly all the time. How long a step takes without the loader that the job has is not known.
    assert said(tried([now, turns("thread", 90.0)])) == (3.6, False)
    assert said({**tried([now, turns("thread", 90.0)]), "step_alone": False}) == (3.6, True)
    assert said({**tried([now, quick]), "step_alone": False}) == (2.8, False)
    # Steps compute, also to take batches out of memory that they share with workers, which threads need not do.
    assert said({**tried([now, quick]), "step_cpu": 0.005}) == (2.8, True)
    assert said({**tried([now, turns("more", 70.0)]), "step_cpu": 0.005}) == (2.8, False)


def test_the_ends_of_iterations_count_where_they_matter() -> None:
    # Iterations of 0.1 s: 0.4 s to begin and 0.5 s to end, and then 0.02 s and nothing.
    ways = [turns("now", 100.0, start=0.4, ends=[0.5] * 4), turns("thread", 100.0, start=0.02)]
    verdict = judge(loader(**SHORT | {"made": 10, "epochs": 10, "processes": 10, "trial": tried(ways)}), 16)
    assert verdict.best is not None
    assert verdict.best.gain == pytest.approx(1.0 / 0.12)


def test_beginnings_count_where_they_matter() -> None:
    # Ten iterations of ten steps: 0.4 s to begin, and 0.1 s for the steps. Threads begin in 20 ms.
    ways = [turns("now", 100.0, start=0.4), turns("thread", 100.0, start=0.02)]
    verdict = judge(loader(**SHORT | {"made": 10, "epochs": 10, "processes": 10, "trial": tried(ways)}), 16)
    assert verdict.limit.kind == "start"
    assert verdict.best is not None
    assert verdict.best.gain == pytest.approx(0.5 / 0.12)


def test_kept_workers_save_all_ends_and_all_beginnings_but_the_first() -> None:
    # Of 4 s of beginnings and ends, the making of first batches takes 0.2.
    bound = judge(loader(**SHORT | {"end": 2.0}), 16).keeping_bound
    assert bound == pytest.approx(ALL / (ALL - 1.8 * 0.9 - 2.0))


def test_beginnings_do_not_count_where_the_workers_are_kept() -> None:
    # The job's own way starts workers anew when it is tried.
    ways = [turns("now", 100.0, start=0.4), turns("thread", 100.0, start=0.02)]
    kept = loader(**SHORT | {"trial": tried(ways)})
    kept.description["persistent_workers"] = True
    assert [way.gain for way in judge(kept, 16).tried] == [1.0, 1.0]


def test_a_change_has_to_gain_more_than_keeping_the_workers() -> None:
    ways = [turns("now", 100.0, start=0.4), turns("thread", 100.0, start=0.02)]
    verdict = judge(loader(**SHORT | {"trial": tried(ways)}), 16)
    assert verdict.keeping_bound == pytest.approx(ALL / (ALL - 3.8 * 0.9))
    assert verdict.best is not None
    ways[1] = turns("thread", 100.0, start=0.1)
    assert judge(loader(**SHORT | {"trial": tried(ways)}), 16).best is None


def test_nothing_is_the_best_where_nothing_was_tried() -> None:
    assert judge(loader(), cores=16).best is None
    assert judge(loader(trial={"seconds": 2.0, "error": "it died"}), cores=16).tried == ()


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, "CPU"),
        ({"fetch_cpu": 0.5}, "I/O"),
        # The threads of a dataset's own, beside each other and the workers, want more cores than there are.
        ({"others_cpu": 60.0, "all_for_core": 60.0}, "oversubscription"),
        ({"collate": 20.0}, "batching"),
        # A batch is made in 35 ms, and pickled in 120.
        ({"fetch": 3.0, "fetch_cpu": 3.0, "send_cpu": 12.0}, "pickling"),
        # The loop's process unpickles 30 ms for each batch, while four workers wait for it.
        ({"fetch": 3.0, "fetch_cpu": 3.0, "wait_cpu": 3.1}, "pickling"),
        # The workers have time to spare, and the loop's process unpickles for as long as it waits.
        ({"fetch": 1.0, "fetch_cpu": 1.0, "wait_cpu": 2.8}, "pickling"),
        # Half of the workers have nothing to do, although the loop waits.
        ({"fetch": 7.5, "fetch_cpu": 1.0}, "held back by order"),
        ({"wait": 0.01, "start": 0.02}, "slow consumer"),
        # The workers of 20 iterations take 0.2 s to start. One batch takes 0.16 s.
        ({"wait": 0.01, "start": 7.2, "epochs": 20, "made": 20}, "start"),
        ({"wait": 0.01, "start": 3.2, "epochs": 20, "made": 20}, "slow consumer"),
        ({"waits": 3}, "none"),
        ({"batches": 0}, "none"),
    ],
)
def test_kinds(changes: dict[str, Any], kind: str) -> None:
    assert judge(loader(**changes), cores=16).limit.kind == kind


def test_a_loop_that_makes_its_batches_itself_is_a_serial_source() -> None:
    limit = judge(loader(0, sent=0, send_cpu=0.0), cores=16).limit
    assert limit.kind == "serial source"
    assert limit.bound == pytest.approx(4.0)
    assert "num_workers" in limit.settings


@pytest.mark.parametrize(
    ("changes", "most"),
    [
        ({"kinds": {"reading": 7.0, "decoding": 1.0}}, "reading"),
        ({"kinds": {"waiting": 7.0}}, "waiting"),
        ({"kinds": {}}, "other"),
        ({"collate": 20.0}, "collating"),
        ({"send_cpu": 20.0}, "pickling"),
        ({"wait_cpu": 3.1, "fetch": 8.0}, "pickling"),
    ],
)
def test_what_takes_the_most_time(changes: dict[str, Any], most: str) -> None:
    assert judge(loader(**changes), cores=16).most == most


ALL = 5.01


@pytest.mark.parametrize(
    ("changes", "keeping", "anew"),
    [
        # Of ten beginnings, whose first batches take 0.2 s in all, one stays.
        ({}, ALL / (ALL - 3.8 * 0.9), False),
        # The loader is made for each iteration, so another line has to change as well.
        ({"made": 10}, ALL / (ALL - 3.8 * 0.9), True),
        # Two loaders of one line, such as those of a function: each starts its workers once.
        ({"made": 2}, ALL / (ALL - 3.8 * 0.8), False),
        # Two ranks, each of which makes it anew.
        ({"made": 10, "processes": 2}, ALL / (ALL - 3.8 * 0.8), True),
        # One iteration, or as many as there are ranks: nothing is kept for another one.
        ({"epochs": 1}, None, False),
        ({"epochs": 2, "processes": 2, "made": 2}, None, False),
        # Workers that take no time to start.
        ({"start": 0.2}, None, False),
    ],
)
def test_what_keeping_the_workers_gains_at_most(changes: dict[str, Any], keeping: float | None, *, anew: bool) -> None:
    verdict = judge(loader(**SHORT | changes), cores=16)
    assert verdict.keeping_bound == (None if keeping is None else pytest.approx(keeping))
    assert verdict.anew is anew


def test_workers_that_are_kept_and_a_loop_without_any_have_none_to_keep() -> None:
    kept = JobLoader(DESCRIPTION | {"persistent_workers": True}, **STARVED | SHORT)
    assert judge(kept, cores=16).keeping_bound is None
    alone = judge(loader(0, **SHORT | {"sent": 0, "send_cpu": 0.0}), cores=16)
    # What it does at its first batch, it does in threads as well.
    assert (alone.limit.kind, alone.keeping_bound) == ("slow consumer", None)


def test_the_larger_of_waiting_and_beginnings_is_the_kind() -> None:
    assert judge(loader(**SHORT | {"wait": 1.0}), cores=16).limit.kind == "start"
    assert judge(loader(**SHORT | {"wait": 5.0}), cores=16).limit.kind != "start"


def test_the_first_batches_are_no_start_of_workers() -> None:
    # A batch takes 0.39 s, and each iteration 0.4 s to give its first one.
    verdict = judge(loader(**SHORT | {"fetch": 38.9, "fetch_cpu": 38.9}), cores=16)
    assert (verdict.limit.kind, verdict.starts, verdict.keeping_bound) == ("slow consumer", False, None)


def test_workers_that_told_nothing_are_no_lack_of_batches() -> None:
    def said(**changes: Any) -> str:
        measured = MeasuredJob([loader(**changes)], [], "2.9.0")
        return headline(measured, [judge(measured.loaders[0], cores=16)])

    assert said(batches=0).startswith(
        "The loop waits for data 75% of its time. For what is not known: worker processes"
    )
    assert said(batches=0, steps=3) == "The job took too few batches to judge its loader: 3 steps were counted."
    assert said().startswith("The loop waits for data 75% of its time (30.0 ms of 40.0 ms a step)")


def test_ranks_of_a_distributed_job_share_the_cores() -> None:
    ranks = [Rank("0", 0.5), Rank("1", 0.0), Rank("1", 0.0)]
    assert MeasuredJob([], ranks, "").ranks_at_once == 2
    assert MeasuredJob([], [Rank(None, 0.5), Rank(None, 0.0)], "").ranks_at_once == 1
    assert MeasuredJob([], [], "").ranks_at_once == 1
