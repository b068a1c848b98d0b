"""The pages of loaders, orders and states show the recorded runs."""

import copy
import importlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from tests.importing import importable


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with importable("benchmarks", "scripts"):
        yield importlib.import_module("loader_pages")


@pytest.mark.parametrize("name", ["autotune", "dropin", "labelled", "records", "resume", "shuffle"])
def test_pages_show_the_recorded_runs(script: ModuleType, name: str) -> None:
    text = script.page(name).read_text(encoding="utf-8")
    content = script.SECTIONS[name][1](script.recorded(name))
    assert script.replace_section(text, script.label(name), content) == text, "run scripts/loader_pages.py"


@pytest.mark.parametrize("name", ["dropin", "records", "resume", "shuffle"])
def test_recorded_runs_have_the_marks_of_the_benchmarks(script: ModuleType, name: str) -> None:
    marks, run = importlib.import_module(name).MARKS, script.recorded(name)
    if name == "dropin":
        marks = {row: [mark._asdict() for mark in each] for row, each in marks.items()}
        found = {
            row: [{key: it[key] for key in marks[row][0]} for it in each["claims"]] for row, each in run["rows"].items()
        }
        assert found == marks
    else:
        assert run["marks"] == marks


def test_missed_marks_and_absent_contenders_are_shown(script: ModuleType) -> None:
    def changed(name: str) -> Any:
        return copy.deepcopy(script.recorded(name))

    run = changed("labelled")
    run["claims"][0]["met"], run["absent"] = False, {"Some loader": "there is no wheel"}
    assert "(>= 0.94) **missed**" in script.labelled(run)
    assert "* Some loader did not run: there is no wheel\n" in script.labelled(run)
    run = changed("dropin")
    run["rows"]["tiny"]["claims"][0]["met"] = False
    assert "(>= 0.9) **missed**" in script.dropin(run)
    run = changed("resume")
    run["held"]["bytes"] = False
    assert "< 1,000 **missed**" in script.SECTIONS["resume"][1](run)
    run = changed("autotune")
    run["claims"][0] |= {"met": False, "value": 0.5}
    assert f"* **missed**: ratio of {run['claims'][0]['of']}, 0.50\n" in script.autotune(run)
