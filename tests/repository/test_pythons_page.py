"""The page on installing shows the recorded runs of the tests on each Python."""

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from tests.importing import importable

REPORT = """<?xml version="1.0" encoding="utf-8"?>
<testsuites><testsuite name="pytest" errors="1" failures="2" skipped="30" tests="1033" time="1.0"/></testsuites>
"""


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with importable("scripts"):
        yield importlib.import_module("pythons_page")


def test_the_page_shows_the_recorded_runs(script: ModuleType) -> None:
    runs = script.recorded()
    assert runs.keys() <= {cell.key for cell in script.CELLS}
    text = script.PAGE.read_text(encoding="utf-8")
    shown = script.replace_section(text, script.LABEL, f"\n{script.table(runs)}\n")
    assert shown == text, "run scripts/pythons_page.py and commit what it writes"


def test_a_run_is_recorded_with_what_failed(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(script, "RESULTS", tmp_path / "pythons.json")
    report = tmp_path / "report.xml"
    report.write_text(REPORT, encoding="utf-8")
    for version in ("3.14", "3.13, 64-bit ARM", "3.14"):
        script.record(version, f"{version[:4]}.2, glibc 2.42", report, "the command")
    runs = script.recorded()
    assert list(runs) == ["3.13, 64-bit ARM", "3.14"]
    rows = script.table(runs).splitlines()
    for python, processor in (("3.14", "x86-64"), ("3.13", "64-bit ARM")):
        (row,) = [line for line in rows if line.startswith(f"| {python} | {processor} |")]
        run = f"1,000 tests passed, **3 failed**, 30 skipped, on {python}.2 and glibc 2.42; `the command`, 2"
        assert run in row
    assert sum("1,000 tests passed" in line for line in rows) == 2
