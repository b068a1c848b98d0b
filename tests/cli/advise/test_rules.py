"""Rules of the advice that a job on this machine does not show.

The verdict on given times and cores and the page about it, when batches are collected ahead, and what calls spend their
time on.
"""

from __future__ import annotations

import io
import math
import sys
import time
import zlib
from collections import deque
from time import perf_counter
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image

from spdl.cli._advise._probe.ahead import Ahead
from spdl.cli._advise._probe.call_times import CallTimes
from spdl.cli._advise._probe.loop_times import LoaderTimes
from spdl.cli._advise.measured import Loader, Measured, Rank
from spdl.cli._advise.page import headline, page
from spdl.cli._advise.verdict import judge

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

# ---- the verdict ----

DESCRIPTION = {"file": "train.py", "line": 3, "num_workers": 4}
# 100 steps of 10 ms, each after a wait of 30 ms, in one iteration that begins at once. A batch takes a worker 160 ms,
# of which it decodes 120.
STARVED: dict[str, Any] = {
    "processes": 1,
    "made": 1,
    "epochs": 1,
    "start": 0.0,
    "waits": 100,
    "wait": 3.0,
    "steps": 100,
    "step": 1.0,
    "step_cpu": 1.0,
    "batches": 100,
    "fetch": 15.5,
    "fetch_cpu": 15.5,
    "collate": 0.5,
    "collate_cpu": 0.5,
    "observed": 10.0,
    "released": 9.0,
    "kinds": {"decoding": 8.0},
    "sent": 100,
    "send_cpu": 0.1,
}


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


def steps(count: int, mean: float, spread: float, name: str, names: str) -> dict[str, Any]:
    """Return the sums of steps of two lengths, which differ from their mean by the spread."""
    return {names: count, name: count * mean, f"{name}_squares": count * (mean**2 + spread**2)}


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


# A batch is 30 ms of Python code and 5 of collating, for which the loop of one worker waits.
PYTHON: dict[str, Any] = {"released": 0.0, "fetch_cpu": 3.0, "fetch": 3.0, "kinds": {}}


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


# Ten iterations of ten steps of 10 ms, which wait for 0.1 ms. Each iteration takes 0.4 s to begin and to end. A batch
# takes a worker 20 ms, of which it decodes 15 without the GIL.
SHORT: dict[str, Any] = {
    "epochs": 10,
    "start": 4.0,
    "wait": 0.01,
    "fetch": 1.9,
    "fetch_cpu": 1.9,
    "collate": 0.05,
    "collate_cpu": 0.05,
    "send_cpu": 0.05,
}
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


# ---- the page ----

JOB = "from torch.utils.data import DataLoader\nfor _ in DataLoader(range(10), num_workers=4):\n    pass\n"


def printed(folder: Path, cores: float, workers: int = 4, **changes: Any) -> str:
    """Return the page on a job of one loader, in one line."""
    file = folder / "train.py"
    file.write_text(JOB)
    description = {
        "file": str(file),
        "line": 2,
        "class": "torch.utils.data.DataLoader",
        "batch_size": 1,
        "num_workers": workers,
        "by_library": False,
        "iterable": False,
        "worker_init_fn": False,
        "multiprocessing_context": False,
    }
    loader = Loader(description, **STARVED | changes)
    text = page(Measured([loader], [], "2.9.0"), [judge(loader, cores)], cores, width=80)
    return " ".join(text.split())


@pytest.mark.parametrize(
    ("cores", "gain", "is_worth"),
    # A step and its batch take 170 ms of CPU time, where a step takes 40 ms now.
    [(2.0, "0.47x", False), (4.5, "1.06x", False), (4.9, "1.15x", True), (8.0, "1.88x", True)],
)
def test_lines_to_change_are_printed_only_for_a_gain(
    cores: float, gain: str, tmp_path: Path, *, is_worth: bool
) -> None:
    text = printed(tmp_path, cores)
    assert f"{gain} as fast by prediction" in text
    assert ("To switch, change" in text) is is_worth
    assert ("+ from spdl.dataloader import PyTorchDataLoader as DataLoader" in text) is is_worth
    assert ("alone is not worth it" in text) is not is_worth
    assert ("; 1.10x would be): then the cores are the limit" in text) is not is_worth


