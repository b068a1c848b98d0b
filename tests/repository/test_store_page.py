"""The page of stores shows the recorded run."""

import copy
import importlib
import json
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from tests.importing import importable


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with importable("scripts"):
        yield importlib.import_module("store_page")


@pytest.fixture(scope="module")
def results(script: ModuleType) -> Any:
    return json.loads(script.RESULTS.read_text(encoding="utf-8"))


def test_the_page_shows_the_recorded_run(script: ModuleType, results: Any) -> None:
    text = script.PAGE.read_text(encoding="utf-8")
    shown = script.replace_section(text, script.LABEL, script.table(results))
    assert shown == text, "run scripts/store_page.py and commit what it writes"


def test_missed_marks_and_absent_contenders_are_shown(script: ModuleType, results: Any) -> None:
    run = copy.deepcopy(results)
    run["medians"]["spdl-turbo"]["share_of_optimum"] = 0.5
    del run["medians"]["fsspec, cat"]
    shown = script.table(run)
    assert "| 0.50 **missed** | at least 0.90 |" in shown
    assert "beside fsspec's `cat` | did not run | at least 2.0x |" in shown
