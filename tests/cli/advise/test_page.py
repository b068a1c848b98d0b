"""The page about a verdict says what limits, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.cli.advise.loops import SHORT, STARVED, trial, tried, turns

from spdl.cli._advise.advice_page import page
from spdl.cli._advise.judge import judge
from spdl.cli._advise.measured import JobLoader, MeasuredJob

if TYPE_CHECKING:
    from pathlib import Path


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
    loader = JobLoader(description, **STARVED | changes)
    text = page(MeasuredJob([loader], [], "2.9.0"), [judge(loader, cores)], cores, width=80)
    return " ".join(text.split())


def test_a_trial_that_is_not_like_the_job_says_so(tmp_path: Path) -> None:
    said = printed(tmp_path, 8.0, trial=tried([turns("now", 75.0), turns("thread", 150.0)]))
    assert "as it is: 75.0 steps/s, and 25.0 in the job: the turns were too short for what it waits for" in said
    assert "PyTorchDataLoader, 4 threads: 150 steps/s: at least 2.00x" in said
    assert "Switch to PyTorchDataLoader: tried for a short time, at least 2.00x as fast." in said


def test_photos_that_an_image_loader_loads(tmp_path: Path) -> None:
    photos = "64 of the job's photos as 224x224, float32"
    text = printed(tmp_path, 8.0, trial=trial(turns("thread", 25.0), turns("images", 100.0, reason=photos)))
    assert f"ImageLoader, 4 threads, {photos}, without the dataset's other work: 100 steps/s: 4.00x" in text
    assert "With this dataset, nothing tried is worth a change: the fastest is 1.00x as fast" in text
    assert "in place of the dataset: tried, 4.00x (4.00x to 4.00x) as fast with these photos" in text
    uneven = turns("images", [20.0, 100.0, 100.0, 100.0], reason=photos)
    said = printed(tmp_path, 8.0, trial=trial(uneven))
    assert "in place of the dataset: tried, 4.00x (0.80x to 4.00x) as fast with these photos" in said


def test_what_was_tried_is_told_with_the_lines_to_change(tmp_path: Path) -> None:
    ways = trial(turns("thread", 50.0), turns("thread", [80.0, 90.0, 110.0, 120.0], 16))
    text = printed(tmp_path, 8.0, trial=ways)
    assert "tried with the job's items and a stand-in for its step, 2 s each, while the job stood still: as it" in text
    assert "as it is: 25.0 steps/s" in text
    assert "PyTorchDataLoader, 4 threads: 50.0 steps/s: 2.00x (2.00x to 2.00x)" in text
    assert "PyTorchDataLoader, 16 threads: 100 steps/s: 4.00x (3.20x to 4.80x)" in text
    assert "Switch to PyTorchDataLoader with num_workers=16: tried, 4.00x as fast. Its workers are threads." in text
    assert "+ from spdl.dataloader import PyTorchDataLoader as DataLoader and pass num_workers=16 in line 2." in text


def test_no_line_changes_where_nothing_is_worth_it(tmp_path: Path) -> None:
    text = printed(tmp_path, 8.0, trial=trial(turns("thread", 26.0)))
    assert "With this dataset, nothing tried is worth a change: the fastest is 1.04x as fast (1.10x would be)." in text
    assert "To switch" not in text
    said = printed(tmp_path, 8.0, trial=trial(turns("more", [20.0, 40.0, 40.0, 40.0])))
    assert (
        "With this dataset, nothing tried is worth a change: the fastest is 1.60x as fast (but not in every turn)."
        in said
    )
    said = printed(tmp_path, 8.0)
    assert "Nothing was tried, so the gain of a change is not known. It is the headspace at most." in said
    assert "Give DataLoader `num_workers=7`. Each is a process with memory of its own. Or try PyTorchDataLoader" in said
    said = printed(tmp_path, 8.0, trial={"seconds": 2.0, "error": "it did not end in 60 s"})
    assert "Nothing was tried (it did not end in 60 s), so the gain of a change is not" in said
    said = printed(tmp_path, 8.0, trial={**trial(), "missing": "there is no SPDL"})
    assert "Nothing else could be tried. PyTorchDataLoader was not: there is no SPDL." in said
    said = printed(tmp_path, 8.0, trial=trial(turns("thread", 1.0, error="KeyError: 3")))
    assert "PyTorchDataLoader, 4 threads: KeyError: 3" in said
    assert "Nothing else could be tried." in said


def test_more_workers_are_proposed_for_what_waits_unless_they_were_tried(tmp_path: Path) -> None:
    as_many = printed(tmp_path, 8.0, fetch_cpu=0.5, trial=trial(turns("process", 26.0)))
    assert "(1.10x would be). Not tried: Give DataLoader `num_workers=" in as_many
    more = printed(tmp_path, 8.0, fetch_cpu=0.5, trial=trial(turns("process", 26.0), turns("thread", 26.0, 16)))
    assert "(1.10x would be)." in more
    assert "Not tried" not in more


def test_all_gains_of_a_trial_are_of_the_job(tmp_path: Path) -> None:
    # Its own way makes 20 steps a second in the trial, and 25 in the job.
    said = printed(tmp_path, 8.0, trial=tried([turns("now", 20.0), turns("thread", [40.0, 50.0, 50.0, 60.0])]))
    assert "4 threads: 50.0 steps/s: at least 2.00x (1.60x to 2.40x)" in said


def test_threads_that_are_not_known_to_be_safe_are_told_with_the_reason(tmp_path: Path) -> None:
    reason = "it shares a file; workers='thread' says that threads may share it"
    ways = (turns("process", 26.0, reason=reason), turns("unproven thread", 50.0, reason=reason))
    text = printed(tmp_path, 8.0, trial=trial(*ways))
    assert "PyTorchDataLoader, 4 threads (not known to be safe): 50.0 steps/s" in text
    assert 'PyTorchDataLoader(..., workers="thread"): tried, 2.00x as fast. Make sure first that threads may' in text
    assert 'which is not known: it shares a file. Without workers="thread", its workers are processes.' in text
    assert 'and pass workers="thread" in line 2.' in text
    safe = printed(tmp_path, 8.0, trial=trial(turns("process", 50.0, reason=reason)))
    assert "2.00x as fast. Its workers are processes, as threads are not known to be safe: it shares a file." in safe
    assert "If threads" not in safe
    ways = (turns("process", 50.0, reason=reason), turns("unproven thread", 100.0, 16, reason=reason))
    told = printed(tmp_path, 8.0, trial=trial(*ways))
    assert 'If threads may share the dataset, pass workers="thread" and num_workers=16: tried, 4.00x as fast.' in told


def test_more_workers_change_no_import(tmp_path: Path) -> None:
    text = printed(tmp_path, 8.0, trial=trial(turns("more", 50.0, 8)))
    assert "DataLoader, 8 workers: 50.0 steps/s" in text
    assert "Pass num_workers=8: tried, 2.00x as fast." in text
    assert "To switch" not in text


def test_a_slow_start_is_told_with_the_argument_that_saves_it(tmp_path: Path) -> None:
    text = printed(tmp_path, 16.0, **SHORT)
    assert "of 10.1 ms a step), but 80% of all time goes to the beginning and the end of 10 iterations, when" in text
    assert "beginnings 400 ms each, for the first batch: 80% of all time" in text
    assert "Pass persistent_workers=True, which keeps the workers from one iteration to the next: 3.15x as fast" in text
    assert "headspace 1.01x of the steps" in text
    ways = tried([turns("now", 100.0, start=0.4), turns("thread", 100.0, start=0.02)])
    text = printed(tmp_path, 16.0, **SHORT | {"trial": ways})
    assert "2 s each for iterations as long as the job's, while the job stood still: as it is: 100 steps/s" in text
    assert "as it is: 100 steps/s, first batch after 400 ms" in text
    assert "4 threads: 100 steps/s, first batch after 20.0 ms: 4.17x (4.17x to 4.17x)" in text
    assert "To switch, change" in text


def test_where_threads_gain_no_more_than_keeping_the_workers_no_line_changes(tmp_path: Path) -> None:
    ways = tried([turns("now", 100.0, start=0.4), turns("thread", 100.0, start=0.1)])
    text = printed(tmp_path, 16.0, **SHORT | {"trial": ways})
    assert "Pass persistent_workers=True" in text
    assert "the fastest is 2.50x as fast (to keep the workers may gain as much)" in text
    assert "To switch" not in text


def test_a_slow_start_where_the_workers_cannot_be_kept(tmp_path: Path) -> None:
    text = printed(tmp_path, 16.0, **SHORT | {"made": 10})
    assert "Make the loader once for all iterations and pass persistent_workers=True, which keeps" in text
    once = printed(tmp_path, 16.0, **SHORT | {"epochs": 1, "start": 0.4})
    assert "Keeping the workers from one iteration to the next changes nothing here: there is no other one." in once
    assert "persistent_workers" not in once


def test_a_slow_start_beside_much_waiting(tmp_path: Path) -> None:
    text = printed(tmp_path, 16.0, **SHORT | {"wait": 5.0})
    assert "the most time on decoding. Besides, 40% of all time goes to the beginning and the end of 10 iter" in text
    assert "Pass persistent_workers=True" in text
    # Beginnings that take little are not spoken of.
    little = printed(tmp_path, 16.0, **SHORT | {"wait": 5.0, "start": 0.3})
    assert "persistent_workers" not in little


@pytest.mark.parametrize(
    ("workers", "changes", "said"),
    [
        (
            4,
            {},
            "the loader is the limit. CPU. Its 4 workers are in use 100 % of the time, and compute for 100 % of it",
        ),
        (4, {}, "Its workers spend the most time on decoding."),
        (4, {"send_cpu": 20.0}, "Its workers spend the most time on pickling batches."),
        (
            4,
            {"wait_cpu": 3.1},
            "What it waits for most is its own process, which unpickles the batches of the workers.",
        ),
        (
            0,
            {"sent": 0},
            "the loader is the limit. Serial source. Its next() takes 75 % of the time, 30 ms for each item",
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


def test_a_step_that_is_faster_while_workers_rest_is_not_told_to_be_the_limit(tmp_path: Path) -> None:
    # Of 100 steps of 120 ms, which wait for 6 ms, eight took 80 ms.
    alone: dict[str, Any] = {"ahead_steps": 8, "ahead": 0.64, "ahead_squares": 8 * 0.08**2}
    text = printed(tmp_path, 16.0, wait=0.6, step=11.4, period=12.0, periods=100, period_squares=1.44, **alone)
    assert "of 120 ms a step), but the step is 1.50x as fast while the workers rest." in text
    assert "headspace 1.50x (measured on 8 steps whose batches were already there)" in text
    assert "A loader that needs less CPU time would gain from 1.05x to 1.50x" in text


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
