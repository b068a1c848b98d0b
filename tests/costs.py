"""A pytest plugin that measures what each case costs, and fails a run in which one has become far dearer.

A case costs the CPU-seconds that it and its child processes take or, where it mostly waits, a quarter of its seconds by
the clock: about four processes run cases at the same time. What the cases of a file share, such as a fixture of the
module, is divided among them. ``costs.json`` has what costs `DEAR` or more. `make costs` writes it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["DEAR", "read_costs"]

DEAR = 0.1
"""The cost from which a case is recorded."""

GROWN = 5.0
"""A case fails that takes so many times the CPU-seconds of its record and one more, also by itself. Busy machines
double what a case takes, and processes that end late are counted where they do."""

_WAITING = 4

_ROOT = Path(__file__).parents[1]
_COSTS = _ROOT / "tests" / "costs.json"
_SKIPS = _ROOT / "tests" / "expected_skips.toml"
_BEGIN = pytest.StashKey["_Spent"]()
_SHARED = pytest.StashKey[list["_Spent"]]()


def read_costs() -> dict[str, float]:
    """Return the CPU-seconds of the dear cases."""
    files = json.loads(_COSTS.read_text())
    return {f"{file}::{case}": cost for file, cases in files.items() for case, cost in cases.items()}


def read_measured(file: Path) -> dict[str, Measured]:
    """Return what a run with ``--costs`` has written."""
    return {case: Measured(*spent) for case, spent in json.loads(file.read_text()).items()}


def record(measured: dict[str, Measured]) -> None:
    """Write what cases cost. Those that were not measured stay as they are."""
    costs = {case: cost for case, cost in read_costs().items() if case not in measured}
    shared: dict[str, list[float]] = {}
    for case, spent in measured.items():
        shared.setdefault(case.partition("::")[0], []).append(spent.shared)
    for case, spent in measured.items():
        of_file = shared[case.partition("::")[0]]
        cost = max(spent.cpu, spent.wall / _WAITING) + sum(of_file) / len(of_file)
        if cost >= DEAR:
            costs[case] = float(f"{cost:.1g}")
    files: dict[str, dict[str, float]] = {}
    for case, cost in costs.items():
        file, _, name = case.partition("::")
        files.setdefault(file, {})[name] = cost
    _COSTS.write_text(json.dumps(files, indent=1, sort_keys=True) + "\n")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("costs")
    group.addoption("--costs", type=Path, metavar="FILE", help="write what all cases that run have taken, as JSON")
    group.addoption("--twice", action="store_true", help="run each case twice: the second time, its imports are done")
    group.addoption(
        "--any-cost", action="store_true", help="let cases cost more than recorded: the processor is emulated"
    )
    group.addoption(
        "--check-skips", action="store_true", help="fail where expected_skips.toml lacks the reason of a skip"
    )


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Ledger(config), "ledger of costs")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("twice"):
        items += items


class Measured(NamedTuple):
    """What a case took: CPU-seconds and seconds by the clock, and the cost of what it made for others as well."""

    cpu: float
    wall: float
    shared: float


class _Spent(NamedTuple):
    cpu: float
    wall: float
    modules: int

    @classmethod
    def until_now(cls) -> _Spent:
        return cls(sum(os.times()[:4]), time.monotonic(), len(sys.modules))

    def since(self, begin: _Spent) -> _Spent:
        return _Spent(self.cpu - begin.cpu, self.wall - begin.wall, self.modules - begin.modules)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    item.stash[_BEGIN], item.config.stash[_SHARED] = _Spent.until_now(), []
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(
    fixturedef: pytest.FixtureDef[Any], request: pytest.FixtureRequest
) -> Generator[None, Any, Any]:
    if fixturedef.scope == "function":
        return (yield)
    begin = _Spent.until_now()
    shared = request.config.stash[_SHARED]
    inner = len(shared)
    try:
        return (yield)
    finally:
        # What it asked for itself is counted with it.
        shared[inner:] = [_Spent.until_now().since(begin)]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if call.when == "teardown":
        spent = _Spent.until_now().since(item.stash[_BEGIN])
        shared = item.config.stash[_SHARED]
        cpu = max(0.0, spent.cpu - sum(it.cpu for it in shared))
        wall = max(0.0, spent.wall - sum(it.wall for it in shared))
        cost = sum(max(it.cpu, it.wall / _WAITING) for it in shared)
        report.user_properties.append(("spent", (cpu, wall, cost, spent.modules)))
    return report


class _Ledger:
    """What the process that prints the summary knows of the whole run."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._measured: dict[str, Measured] = {}
        self._importing: set[str] = set()
        self._skips: set[str] = set()
        self._failures: list[str] = []

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note_skip(report)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note_skip(report)
        if report.when == "teardown":
            spent: Any = dict(report.user_properties)["spent"]
            *figures, modules = spent
            measured = Measured(*figures)
            if modules and not self._config.option.twice:
                # It pays for an import that others need as well.
                self._importing.add(report.nodeid)
            # Of two runs, the second finds all warm.
            self._measured[report.nodeid] = min(measured, self._measured.get(report.nodeid, measured))

    def _note_skip(self, report: pytest.CollectReport | pytest.TestReport) -> None:
        if report.skipped and isinstance(report.longrepr, tuple):
            self._skips.add(report.longrepr[2].removeprefix("Skipped: "))

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        options = self._config.option
        if options.check_skips:
            self._failures += _unexpected(self._skips)
        if options.costs:
            dear = [case for case in self._importing if self._measured[case].cpu >= DEAR]
            options.costs.write_text(json.dumps(self._measured | _measure_alone(dear)))
        elif options.ring in {"quick", "all"} and not options.any_cost:
            self._failures += _grown(
                {case: it.cpu for case, it in self._measured.items() if case not in self._importing}
            )
        if self._failures and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for line in self._failures:
            terminalreporter.write_line(line, red=True)


def _grown(measured: dict[str, float]) -> list[str]:
    """Return a line for each case that is far dearer than recorded, and is so again in a process of its own."""
    costs = read_costs()
    limits = {case: GROWN * costs.get(case, DEAR) + 1 for case in measured}
    suspects = [case for case, cost in measured.items() if cost > limits[case]]
    found = measured | {case: it.cpu for case, it in _measure_alone(suspects).items()}
    return [
        f"{case} takes {found[case]:.1f} CPU-seconds, and its ring expects {costs.get(case, DEAR)} of it at most:"
        " make it cheaper, or record what it costs (make costs)"
        for case in suspects
        if found[case] > limits[case]
    ]


def _measure_alone(cases: list[str]) -> dict[str, Measured]:
    if not cases:
        return {}
    with TemporaryDirectory() as folder:
        file = Path(folder) / "costs.json"
        command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "--quiet", "--twice", f"--costs={file}", *cases]
        subprocess.run(command, cwd=_ROOT, check=False, stdout=subprocess.DEVNULL)
        return read_measured(file) if file.exists() else {}


def _unexpected(reasons: set[str]) -> list[str]:
    expected = [re.compile(it["reason"]) for it in tomllib.loads(_SKIPS.read_text())["skip"]]
    return [
        f"cases were skipped for a reason that tests/expected_skips.toml does not list: {reason}"
        for reason in sorted(reasons)
        if not any(pattern.search(reason) for pattern in expected)
    ]


if __name__ == "__main__":
    record(read_measured(Path(sys.argv[1])))
