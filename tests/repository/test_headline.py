"""Every page that shows images per second quotes the two headline jobs from one run, or says what differs."""

import importlib
import re
from collections.abc import Iterator
from types import ModuleType

import pytest
from tests.importing import importable


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with importable("benchmarks", "scripts"):
        yield importlib.import_module("headline")


def test_pages_show_the_recorded_runs(script: ModuleType) -> None:
    for page, sections in script.contents().items():
        text = (script.ROOT / page).read_text(encoding="utf-8")
        assert script.with_contents(text, sections) == text, f"{page}: run scripts/headline.py"


def test_no_page_shows_other_rates_without_saying_so(script: ModuleType) -> None:
    assert script.pages_with_rates() == {script.README, script.PAGE, *script.OTHER_JOBS}


def test_the_readme_has_the_figures_of_that_run(script: ModuleType) -> None:
    readme = (script.ROOT / script.README).read_text(encoding="utf-8")
    found = script.rates(script.recorded("loaders"))
    rows = re.findall(
        r"^\| ([^|(]+?)(?: \([^|]*\))? \| ([\d,]+) \| [\d.]+ \| ([\d,]+) \| [\d.]+ \|", readme, re.MULTILINE
    )
    assert len(rows) == 4
    for name, as_bytes, as_floats in rows:
        assert (as_bytes, as_floats) == tuple(f"{rate:,.0f}" for rate in found[name])


def test_why_normalising_costs_is_of_the_benchmark_as_it_stands(script: ModuleType) -> None:
    cases = importlib.import_module("normalising").CASES
    run = script.recorded("normalising")
    assert {(row["loader"], row["case"]) for row in run["rows"]} == {(name, it) for name in cases for it in cases[name]}
    assert run["absent"] == {}