def test_a_slow_start_is_told_with_the_argument_that_saves_it(tmp_path: Path) -> None:
    text = printed(tmp_path, 16.0, **SHORT)
    assert "of 10.1 ms a step), but 80% of all time goes to the beginning and the end of 10 iterations, when" in text
    assert "beginnings 400 ms each, for the first batch: 80% of all time" in text
    assert "Pass persistent_workers=True, which keeps the workers from one iteration to the next: 3.15x as fast" in text
    assert "Switching to spdl's threads instead gains" not in text
    assert "headspace 1.01x of the steps" in text
    # Threads gain more than that, so that is told, too.
    assert "threads, which start in a millisecond: 4.16x as fast by prediction, with 4 threads; its steps alone" in text
    assert "To switch, change" in text


def test_where_threads_gain_no_more_than_keeping_the_workers_no_line_changes(tmp_path: Path) -> None:
    # The workers start in 0.1 s, so once is little.
    text = printed(tmp_path, 16.0, **SHORT | {"epochs": 40})
    assert "Pass persistent_workers=True" in text
    assert "Switching to spdl's threads instead gains little more (2.80x as fast by prediction" in text
    assert "To switch" not in text


def test_a_slow_start_where_the_workers_cannot_be_kept(tmp_path: Path) -> None:
    text = printed(tmp_path, 16.0, **SHORT | {"made": 10})
    assert "Make the loader once for all iterations and pass persistent_workers=True, which keeps" in text
    once = printed(tmp_path, 16.0, **SHORT | {"epochs": 1, "start": 0.4})
    assert "Keeping the workers from one iteration to the next changes nothing here: there is no other one." in once
    assert "persistent_workers" not in once
    assert "To switch, change" in once


def test_a_slow_start_beside_much_waiting(tmp_path: Path) -> None:
    text = printed(tmp_path, 16.0, **SHORT | {"wait": 5.0})
    assert "the most time on decoding. Besides, 40% of all time goes to the beginning and the end of 10 iter" in text
    assert "Pass persistent_workers=True" in text
    # Beginnings that take little are not spoken of.
    little = printed(tmp_path, 16.0, **SHORT | {"wait": 5.0, "start": 0.3})
    assert "persistent_workers" not in little
    assert "its steps alone" not in little


def test_python_code_is_offered_processes(tmp_path: Path) -> None:
    text = printed(tmp_path, 16.0, workers=1, **PYTHON)
    assert "Threads run Python code one at a time (1.33x as fast by prediction), so processes are the" in text
    assert 'PyTorchDataLoader(..., workers="process"). Pass num_workers=4: 4.00x as fast by prediction;' in text
    assert "Its code holds the GIL for 30.0 ms of the 35.0 ms of CPU that a batch takes" in text
    assert "To switch" not in text
    assert "handing batches over" not in text
    text = printed(tmp_path, 2.0, workers=2, **PYTHON)
    assert "processes are the better choice, as now. More gain nothing: the 2.00 of 2 cores" in text
    text = printed(tmp_path, 16.0, workers=0, **PYTHON | {"sent": 0, "send_cpu": 0.0})
    assert "What handing batches over costs is not in this" in text


def test_what_could_not_be_seen_of_the_gil_is_told(tmp_path: Path) -> None:
    text = printed(tmp_path, 16.0, workers=1, **PYTHON | {"observed": 0.0})
    assert "Whether its code holds the GIL could not be seen" in text
    assert "Its code holds" not in text


