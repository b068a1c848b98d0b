"""The bugs that `make mutation` plants fit the engine as it is."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.mutation.mutants import MUTANTS, Mutant
from tests.mutation.runner import ENGINE, ROOT, TESTS, copy_project, fits, run_tests

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_it_can_be_planted(mutant: Mutant) -> None:
    why = fits(mutant, (ROOT / ENGINE / mutant.file).read_text())
    assert why is None, f"adapt it in tests/mutation/mutants: {why}"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_tests_that_should_find_it_exist(mutant: Mutant) -> None:
    for test in mutant.tests:
        module, *names = test.split("[")[0].split("::")
        source = (ROOT / TESTS / module).read_text()
        for name in names:
            assert f"class {name}" in source or f"def {name}(" in source, f"{test} is gone"


# It runs the soak test once more, and only `make mutation` depends on what it shows.
@pytest.mark.release
def test_a_copy_has_what_the_tests_want(tmp_path: Path) -> None:
    log = tmp_path / "log"
    # This test of the engine depends on more files outside the engine than any other.
    verdict = run_tests(copy_project(tmp_path / "copy"), ("test_soak.py",), log, 100)
    assert verdict.valid, log.read_text()
    assert not verdict.found, log.read_text()


def test_each_is_another_bug() -> None:
    names = Counter(mutant.name for mutant in MUTANTS)
    assert [name for name, count in names.items() if count > 1] == []
    changes = Counter((mutant.file, mutant.find, mutant.replace) for mutant in MUTANTS)
    assert max(changes.values()) == 1


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("if y: x = 1", None),
        ("if y: x = 2", "has this text 0 times"),
        ("if y: x = 1; x = 1", "has this text 2 times"),
        ("if y: (x = 1", "is not valid Python"),
    ],
)
def test_what_does_not_fit_is_told(source: str, why: str | None) -> None:
    mutant = Mutant("nothing is assigned", "some.py", "x = 1", "x")
    found = fits(mutant, source)
    assert found is None if why is None else why in str(found)
