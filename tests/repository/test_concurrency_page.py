"""The page on concurrency shows the recorded runs about the workers of regions."""

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
        yield importlib.import_module("concurrency_page")


def recorded(path: Any) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def test_the_page_shows_the_recorded_runs(script: ModuleType) -> None:
    text = script.PAGE.read_text(encoding="utf-8")
    for name, path, table in (
        ("kinds", script.KINDS, script.kinds_table),
        ("kills", script.KILLS, script.kills_table),
    ):
        shown = script.replace_section(text, f"{script.LABEL}, {name}", f"\n{table(recorded(path))}\n")
        assert shown == text, "run scripts/concurrency_page.py and commit what it writes"


def test_a_kind_that_did_not_run_and_a_busy_machine_are_told(script: ModuleType) -> None:
    run = recorded(script.KINDS)
    del run["kinds"]["interpreters"]
    assert "| interpreters | did not run |" in script.kinds_table(run)
    run["load"] = 9.0
    assert "beside a load of 9" in script.kinds_table(run)
    run["load"] = 0.1
    assert "a load of" not in script.kinds_table(run)


@pytest.mark.parametrize("what", ["lost", "repeated", "broken", "wrong"])
def test_what_went_wrong_is_told(script: ModuleType, what: str) -> None:
    run = copy.deepcopy(recorded(script.KILLS))
    victim = run["policies"]["rerun"]["victims"]["worker, 2"]
    victim.update(lost=0, repeated=0, broken=0, wrong=0)
    victim[what] = 7
    assert script.kills_table(run).count("| 7 |\n") == 1


def test_what_is_left_is_told(script: ModuleType) -> None:
    run = copy.deepcopy(recorded(script.KILLS))
    for found in run["policies"].values():
        found |= {"processes": [2, 2], "descriptors": [8, 8], "shared_memory_left": []}
    assert "Nothing was left after" in script.kills_table(run)
    run["policies"]["fail"]["descriptors"] = [8, 10]
    assert "**2 things were left** after" in script.kills_table(run)