@pytest.mark.parametrize(
    ("alone", "said"),
    [
        # Of 40 ms a step the loop waits 30, so without the waiting it were four times as fast.
        (0.005, "more than 4.00x, as without the waiting: the workers rested meanwhile, and these steps took 5.00 ms"),
        (0.020, "less than 4.00x, as without the waiting: these steps took 20.0 ms instead of 10.0 ms, so a part of"),
        (0.0102, ""),
        (0.0095, ""),
    ],
)
def test_where_headspace_and_waiting_differ_by_much_it_says_why(alone: float, said: str, tmp_path: Path) -> None:
    text = printed(
        tmp_path,
        16.0,
        **steps(100, 0.04, 0.001, "period", "periods"),
        **steps(8, alone, 0.0001, "ahead", "ahead_steps"),
    )
    assert "waits for data 75% of its time" in text
    assert f"{0.04 / alone:.2f}x (measured" in text
    assert ("as without the waiting" in text) is bool(said)
    assert said in text


@pytest.mark.parametrize(
    ("workers", "changes", "said"),
    [
        (4, {}, "the loader is the limit. Its workers spend the most time on decoding."),
        (4, {"send_cpu": 20.0}, "Its workers spend the most time on pickling batches."),
        (
            4,
            {"wait_cpu": 3.1},
            "What it waits for most is its own process, which unpickles the batches of the workers.",
        ),
        (0, {"sent": 0}, "The loop's process makes the batches itself, and spends the most time on decoding."),
    ],
)
def test_the_headline_says_who_spends_the_time_on_what(
    workers: int, changes: dict[str, Any], said: str, tmp_path: Path
) -> None:
    text = printed(tmp_path, 16.0, workers=workers, **changes)
    assert said in text
    assert "steps 100 were measured, in 1 iteration " in text


# Steps of 120 ms that compute for 42 ms of it, beside workers that take 160 ms of CPU time for a batch.
CROWDED: dict[str, Any] = {"wait": 0.2, "step": 12.0, "step_cpu": 4.2}


def test_a_step_beside_workers_that_take_its_cores_is_not_told_to_be_the_limit(tmp_path: Path) -> None:
    text = printed(tmp_path, 2.0, **CROWDED)
    assert "but the workers keep the cores in use: the step has one for 42.0 ms of its 120 ms, and may wait" in text
    assert "the loader is not the limit" not in text
    assert "headspace 1.02x (estimated: the same steps without the waiting) up to 2.90x if all that the step" in text
    assert "A loader that needs less CPU time would gain from 1.02x to 2.90x" in text
    assert "CacheDataLoader" in text


@pytest.mark.parametrize(
    ("cores", "workers", "changes"),
    [
        # Cores are free; the step computes all the time; it makes its batches itself; its own headspace was measured.
        (8.0, 4, {}),
        (2.0, 4, {"step_cpu": 12.0}),
        (2.0, 0, {}),
        (2.0, 4, {"ahead_steps": 20, "ahead": 2.4, "ahead_squares": 0.288}),
    ],
)
def test_else_it_is(cores: float, workers: int, changes: dict[str, Any], tmp_path: Path) -> None:
    text = printed(tmp_path, cores, workers, **CROWDED | changes)
    assert "the loader is not the limit" in text
    assert "up to" not in text


def test_photos_have_a_loader_of_their_own(tmp_path: Path) -> None:
    assert "For photos, ImageLoader decodes" in printed(tmp_path, 8.0)


# ---- batches ahead ----


class Iterator:
    """Stands in for PyTorch's iterator with workers, which have made what they were told to."""

    def __init__(self, sampler: Any, length: int = 1000) -> None:
        self._index_sampler = sampler
        self._num_yielded = 40
        self._tasks_outstanding = 2
        self._data_queue = SimpleNamespace(qsize=lambda: 2)
        self._length = length

    def __len__(self) -> int:
        return self._length


def starved(step: float = 0.01) -> LoaderTimes:
    times = LoaderTimes({})
    for _ in range(31):
        times.add_wait(0.01, 0.0, 0.0)
        times.add_step(step, 0.0, ahead=False)
    return times


def collect(iterator: Any, batch: Any = None, times: LoaderTimes | None = None) -> tuple[int, bool]:
    """Return how many batches were collected, and whether the workers are idle."""
    batch = np.zeros(1000) if batch is None else batch
    held: deque[Any] = deque()
    idle = Ahead(times or starved()).collect(iterator, lambda _: batch, held)
    return len(held), idle


