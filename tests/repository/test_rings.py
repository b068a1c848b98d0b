"""Which cases `make test` runs, and what it says of those that have become dear."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests import costs, rings

ROOT = Path(__file__).parents[2]

CASES = ["tests/a/test_a.py::test_cheap", *(f"tests/a/test_a.py::test_dear[{n}]" for n in range(3))]
COSTS = {"tests/a/test_a.py::test_dear[0]": 0.9, "tests/a/test_a.py::test_dear[1]": 0.2}


def test_quick_ring_has_what_is_cheap() -> None:
    assert rings.quick(CASES, COSTS) == {CASES[0], CASES[3]}


def test_quick_ring_has_one_case_of_a_test_whose_cases_are_dear() -> None:
    assert rings.quick(CASES[:3], COSTS) == {CASES[0], CASES[2]}


def test_quick_ring_has_some_cases_of_a_test_that_has_many() -> None:
    cases = [f"tests/a/test_a.py::test_many[{a}-{b}]" for a in range(10) for b in range(10)]
    chosen = rings.quick(cases, {})
    assert len(chosen) == rings.MOST
    assert len({case.partition("-")[0] for case in chosen}) > 5
    assert len({case.partition("-")[2] for case in chosen}) > 5
    # One case more replaces one of them at most.
    assert len(chosen - rings.quick([*cases, "tests/a/test_a.py::test_many[new]"], {})) <= 1


def test_draws_keep_a_share_that_is_the_same_each_time() -> None:
    cases = [f"tests/a/test_a.py::test_many[{n}]" for n in range(1000)]
    drawn = [case for case in cases if rings.is_drawn(case, 10)]
    assert 70 < len(drawn) < 130
    assert drawn == [case for case in cases if rings.is_drawn(case, 10)]
    assert all(rings.is_drawn(case, 1) for case in cases)


@pytest.mark.parametrize(("cost", "chosen"), [(0.29, True), (0.3, False)])
def test_quick_ring_leaves_out_what_costs_too_much(cost: float, *, chosen: bool) -> None:
    assert ("f.py::test_b" in rings.quick(["f.py::test_a", "f.py::test_b"], {"f.py::test_b": cost})) is chosen


def test_quick_ring_has_a_case_of_each_folder() -> None:
    assert rings.quick(["f.py::test_a", "f.py::test_b"], {"f.py::test_a": 30.0, "f.py::test_b": 20.0}) == {
        "f.py::test_b"
    }


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("src/spdl/pipeline/_engine/engine.py", "tests/pipeline/engine"),
        ("src/spdl/pipeline/_world.py", "tests/pipeline"),
        ("src/spdl/io/_av/no_such_folder/x.py", "tests/io/av"),
        ("src/spdl/_cores.py", "tests/test_"),
        ("native/image/jpeg/x.cpp", "tests/io/image"),
        ("native/core/x.h", "tests/io"),
        ("docs/how_do_i/x.md", "tests/repository"),
        ("tests/pipeline/test_faults.py", "tests/pipeline/test_faults.py"),
        ("tests/pipeline/support.py", "tests/pipeline"),
    ],
)
def test_changed_files_lead_to_their_tests(path: str, place: str) -> None:
    assert rings.touched([path]) == {place}


def test_files_that_no_folder_tests_lead_nowhere() -> None:
    assert rings.touched(["README.md", ".ci/run"]) == set()


def test_budget_takes_the_cheapest_of_what_changed() -> None:
    cases = [*COSTS, "tests/ab/test_b.py::test_b"]
    known = {**COSTS, "tests/ab/test_b.py::test_b": 0.1}
    assert rings.within(cases, known, {"tests/a"}, 10) == set(COSTS)
    assert rings.within(cases, known, {"tests/a"}, 1) == {CASES[2]}
    assert rings.within(cases, known, {"tests/a/test_a.py"}, 0.1) == set()
    assert rings.within([*cases, CASES[0]], known, {"tests/a/test_a.py"}, 0.1) == {CASES[0]}


def test_record_keeps_other_cases_and_forgets_cheap_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "costs.json"
    kept, here = "tests/conftest.py", Path(__file__).relative_to(ROOT).as_posix()
    file.write_text(json.dumps({kept: {"test_k": 2.0}, here: {"test_old": 1.0, "test_b": 0.7}}))
    monkeypatch.setattr(costs, "_COSTS", file)
    found = {"test_a[x::y]": (0.234, 0.3, 0.0), "test_old": (0.04, 0.1, 0.03), "test_waits": (0.04, 2.0, 0.0)}
    costs.record({f"{here}::{case}": costs.Measured(*spent) for case, spent in found.items()})
    assert json.loads(file.read_text()) == {
        kept: {"test_k": 2.0},
        here: {"test_a[x::y]": 0.2, "test_b": 0.7, "test_waits": 0.5},
    }


GROWN = """
import time
def test_cheap():
    pass
def test_dear():
    end = time.process_time() + 1.8
    while time.process_time() < end:
        pass
"""


def test_run_fails_where_a_case_has_become_dear(tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    for name in ("costs.py", "rings.py", "__init__.py"):
        shutil.copy(ROOT / "tests" / name, tests)
    (tests / "costs.json").write_text("{}")
    (tests / "conftest.py").write_text('pytest_plugins = ["tests.costs", "tests.rings"]')
    (tests / "test_grown.py").write_text(GROWN)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\naddopts = --import-mode=importlib")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--ring=quick", "tests"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if "CPU-seconds" in line]
    assert line.startswith(
        "tests/test_grown.py::test_dear takes 1.8 CPU-seconds, and its ring expects 0.1 of it at most"
    )
    assert line.endswith("(make costs)")
    assert "2 passed" in done.stdout.splitlines()[-1]


def test_skips_without_a_listed_reason_are_named() -> None:
    assert costs._unexpected({"needs a unicorn"}) == [
        "cases were skipped for a reason that tests/expected_skips.toml does not list: needs a unicorn"
    ]
