"""The folders of the tests are those of the package: what is under ``src/spdl/io`` is tested under ``tests/io``."""

from __future__ import annotations

from pathlib import Path

import spdl

TESTS = Path(__file__).parents[1]

# Folders whose tests are of no package.
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


def folders(root: Path) -> set[str]:
    return {path.parent.name for path in root.glob("*/*.py")} | {
        path.parent.parent.name for path in root.glob("*/*/*.py")
    }


def test_each_package_has_its_folder_of_tests() -> None:
    packages = {name for name in folders(Path(spdl.__file__).parent) if not name.startswith("_")}
    assert {"io", "pipeline"} < packages
    assert folders(TESTS) == packages | _OTHERS