@pytest.fixture(scope="module")
def data() -> Any:
    """Return the module that has PyTorch's samplers."""
    return pytest.importorskip("torch.utils.data", reason="the samplers are PyTorch's")


@pytest.fixture(scope="module")
def generator(data: Any) -> Any:
    return sys.modules["torch"].Generator()


@pytest.fixture(scope="module")
def in_order(data: Any) -> Iterator:
    """Return an iterator whose samples come in their order."""
    return Iterator(data.SequentialSampler(range(9)))


def test_ahead_collects_where_samplers_have_drawn_beforehand(data: Any, generator: Any) -> None:
    for sampler in (
        data.SequentialSampler(range(9)),
        data.RandomSampler(range(9)),
        data.RandomSampler(range(9), generator=generator),
        data.RandomSampler(range(9), replacement=True),
        data.SubsetRandomSampler(range(9)),
        data.WeightedRandomSampler([1.0, 2.0], 9),
    ):
        assert collect(Iterator(data.BatchSampler(sampler, 4, drop_last=False))) == (8, True), sampler
        assert collect(Iterator(sampler)) == (8, True), sampler


def test_ahead_collects_nothing_where_samplers_may_draw_as_they_go(data: Any, generator: Any) -> None:
    class Mine(data.SequentialSampler):  # type: ignore[misc]
        pass

    class Pairs(data.BatchSampler):  # type: ignore[misc]
        pass

    for sampler in (Mine(range(9)), [1, 2, 3], data.RandomSampler(range(9), replacement=True, generator=generator)):
        assert collect(Iterator(data.BatchSampler(sampler, 4, drop_last=False))) == (0, False), sampler
        assert collect(Iterator(sampler)) == (0, False), sampler
    assert collect(Iterator(Pairs(data.SequentialSampler(range(9)), 2, drop_last=False))) == (0, False)


def test_ahead_collects_nothing_where_an_iteration_is_about_to_end(data: Any) -> None:
    assert collect(Iterator(data.SequentialSampler(range(9)), length=55)) == (0, False)


@pytest.mark.parametrize(
    "batch", [np.zeros(2_000_000), [object()], {"words": ["a", "b"]}, [np.zeros(1)] * 17, "text"], ids=type
)
def test_ahead_collects_no_batches_that_are_large_or_unknown(batch: Any, in_order: Iterator) -> None:
    # The first one is looked at. It is held until the loop gets it.
    assert collect(in_order, batch) == (1, False)


def test_ahead_collects_batches_of_small_arrays(in_order: Iterator) -> None:
    torch = sys.modules["torch"]
    for batch in ([np.zeros(9), {"a": (np.zeros(9),)}], torch.zeros(9), (torch.zeros(3), [1, 2])):
        assert collect(in_order, batch) == (8, True)


def test_ahead_collects_nothing_for_a_loop_that_does_not_wait(in_order: Iterator) -> None:
    assert collect(in_order, times=starved(step=1.0)) == (0, False)


def test_ahead_gives_what_is_raised_in_its_turn(in_order: Iterator) -> None:
    answers = iter([np.zeros(3), np.zeros(3), KeyError(7)])

    def pull(_: Any) -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    held: deque[Any] = deque()
    assert Ahead(starved()).collect(in_order, pull, held)
    assert [type(error) for _, error in held] == [type(None), type(None), KeyError]


def test_ahead_collects_once_and_again_after_four_times_as_many_steps(in_order: Iterator) -> None:
    times = starved()
    ahead = Ahead(times)
    counts = []
    for _ in range(400):
        held: deque[Any] = deque()
        ahead.collect(in_order, lambda _: np.zeros(3), held)
        counts.append(len(held))
        times.add_wait(0.01, 0.0, 0.0)
        times.add_step(0.01, 0.0, ahead=bool(held))
    assert sum(map(bool, counts)) == 2


