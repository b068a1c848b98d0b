"""The page of the observers shows the recorded run of `spdl why`."""

from __future__ import annotations

import copy
import importlib
import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.importing import importable
from tests.observe.bottlenecks import BOTTLENECKS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with importable("benchmarks", "scripts"):
        yield importlib.import_module("why_page")


@pytest.fixture(scope="module")
def run(script: ModuleType) -> Any:
    return json.loads(script.RESULTS.read_text(encoding="utf-8"))


def test_the_page_shows_the_recorded_run(script: ModuleType, run: Any) -> None:
    text = script.PAGE.read_text(encoding="utf-8")
    assert script.replace_section(text, script.LABEL, script.table(run)) == text, "run scripts/why_page.py"


def test_the_record_is_of_the_benchmark_as_it_stands(script: ModuleType, run: Any) -> None:
    benchmark = importlib.import_module("why")
    assert run["marks"] == benchmark.MARKS
    assert list(run["figures"]) == list(BOTTLENECKS)
    figures = {name: benchmark.judge(BOTTLENECKS[name], rounds) for name, rounds in run["runs"].items()}
    assert run["figures"] == figures, "record benchmarks/why.py again"


def test_missed_claims_are_shown(script: ModuleType, run: Any) -> None:
    changed = copy.deepcopy(run)
    for figures in changed["figures"].values():
        figures |= {"right": run["rounds"], "seconds": 1.5, "held": dict.fromkeys(figures["held"], True)}
    changed["figures"]["io"] |= {"right": 2, "seconds": 2.5, "ratio": 1.5}
    changed["figures"]["io"]["held"] = {"right": False, "seconds": False, "ratio": False}
    shown = script.table(changed)
    assert f"| I/O | `fetch` | 2 of {run['rounds']} **missed** | 2.50 s **missed** |" in shown
    assert "| 1.50 **missed** |" in shown
    assert f"{len(run['figures']) - 1} of {len(run['figures'])} were named in every round, after 2.5 s at most" in shown
