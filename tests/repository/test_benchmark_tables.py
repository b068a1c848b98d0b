"""The tables of media show the recorded runs, and those are of the current benchmarks."""

import copy
import importlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from PIL import Image
from tests.importing import importable

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def scripts() -> Iterator[None]:
    with importable("benchmarks", "scripts"):
        yield


@pytest.fixture(scope="module")
def tables(scripts: None) -> ModuleType:
    return importlib.import_module("benchmark_tables")


@pytest.fixture(params=["images", "video", "audio"])
def page(tables: ModuleType, request: pytest.FixtureRequest) -> Any:
    return next(page for page in tables.PAGES if page.medium == request.param)


@pytest.fixture
def results(page: Any) -> Any:
    return json.loads(page.results.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ["summary", "whole"])
def test_page_shows_the_recorded_run(tables: ModuleType, page: Any, results: Any, name: str) -> None:
    text = page.path.read_text(encoding="utf-8")
    content = getattr(tables, name)(results)
    shown = tables.replace_section(text, tables.label(name), content)
    assert shown == text, "run scripts/benchmark_tables.py and commit what it writes"


def rows_of(medium: str, cores: float) -> Any:
    if medium == "images":
        return importlib.import_module("_image_rows").rows(cores)
    module = importlib.import_module("_media_rows")
    return module.video_rows(cores) if medium == "video" else module.audio_rows()


def test_recorded_run_is_of_the_benchmark_as_it_stands(page: Any, results: Any) -> None:
    cores = results["provenance"]["cores"]
    rows = rows_of(page.medium, cores)
    assert set(results["rows"]) | set(results["left_out"]) == set(rows), (
        f"run benchmarks/{page.medium}.py and record the results"
    )
    for key, recorded in results["rows"].items():
        row = rows[key]
        assert recorded["title"] == row.title
        assert recorded["works"] == json.loads(json.dumps({name: it.work for name, it in row.contenders.items()}))
        assert recorded["resizes"] == {name: it.resize for name, it in row.contenders.items()}
        assert {*recorded["contenders"], *recorded["absent"]} == set(row.contenders)
        claims = {(claim["of"], claim["figure"], claim["mark"], claim["beside"]) for claim in recorded["claims"]}
        assert claims <= {(claim.of, claim.figure, claim.mark, claim.beside) for claim in row.claims}
        there = recorded["contenders"].keys()
        assert len(claims) == sum({claim.of, claim.beside or claim.of} <= there for claim in row.claims)


def test_recorded_verdicts_follow_from_the_figures(results: Any) -> None:
    for row in results["rows"].values():
        for claim in row["claims"]:
            value = row["contenders"][claim["of"]][claim["figure"]]
            if claim["beside"]:
                value /= row["contenders"][claim["beside"]][claim["figure"]]
            assert claim["value"] == pytest.approx(value)
            if claim["mark"] is not None:
                margin = value - claim["mark"] if claim["relation"] == "at least" else claim["mark"] - value
                assert claim["met"] == (margin >= 0)


def test_other_figures_make_other_tables(tables: ModuleType, results: Any) -> None:
    whole, summary = tables.whole(results), tables.summary(results)
    for key, row in results["rows"].items():
        for contender in row["contenders"]:
            changed = copy.deepcopy(results)
            changed["rows"][key]["contenders"][contender][row["figure"]] *= 1.5
            assert tables.whole(changed) != whole, (key, contender)
        for claim in tables.closest_claims(row):
            changed = copy.deepcopy(results)
            changed["rows"][key]["claims"][row["claims"].index(claim)]["value"] *= 1.5
            assert tables.summary(changed) != summary, (key, claim)


def test_figures_stand_below_their_names(tables: ModuleType, results: Any) -> None:
    found = re.findall(r"(?:^\|.*\n)+", tables.whole(results), re.MULTILINE)
    assert len(found) == len(results["rows"])
    for table, row in zip(found, results["rows"].values(), strict=True):
        heading, _, *lines = ([cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines())
        for (name, figures), line in zip(row["contenders"].items(), lines, strict=True):
            cells = dict(zip(heading, line, strict=True))
            assert cells["contender"] == name
            names = {tables.spaced(figure): value for figure, value in figures.items()}
            said = {
                "images per second": figures.get("images_per_second"),
                "per CPU-second": figures.get("images_per_cpu_second"),
                "MiB": figures.get("memory_mib", figures.get("peak_mib")),
            } | names
            for title in heading[2:]:
                assert float(cells[title].replace(",", "")) == pytest.approx(said[title], rel=0.01, abs=0.01), title


def test_a_missed_mark_is_shown(tables: ModuleType, results: Any) -> None:
    for row in results["rows"].values():
        for claim in row["claims"]:
            claim["met"] = None if claim["mark"] is None else True
    assert "**missed**" not in tables.summary(results) + tables.whole(results)
    for row in results["rows"].values():
        for claim in tables.closest_claims(row):
            if claim["mark"] is not None:
                claim["met"] = False
                assert "**missed**" in tables.summary(results), claim
                assert "**missed**" in tables.whole(results), claim
                claim["met"] = True


def test_the_claim_with_the_least_margin_is_shown(tables: ModuleType) -> None:
    claim = {"of": "spdl-turbo", "figure": "images_per_second", "mark": 1.5, "relation": "at least"}
    claims = [claim | {"beside": name, "value": value} for name, value in (("a", 3.0), ("b", 1.6), ("c", 2.0))]
    assert tables.closest_claims({"claims": claims}) == [claims[1]]
    downwards = [it | {"relation": "at most"} for it in claims]
    assert tables.closest_claims({"claims": downwards}) == [downwards[0]]


def test_who_did_not_run_is_named(tables: ModuleType, results: Any) -> None:
    next(iter(results["rows"].values()))["absent"] = {"Some loader": "there is no wheel"}
    assert "Some loader: not run" in tables.summary(results)
    assert "Some loader did not run: there is no wheel" in tables.whole(results)


def test_differences_are_those_that_were_recorded() -> None:
    image_page = importlib.import_module("image_page")
    recorded = json.loads(image_page.RECORDED.read_text(encoding="utf-8"))
    text = image_page.PAGE.read_text(encoding="utf-8")
    assert image_page.with_table(text, recorded) == text, "run scripts/image_page.py and commit what it writes"
    assert all(it["max"] == 0 for it in recorded["differences"] if it["other"] == "Pillow")
    with pytest.raises(SystemExit, match="should hold these two lines"):
        image_page.with_table("# Images\n", recorded)


@pytest.mark.parametrize("name", ["comparison", "modes", "interpolations"])
def test_pictures_are_there(name: str) -> None:
    with Image.open(ROOT / "docs" / "images" / f"image_{name}.png") as picture:
        assert len(picture.getcolors(1 << 24) or ()) > 1000