# ---- what calls spend their time on ----

BLOCK = zlib.compress(np.random.default_rng(0).integers(0, 9, 3_000_000, dtype=np.uint8).tobytes(), 1)


@pytest.fixture
def by_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let calls be timed by the CPU time of the thread, which other programs do not change."""
    monkeypatch.setattr("spdl.cli._advise._probe.call_times.perf_counter", time.thread_time)


def compute() -> None:
    total = 0
    for number in range(400_000):
        total += number * number


def watch(*calls: Callable[[], None]) -> CallTimes:
    times = CallTimes()
    assert times.begin(0.0)
    for call in calls:
        call()
    times.end()
    assert sys.getprofile() is None
    return times


@pytest.mark.usefixtures("by_cpu")
def test_call_times_of_decoding_in_c() -> None:
    times = watch(lambda: void(zlib.decompress(BLOCK)))
    assert set(times.by_kind) == {"decoding"}
    assert times.by_kind["decoding"] > 0.8 * times.seconds
    assert times.released > 0.8 * times.seconds


def test_call_times_of_waiting() -> None:
    # A busy machine may pause the thread for longer than it waits, but not each time.
    for _ in range(50):
        times = watch(lambda: time.sleep(0.03))
        assert set(times.by_kind) == {"waiting"}
        if min(times.by_kind["waiting"], times.released) > 0.8 * times.seconds:
            break
    else:
        pytest.fail("most of the time was never told to be waiting")


def void(_: object) -> None:
    pass


@pytest.mark.usefixtures("by_cpu")
def test_call_times_of_python_code_are_of_no_kind_and_hold_the_gil() -> None:
    times = watch(compute)
    assert times.by_kind == {}
    assert times.seconds > 0.005
    assert times.released < 0.1 * times.seconds


@pytest.mark.usefixtures("by_cpu")
def test_call_times_of_pictures(tmp_path: Path) -> None:
    file = tmp_path / "photo.jpg"
    pixels = np.random.default_rng(0).integers(0, 256, (50, 50, 3), dtype=np.uint8)
    Image.fromarray(pixels).resize((1500, 1500)).save(file)

    def load() -> None:
        with Image.open(file) as image:
            image.load()

    load()
    times = watch(load)
    assert times.by_kind["decoding"] > 0.6 * times.seconds
    assert 0 < times.by_kind["reading"] < times.by_kind["decoding"]
    assert times.released > 0.6 * times.seconds


def test_call_times_of_files_in_memory_are_no_reading() -> None:
    def read() -> None:
        for _ in range(20):
            io.BytesIO(BLOCK).read()

    times = watch(read)
    assert times.by_kind == {}


@pytest.mark.usefixtures("by_cpu")
def test_call_times_end_with_exceptions() -> None:
    def fail() -> None:
        with pytest.raises(zlib.error):
            zlib.decompress(b"no")

    times = watch(fail, compute)
    assert times.by_kind.get("decoding", 0.0) < 0.2 * times.seconds


@pytest.mark.usefixtures("by_cpu")
def test_call_times_leave_out_the_cost_of_watching() -> None:
    def nothing() -> None:
        pass

    def call_often() -> None:
        for _ in range(15_000):
            nothing()

    def counted() -> float:
        began = time.thread_time()
        return watch(call_often).seconds / (time.thread_time() - began)

    assert min(counted() for _ in range(20)) < 0.6


def test_call_times_end_after_many_calls() -> None:
    times = CallTimes()
    assert times.begin(perf_counter())
    for _ in range(50_000):
        len("")
        perf_counter()
    assert sys.getprofile() is None
    assert times.seconds > 0
    # The next one is due only later.
    assert not times.begin(0.0)


def test_call_times_leave_the_profiler_of_others_alone() -> None:
    def mine(*_: object) -> None:
        pass

    sys.setprofile(mine)
    try:
        times = CallTimes()
        assert not times.begin(perf_counter())
        times.end()
        assert sys.getprofile() is mine
    finally:
        sys.setprofile(None)
