"""A row of a benchmark names contenders that fail and goes on without them. If ours fails, its claim is missed."""

import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.importing import importable

ROOT = Path(__file__).parents[2]

PROGRAM = """
import json, sys
work = json.loads(sys.argv[1])
if "reason" in work:
    sys.exit(work["reason"])
print(json.dumps({"items_per_second": work["speed"]}))
"""
# Loads 2 items per second of numpy's formats and 3 of the others, and fails at one format.
FORMATS = """
import json, sys
work = json.loads(sys.argv[1])
if (work["load"], work["mode"]) == ("{load}", "{mode}"):
    sys.exit("it does not load")
speed = 2 if work["load"].endswith("-numpy") else 3
figures = {{"items_per_second": speed, "cpu_ms_per_item": 1, "peak_mib_of_the_main_process": 1}}
print(json.dumps({{"counts": [figures for _ in work["counts"]]}}))
"""
Work = dict[str, float | str]

OURS, OTHER = "spdl-turbo", "bare"
FAST: Work = {"speed": 3.0}
SLOW: Work = {"speed": 2.0}
BROKEN: Work = {"reason": "there is no such library"}
VARIANT = f"{OURS}, 2 threads"


@pytest.fixture(scope="module")
def alternating() -> Iterator[ModuleType]:
    with importable("benchmarks"):
        yield importlib.import_module("_alternating")


@pytest.fixture
def measure(alternating: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return a function that measures a row of ours beside another, with the reference unavailable."""

    def unavailable(console: object) -> None:
        raise alternating.PeerUnavailable("there is no network")

    (tmp_path / "__main__.py").write_text(PROGRAM)
    monkeypatch.setattr(alternating, "reference_environment", unavailable)
    monkeypatch.setattr(sys, "argv", ["table", "--rounds", "2", "--json", str(tmp_path / "found.json")])
    rows = importlib.import_module("_engine_rows")
    claim = rows.Claim("items_per_second", "at least", 1.0, OTHER)

    def run(ours: Work, other: Work, variant: Work | None = None, *, calibrated: bool = False) -> tuple[int, Any]:
        works = {OURS: ours, OTHER: other, rows.REFERENCE: FAST} | ({VARIANT: variant} if variant else {})
        table = {"speed": rows.Row("how fast", ("items_per_second",), works, (claim,), calibrated=calibrated)}
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


def test_a_variant_of_ours_that_fails_is_a_miss(measure: Callable[..., Any]) -> None:
    status, result = measure(FAST, SLOW, BROKEN)
    assert status == 1
    assert result["rows"]["speed"]["absent"] == {VARIANT: BROKEN["reason"]}


def test_the_machines_speed_that_cannot_be_measured_leaves_a_row_without_figures(measure: Callable[..., Any]) -> None:
    status, result = measure(FAST, SLOW, calibrated=True)
    row = result["rows"]["speed"]
    assert status == 1
    assert row["contenders"] == {}
    assert set(row["absent"]) == {OURS, OTHER}
    assert "the machine's speed could not be measured: KeyError: 'speed'" in row["absent"].values()


@pytest.fixture
def formats(alternating: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return a function that measures the formats, some of which fail, with threads or with processes."""
    data_formats = importlib.import_module("data_formats")
    json_file = tmp_path / "found.json"

    def unavailable(console: object) -> None:
        raise data_formats.PeerUnavailable("there is no network")

    monkeypatch.setattr(data_formats, "reference_environment", unavailable)
    monkeypatch.setattr(data_formats, "WORK", tmp_path)
    arguments = ["--rounds", "2", "--workers", "1", "2", "--json", str(json_file)]
    monkeypatch.setattr(sys, "argv", ["data_formats", *arguments])

    def run(load: str, mode: str) -> tuple[int, Any]:
        (tmp_path / "__main__.py").write_text(FORMATS.format(load=load, mode=mode))
        return data_formats.main(), json.loads(json_file.read_text())

    return run


@pytest.mark.parametrize(("load", "status"), [("npy-numpy", 0), ("npy", 1)])
@pytest.mark.parametrize("mode", ["threads", "processes"])
def test_a_format_that_cannot_be_loaded_is_left_out_with_the_reason(
    formats: Callable[..., Any], load: str, mode: str, status: int
) -> None:
    found, result = formats(load, mode)
    left_out = {"npy-numpy": "npy, numpy", "npy": "npy, spdl-turbo"}[load]
    assert found == status
    assert result["absent"][left_out] == "it does not load"
    assert left_out not in result["lines"]
    assert result["lines"]["npz, spdl-turbo"] == {"threads": [3, 3], "processes": [3, 3]}
    assert {(it["kind"], it["beside"]) for it in result["claims"]} == {("npz", "numpy"), ("npz deflated", "numpy")}


def test_the_recorded_runs_can_be_reported(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    sections = ("loaders", "data_formats", "engine", "noisy_neighbour")
    for section in sections:
        shutil.copy(ROOT / "benchmarks" / "results" / f"{section}.json", tmp_path)
    command = [sys.executable, str(ROOT / "benchmarks" / "report.py"), str(tmp_path)]
    said = subprocess.check_output(command, text=True)
    assert said.count("comparisons are won") == len(sections)
    assert (tmp_path / "report.html").stat().st_size > 10_000
