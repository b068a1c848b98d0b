"""A pytest plugin that runs the ring of cases that is asked for: quick (`make test`), all or long.

The quick ring has the cases that cost little, as recorded in ``costs.json`` (see ``tests/costs.py``), but no more than
`MOST` of a test. Of a test whose cases are all dear it has the cheapest, if that costs less than `DEAREST`, and of each
folder it has one case at least. Cases marked ``long`` are in the long ring alone.
"""

from __future__ import annotations

import subprocess
import zlib
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from tests.costs import DEAR, read_costs

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

DEAREST = 0.3
"""The cost from which a case is not run for every change, even if it stands for others."""

MOST = 8
"""Of a test that has more cheap cases, so many are run for every change, unless the change touches their folder."""

_ROOT = Path(__file__).parents[1]

# Other targets run these, since they need what `make test` does not install.
_ELSEWHERE = {"ray", "pages"}

# The folders of tests for the folders of what is not in the package.
_FOLDERS = {
    "native": "tests/io",
    "native/archive": "tests/io/archive",
    "native/arrays": "tests/io/array",
    "native/npz": "tests/io/array",
    "native/av": "tests/io/av",
    "native/image": "tests/io/image",
    "native/cuda": "tests/io/device",
    "native/gpu": "tests/io/device",
    "benchmarks": "tests/benchmarks",
    "docs": "tests/repository",
    "examples": "tests/examples",
    "scripts": "tests/repository",
    "scripts/bundle": "tests/wheel",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("rings")
    group.addoption("--ring", choices=["quick", "all", "long"], help="run the cases of this ring")
    group.addoption("--since", metavar="REVISION", help="quick ring: also the other cases of what changed since then")
    group.addoption(
        "--draw", action="append", default=[], metavar="PLACE=N", help="run one in N of the ring's cases there"
    )
    group.addoption("--budget", type=float, default=300, metavar="SECONDS", help="CPU-seconds for the cases of --since")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    ring = config.getoption("ring")
    if ring is None:
        return
    wanted = [item for item in items if _is_of(item, long=ring == "long")]
    if ring == "quick":
        costs = read_costs()
        chosen = quick([item.nodeid for item in wanted], costs)
        if since := config.getoption("since"):
            places = touched(_changed(since))
            others = [item.nodeid for item in wanted if item.nodeid not in chosen]
            chosen |= within(others, costs, places, config.getoption("budget"))
        wanted = [item for item in wanted if item.nodeid in chosen]
    for draw in config.getoption("draw"):
        place, _, share = draw.rpartition("=")
        wanted = [item for item in wanted if not _is_in(item.nodeid, place) or is_drawn(item.nodeid, int(share))]
    kept = set(wanted)
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = wanted


def _is_of(item: pytest.Item, *, long: bool) -> bool:
    marks = {mark.name for mark in item.iter_markers()}
    return not marks & _ELSEWHERE and ("long" in marks) == long


def quick(cases: Iterable[str], costs: dict[str, float]) -> set[str]:
    """Return the cases of the quick ring: the cheap ones, and some that stand for the dear ones."""
    tests, folders = defaultdict(list), defaultdict(list)
    for case in cases:
        tests[case.partition("[")[0]].append(case)
        folders[case.partition("::")[0].rpartition("/")[0]].append(case)
    chosen: set[str] = set()
    for of_test in tests.values():
        cheapest = _cheapest(of_test, costs)
        cheap = [case for case in of_test if costs.get(case, 0) < DEAR]
        chosen.update(_draw(cheap) or ([cheapest] if costs[cheapest] < DEAREST else []))
    for of_folder in folders.values():
        if chosen.isdisjoint(of_folder):
            chosen.add(_cheapest(of_folder, costs))
    return chosen


def _draw(cases: list[str]) -> list[str]:
    # By their names' checksums: of a product of parameters, each n-th case would have few values of some. A new case
    # changes little.
    return sorted(cases, key=lambda case: zlib.crc32(case.encode()))[:MOST]


def is_drawn(case: str, share: int) -> bool:
    """Return whether a case is one of about one in ``share``, which are the same in each run."""
    # Not the checksum by which the quick ring has chosen already.
    return zlib.crc32(f"drawn {case}".encode()) % share == 0


def _cheapest(cases: list[str], costs: dict[str, float]) -> str:
    return min(cases, key=lambda case: costs.get(case, 0))


def touched(paths: Iterable[str]) -> set[str]:
    """Return the test files and folders of tests for changed files, by the mirror."""
    found = set()
    for path in paths:
        parts = Path(path).parts
        if parts[0] == "tests":
            found.add(path if parts[-1].startswith("test_") else str(Path(path).parent))
        elif parts[:2] == ("src", "spdl"):
            folder = Path("tests", *(part.removeprefix("_") for part in parts[2:-1]))
            while not (_ROOT / folder).is_dir():
                folder = folder.parent
            found.add(str(folder))
        else:
            folders = [_FOLDERS[str(folder)] for folder in Path(path).parents if str(folder) in _FOLDERS]
            found |= set(folders[:1])
    # Nothing is in the folder of all tests but what has no folder.
    return found - {"tests"} | ({"tests/test_"} if "tests" in found else set())


def within(cases: Iterable[str], costs: dict[str, float], places: set[str], budget: float) -> set[str]:
    """Return the cases of these places, from the cheapest on, as far as the CPU-seconds go."""
    chosen = set()
    # What is not recorded costs less than DEAR, and a third of it on average.
    prices = {case: costs.get(case, DEAR / 3) for case in cases if any(_is_in(case, place) for place in places)}
    for case in sorted(prices, key=lambda case: (prices[case], case)):
        budget -= prices[case]
        if budget < 0:
            break
        chosen.add(case)
    return chosen


def _is_in(case: str, place: str) -> bool:
    return case.startswith((f"{place}/", f"{place}::")) or (place == "tests/test_" and case.startswith(place))


def _changed(since: str) -> list[str]:
    command = ["git", "diff", "--name-only", since]
    return subprocess.run(command, cwd=_ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
