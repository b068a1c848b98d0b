"""The folders of the tests mirror those of the package, and a test that carries a module's name lies beside it."""

from __future__ import annotations

from pathlib import Path

from tests.architecture.import_graph import ROOT, modules

TESTS = Path(__file__).parents[1]

# Folders whose tests are of no module of the package.
_OTHERS = {
    "architecture",  # how the parts stand to each other
    "benchmarks",  # the scripts that measure
    "compat",  # programs written for the released reference
    "conformance",  # files of other projects
    "examples",  # the programs to copy
    "mutation",  # planted bugs
    "native",  # C++ programs
    "repository",  # docs, tables, links and the public API
    "seeds",  # the programs that the project began with
    "simulation",  # random programs under random schedules
    "wheel",  # what is installed
}


def _mirrored(path: Path) -> Path:
    """Return the folder of tests for a module's folder: the same without underscores."""
    return Path(*(part.removeprefix("_") for part in path.parts))


FOLDERS = {_mirrored(path.parent.relative_to(ROOT)) for path in modules().values()}
TEST_MODULES = [
    path.relative_to(TESTS)
    for path in sorted(TESTS.rglob("test_*.py"))
    if path.relative_to(TESTS).parts[0] not in _OTHERS
]


def test_each_folder_of_tests_mirrors_one_of_the_package() -> None:
    assert {path.parent for path in TEST_MODULES} - FOLDERS == set()


def test_the_folders_without_counterpart_are_there() -> None:
    assert {path.name for path in TESTS.iterdir() if path.name in _OTHERS} == _OTHERS


def test_a_test_that_carries_a_modules_name_lies_in_its_folder() -> None:
    places: dict[str, set[Path]] = {}
    for path in modules().values():
        relative = path.relative_to(ROOT)
        places.setdefault(relative.stem.removeprefix("_"), set()).add(_mirrored(relative.parent))
    misplaced = [
        f"{path}: the module of that name is in {sorted(map(str, places[name]))}"
        for path in TEST_MODULES
        if (name := path.stem.removeprefix("test_")) in places and path.parent not in places[name]
    ]
    assert not misplaced, "\n".join(misplaced)


def test_modules_are_found() -> None:
    assert len(TEST_MODULES) > 100
    assert Path("pipeline/engine") in FOLDERS
