"""The bugs that `make mutation` plants fit the engine as it is."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.mutation.mutants import MUTANTS, Mutant
from tests.mutation.planting import StaleMutantError, find_tests, plant
from tests.mutation.runner import ENGINE, ROOT, TESTS

if TYPE_CHECKING:
    from pathlib import Path


def test_mutants_fit_the_sources() -> None:
    stale = []
    for mutant in MUTANTS:
        try:
            plant(mutant, ROOT / ENGINE)
        except StaleMutantError as why:
            stale.append(f"{mutant.name}: {why}")
    assert not stale, "adapt these in tests/mutation/mutants:\n" + "\n".join(stale)


def test_mutants_name_tests_that_exist() -> None:
    gone = [
        f"{mutant.name}: {test}" for mutant in MUTANTS for test in mutant.tests if not find_tests(test, ROOT / TESTS)
    ]
    assert not gone, "\n".join(gone)


def test_mutants_are_different_bugs() -> None:
    names = Counter(mutant.name for mutant in MUTANTS)
    assert [name for name, count in names.items() if count > 1] == []
    changes = Counter((mutant.function, mutant.find, mutant.replace) for mutant in MUTANTS)
    assert max(changes.values()) == 1


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("if y: x = 2", "has this text 0 times"),
        ("if y: x = 1; x = 1", "has this text 2 times"),
        ("if y: (x = 1", "is not valid Python"),
    ],
)
def test_plant_says_what_does_not_fit(tmp_path: Path, line: str, why: str) -> None:
    broken = "(x" in line
    (tmp_path / "some.py").write_text(f"class A:\n    def f(y):\n        {line.replace('(', '')}\n")
    mutant = Mutant("nothing is assigned", "A.f", "x = 1", "(x" if broken else "x")
    with pytest.raises(StaleMutantError, match=why):
        plant(mutant, tmp_path)


def test_plant_finds_the_function_wherever_it_stands(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("class A:\n    def f(y):\n        x = 1\n\n    def g(y):\n        x = 1\n")
    (tmp_path / "two.py").write_text("def f(y):\n    x = 1\n")
    planted = plant(Mutant("nothing is assigned", "A.g", "x = 1", "x"), tmp_path)
    assert planted.path.name == "one.py"
    assert planted.source == "class A:\n    def f(y):\n        x = 1\n\n    def g(y):\n        x\n"
    with pytest.raises(StaleMutantError, match=r"no function B\.g"):
        plant(Mutant("nothing is assigned", "B.g", "x = 1", "x"), tmp_path)
