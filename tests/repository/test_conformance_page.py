"""The tables of other projects' files show the recorded runs, and these are of the lists as they stand."""

import copy
import importlib
import json
from collections import Counter
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from tests.conformance.formats import ARRAYS, IMAGES
from tests.conformance.known import Build, known
from tests.conformance.packages import packages
from tests.importing import importable

BUILDS: tuple[Build, ...] = ("wheel", "system")


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with importable("scripts"):
        yield importlib.import_module("conformance_page")


@pytest.fixture
def recorded(script: ModuleType) -> Any:
    return json.loads(script.RECORDED.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", ["images", "arrays"])
def test_page_shows_the_recorded_runs(script: ModuleType, recorded: Any, page: str) -> None:
    text = script.PAGES[page].read_text(encoding="utf-8")
    shown = script.replace_section(text, script.label(page), script.content(recorded, page))
    assert shown == text, "run scripts/conformance_page.py"


@pytest.mark.parametrize("build", BUILDS)
def test_recorded_runs_are_of_the_lists_as_they_stand(recorded: Any, build: Build) -> None:
    run = recorded[build]
    assert run["packages"] == {package.name: package.version for package in packages()}, "record `make conformance`"
    listed = Counter[tuple[str, str, str]]()
    for entry in known(build):
        listed[entry.format, entry.kind, entry.reason] += entry.expected
    found = {(each["format"], each["kind"], each["reason"]): each["files"] for each in run["differences"]}
    assert found == listed, "record `make conformance`"


@pytest.mark.parametrize("build", BUILDS)
def test_recorded_counts_add_up(recorded: Any, build: Build) -> None:
    run = recorded[build]
    assert list(run["rows"]) == [*IMAGES, *ARRAYS]
    columns = {"near": "near", "refused": "refused by us", "read": "read by us alone", "deliberate": "deliberate"}
    for name, counts in run["rows"].items():
        assert counts["files"] == sum(count for column, count in counts.items() if column != "files")
        differences = Counter[str]()
        for each in run["differences"]:
            if each["format"] == name:
                differences[columns.get(each["kind"], "wrong")] += each["files"]
        for column in (*columns.values(), "wrong"):
            assert counts[column] == differences[column], (name, column)


@pytest.mark.parametrize("build", BUILDS)
def test_other_figures_make_other_tables(script: ModuleType, recorded: Any, build: Build) -> None:
    def tables(recorded: Any) -> str:
        return "".join(script.content(recorded, page) for page in script.PAGES)

    whole = tables(recorded)
    for name, counts in recorded[build]["rows"].items():
        for column in counts:
            changed = copy.deepcopy(recorded)
            changed[build]["rows"][name][column] += 1
            assert tables(changed) != whole, (name, column)
    for index in range(len(recorded[build]["differences"])):
        changed = copy.deepcopy(recorded)
        changed[build]["differences"][index]["files"] += 1
        assert tables(changed) != whole, index


def test_a_mistake_of_ours_is_shown(script: ModuleType, recorded: Any) -> None:
    for run in recorded.values():
        run["differences"] = [{"format": "PNG", "kind": "wrong", "reason": "a planted mistake", "files": 2}]
    assert "* PNG, **wrong**: a planted mistake (2 files).\n" in script.content(recorded, "images")
    recorded["system"]["differences"] = []
    assert "* PNG, **wrong**: a planted mistake (2 files of the wheel).\n" in script.content(recorded, "images")
