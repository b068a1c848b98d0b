"""The pages of text and tables show the recorded runs."""

import copy
import importlib
from collections.abc import Iterator
from types import ModuleType

import pytest
from tests.importing import importable


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with importable("scripts"):
        yield importlib.import_module("text_page")


@pytest.mark.parametrize("medium", ["text", "tables"])
def test_the_pages_of_text_and_tables_show_the_recorded_runs(script: ModuleType, medium: str) -> None:
    text = script.page(medium).read_text(encoding="utf-8")
    shown = script.replace_section(text, script.LABEL, script.table(script.recorded(medium)))
    assert shown == text, "run scripts/text_page.py and commit what it writes"


def test_the_page_of_text_shows_missed_marks_and_absent_contenders(script: ModuleType) -> None:
    run = copy.deepcopy(script.recorded("text"))
    medians = run["rows"]["text rows"]["medians"]
    medians["spdl-turbo"] = {"tokens per second": 500_000, "first batch ms": 400}
    medians["torch"] = {"tokens per second": 1_000_000}
    del medians["grain"]
    shown = script.table(run)
    assert "| text rows | first batch ms: 400 **missed** | at most 300 |" in shown
    assert "| text rows | 0.5x beside torch **missed** | at least 1.3x |" in shown
    assert "| text rows | beside grain: did not run | at least 1.3x |" in shown
