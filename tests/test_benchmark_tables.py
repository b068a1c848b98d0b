"""A row of a benchmark says who failed, and goes on without; what ours fails at is missed."""

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.importing import importable

PROGRAM = """
import json, sys
work = json.loads(sys.argv[1])
if "reason" in work:
    sys.exit(work["reason"])
print(json.dumps({"items_per_second": work["speed"]}))
"""
Work = dict[str, float | str]

OURS, OTHER = "spdl-turbo", "bare"
FAST: Work = {"speed": 3.0}
SLOW: Work = {"speed": 2.0}
BROKEN: Work = {"reason": "there is no such library"}


@pytest.fixture(scope="module")
def alternating() -> Iterator[ModuleType]:
    with importable("benchmarks"):
        yield importlib.import_module("_alternating")


@pytest.fixture
def measure(alternating: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return what measures a row of ours beside another, with no reference to be had."""

    def unavailable(console: object) -> None:
        raise alternating.PeerUnavailable("there is no network")

    (tmp_path / "__main__.py").write_text(PROGRAM)
    monkeypatch.setattr(alternating, "reference_environment", unavailable)
    monkeypatch.setattr(sys, "argv", ["table", "--rounds", "2", "--json", str(tmp_path / "found.json")])
    rows = importlib.import_module("_engine_rows")
    claim = rows.Claim("items_per_second", "at least", 1.0, OTHER)

    def run(ours: Work, other: Work) -> tuple[int, Any]:
        works = {OURS: ours, OTHER: other, rows.REFERENCE: FAST}
        table = {"speed": rows.Row("how fast", ("items_per_second",), works, (claim,))}
        status = alternating.run_table("A table.", table, tmp_path)
        return status, json.loads((tmp_path / "found.json").read_text())

    return run


@pytest.mark.parametrize(
    ("ours", "other", "status"), [(FAST, SLOW, 0), (SLOW, FAST, 1), (FAST, BROKEN, 0), (BROKEN, FAST, 1)]
)
def test_who_fails_is_left_out_with_the_reason(
    measure: Callable[..., Any], ours: Work, other: Work, status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    found, result = measure(ours, other)
    assert found == status
    assert result["absent"] == "there is no network"
    row, works = result["rows"]["speed"], {OURS: ours, OTHER: other}
    failed = {name: work["reason"] for name, work in works.items() if work is BROKEN}
    speeds = {name: {"items_per_second": work["speed"]} for name, work in works.items() if work is not BROKEN}
    assert (row["contenders"], row["absent"]) == (speeds, failed)
    assert [it["met"] for it in row["claims"]] == ([] if failed else [status == 0])
    said = capsys.readouterr().out
    assert all(f"{name} is left out: {reason}" in said for name, reason in failed.items())
    assert ("MISSED how fast" in said) == bool(status)
