"""The figures on the page of `spdl advise` are those of the recorded runs, and those of the next run fit there, too."""

from __future__ import annotations

import copy
import importlib
from typing import TYPE_CHECKING

import pytest
from tests.importing import importable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with importable("benchmarks", "scripts"):
        yield importlib.import_module("advice_page")


def test_the_page_shows_the_recorded_runs(script: ModuleType) -> None:
    text = script.PAGE.read_text(encoding="utf-8")
    assert script.filled(text) == text, "run scripts/advice_page.py"


def test_a_run_of_the_benchmark_as_it_stands_fits(script: ModuleType) -> None:
    benchmark = importlib.import_module("advise")
    times = {"cpu": 2.0, "epoch": 1.0}
    round_ = {
        "alone": [times, times],
        "advised": [{"cpu": 2.2, "epoch": 1.0}] * 2,
        "share": 0.5,
        "headspace": 2.0,
        "headspace_range": [1.9, 2.1],
    }
    rounds = {name: [{**round_, "verdict": verdict}] for name, verdict in benchmark.VERDICTS.items()}
    starts = [{"imported": {"cpu": 0.9}, "started": {"cpu": 1.0}}]
    rounds["starved_by_pickling"][0] |= {"changed": {"cpu": 1.0, "epoch": 0.25}, "tried_gain": 3.5}
    run = {
        **script.read("advise"),
        "rounds": rounds,
        "figures": {name: benchmark.judge(it, starts) for name, it in rounds.items()}
        | {"step_microseconds": 7.77, "start_cpu": 0.1},
        "held": {"step": True, "starved_by_lock": False},
    }
    shown = script.costs(run)
    assert "7.8 microseconds for a step, 0.10 seconds of CPU" in shown
    assert "| pickles trees of objects | pickling | 9.1 % | 3.50x | 4.00x |" in shown
    assert "**missed** marks: starved by lock" in shown
    assert "predicted" not in shown


def test_claims_that_were_missed_are_shown(script: ModuleType) -> None:
    run = copy.deepcopy(script.read("planted_jobs"))
    run["runs"] = {name: [{**rounds[0], "right": name != "slow_store"}] for name, rounds in run["runs"].items()}
    (first,) = run["runs"]["slow_store"]
    first["advice"][0] |= {"tried": None, "least": 3.0, "gain": 2.0, "held": {"least": False}}
    shown = script.planted(run)
    assert "| slow store | I/O | I/O | at least 3.00x | 2.00x **missed** |" in shown
    assert f"about {len(run['runs']) - 1} of {len(run['runs'])} jobs" in shown
