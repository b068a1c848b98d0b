"""Write into docs/install.md which wheel serves which Python and machine, and how each was tested.

`scripts/test_pythons.sh` and `scripts/test_arm.sh` record each run of the tests on a wheel in
benchmarks/results/pythons.json, passed or not (`python scripts/pythons_page.py record ...`). `python
scripts/pythons_page.py` writes the table. Commit page and record together; a test compares them.
"""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree as ET

from sections import replace_section

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "install.md"
RESULTS = ROOT / "benchmarks" / "results" / "pythons.json"
LABEL = "scripts/pythons_page.py"


class Cell(NamedTuple):
    """What one Python has on one kind of machine.

    Attributes:
        python: Its version; with a t if it has no GIL.
        processor: The processor.
        libc: The C library.
        wheel: The wheel's Python tag and ABI, or what to do without one.
        tested: How it was tested, where no run of the wheel's tests is recorded.
    """

    python: str
    processor: str
    libc: str
    wheel: str
    tested: str

    @property
    def key(self) -> str:
        """The name of its runs in the record."""
        return self.python if self.processor == "x86-64" else f"{self.python}, {self.processor}"


_GLIBC = "glibc >= 2.28"
_SOURCE = "none: pip builds from source"
_NONE_RECORDED = "no run is recorded; `make test-pythons`"
_ARM = "64-bit ARM"
CELLS = [
    Cell("3.11", "x86-64", _GLIBC, "cp311-cp311", _NONE_RECORDED),
    *(Cell(f"3.{minor}", "x86-64", _GLIBC, "cp312-abi3", _NONE_RECORDED) for minor in range(12, 16)),
    Cell("3.13t", "x86-64", _GLIBC, "cp313-cp313t", _NONE_RECORDED),
    Cell("3.14t and later", "x86-64", _GLIBC, _SOURCE, "no"),
    Cell("3.11", _ARM, _GLIBC, "cp311-cp311", "no; `make release` builds it, `make test-arm` would test it"),
    Cell("3.13", _ARM, _GLIBC, "cp312-abi3", "no run is recorded; `make test-arm`"),
    Cell("3.12, 3.14, 3.15", _ARM, _GLIBC, "cp312-abi3", "no"),
    Cell("3.13t", _ARM, _GLIBC, "cp313-cp313t", "no; `make release` builds it"),
    Cell("all", "x86-64", "musl", _SOURCE, "no"),
]


def recorded() -> dict[str, dict[str, Any]]:
    """Return the latest run of each Python."""
    runs: dict[str, dict[str, Any]] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    return runs


def table(runs: dict[str, dict[str, Any]]) -> str:
    """Return the table, with the latest run of each Python."""
    lines = ["| Python | processor | C library | wheel | tested |", "| --- | --- | --- | --- | --- |"]
    for cell in CELLS:
        run = runs.get(cell.key)
        tested = cell.tested if run is None or cell.wheel == _SOURCE else _in_words(run)
        lines.append(f"| {' | '.join([*cell[:4], tested])} |")
    return "\n".join(lines) + "\n"


def _in_words(run: dict[str, Any]) -> str:
    failed = f", **{run['failed']:,} failed**" if run["failed"] else ""
    return (
        f"{run['passed']:,} tests passed{failed}, {run['skipped']:,} skipped, on {run['python']} and {run['libc']}; "
        f"`{run['command']}`, {run['date']}, commit {run['commit']}"
    )


def record(version: str, facts: str, report: Path, command: str) -> None:
    """Add a run to the record, in the place of the last one of that Python.

    Args:
        version: The Python, as the table names it, with the processor if that is another than x86-64.
        facts: Its whole version and its C library, separated by a comma and a blank.
        report: What pytest has written with ``--junit-xml``.
        command: The command that ran it.
    """
    suites = list(ET.parse(report).getroot().iter("testsuite"))  # noqa: S314 - as above.
    total, failures, errors, skipped = (
        sum(int(suite.get(what, 0)) for suite in suites) for what in ("tests", "failures", "errors", "skipped")
    )
    python, _, libc = facts.partition(", ")
    commit = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"],  # noqa: S607 - whichever git is there.
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    runs = recorded()
    runs[version] = {
        "python": python,
        "libc": libc,
        "command": command,
        "passed": total - failures - errors - skipped,
        "failed": failures + errors,
        "skipped": skipped,
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "commit": commit,
    }
    RESULTS.write_text(json.dumps(runs, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def main() -> None:
    """Record a run, or update the page."""
    match sys.argv[1:]:
        case ["record", version, facts, report, command]:
            record(version, facts, Path(report), command)
        case []:
            text = PAGE.read_text(encoding="utf-8")
            PAGE.write_text(replace_section(text, LABEL, f"\n{table(recorded())}\n"), encoding="utf-8")
        case _:
            raise SystemExit("usage: pythons_page.py [record VERSION FACTS REPORT COMMAND]")


if __name__ == "__main__":
    main()
