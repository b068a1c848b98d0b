"""The page on the engine shows the recorded run, and that run is of the benchmark as it stands."""

import copy
import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def load(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # Dataclasses look up their module.
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, spec.name, module)
        patch.syspath_prepend(str(ROOT / "scripts"))
        spec.loader.exec_module(module)
    return module


speed_table = load("scripts/speed_table.py")
engine_rows = load("benchmarks/_engine_rows.py")


@pytest.fixture
def results() -> Any:
    return json.loads(speed_table.RESULTS.read_text(encoding="utf-8"))


def test_page_shows_the_recorded_run(results: Any) -> None:
    text = speed_table.PAGE.read_text(encoding="utf-8")
    content = speed_table.whole(results)
    shown = speed_table.replace_section(text, speed_table.LABEL, content)
    assert shown == text, "run scripts/speed_table.py and commit what it writes"


@pytest.fixture
def stops() -> Any:
    return json.loads(speed_table.STOP_RESULTS.read_text(encoding="utf-8"))


def test_page_shows_how_long_stops_take(stops: Any) -> None:
    text = speed_table.PAGE.read_text(encoding="utf-8")
    shown = speed_table.replace_section(text, speed_table.STOP_LABEL, speed_table.stop_table(stops))
    assert shown == text, "run scripts/speed_table.py and commit what it writes"
    for key, row in engine_rows.STOP_ROWS.items():
        assert stops["rows"][key]["title"] == row.title
        assert stops["rows"][key]["works"] == json.loads(json.dumps(row.works))
    assert all(claim["met"] for row in stops["rows"].values() for claim in row["claims"])


def test_recorded_run_is_of_the_benchmark_as_it_stands(results: Any) -> None:
    expected = {key: row for key, row in engine_rows.ROWS.items() if row.cores <= results["provenance"]["cores"]}
    assert list(results["rows"]) == list(expected), "run benchmarks/engine.py and record the results"
    for key, row in expected.items():
        recorded = results["rows"][key]
        assert recorded["title"] == row.title
        assert recorded["works"] == json.loads(json.dumps(row.works))
        assert [(claim["figure"], claim["mark"], claim["beside"]) for claim in recorded["claims"]] == [
            (claim.figure, claim.mark, claim.beside) for claim in row.claims
        ]


def test_recorded_verdicts_follow_from_the_figures(results: Any) -> None:
    for row in results["rows"].values():
        for claim in row["claims"]:
            value = row["contenders"][speed_table.OURS][claim["figure"]]
            if claim["beside"]:
                value /= row["contenders"][claim["beside"]][claim["figure"]]
            assert claim["value"] == pytest.approx(value)
            if claim["mark"] is not None:
                margin = value - claim["mark"] if claim["relation"] == "at least" else claim["mark"] - value
                assert claim["met"] == (margin >= 0)


def test_other_figures_make_other_tables(results: Any) -> None:
    whole = speed_table.whole(results)
    for key, row in results["rows"].items():
        for contender in row["contenders"]:
            changed = copy.deepcopy(results)
            for figure in row["shown"]:
                changed["rows"][key]["contenders"][contender][figure] *= 1.5
            assert speed_table.whole(changed) != whole, (key, contender)


def test_a_missed_mark_is_shown(results: Any) -> None:
    marked = [claim for row in results["rows"].values() for claim in row["claims"] if claim["mark"] is not None]
    for claim in marked:
        claim["met"] = True
    assert "**missed**" not in speed_table.whole(results)
    assert "rows, none misses a mark." in speed_table.whole(results)
    for claim in marked:
        claim["met"] = False
        assert "**missed**" in speed_table.whole(results), claim
        assert "rows, 1 misses a mark." in speed_table.whole(results)
        claim["met"] = True
