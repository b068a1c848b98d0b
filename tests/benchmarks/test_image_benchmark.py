"""The benchmark of images judges its figures and names contenders that did not run. Its contenders do run."""

import importlib
import json
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.importing import importable

ROOT = Path(__file__).parents[2]
WORK = ROOT / "benchmarks" / "_images_work"

SLOW, FAST = {"images_per_second": 100.0}, {"images_per_second": 300.0}


@pytest.fixture(scope="module")
def images() -> Iterator[ModuleType]:
    with importable("benchmarks"):
        yield importlib.import_module("images")


@pytest.fixture
def row(images: ModuleType) -> Any:
    rows = sys.modules["_image_rows"]
    contender = rows.Contender("own", {"work": "some.thing"}, "stretch", (1, 2))
    contenders = dict.fromkeys(("spdl-turbo", "other", "absent"), contender)
    claims = (rows.at_least(2, "spdl-turbo", "other", "images_per_second"), rows.at_least(2, "spdl-turbo", "absent"))
    return images.rows(2)["loaders"].__class__("some work", "images_per_second", contenders, claims)


def test_the_best_number_of_workers_counts(images: ModuleType, row: Any) -> None:
    medians = {
        ("spdl-turbo", 1): SLOW,
        ("spdl-turbo", 2): FAST,
        ("other", 1): SLOW,
        ("other", 2): {"images_per_second": 99.0},
    }
    result = images.outcome(row, medians, {("other", 4): "it fell over"})
    assert result["contenders"] == {"spdl-turbo": {"workers": 2, **FAST}, "other": {"workers": 1, **SLOW}}
    assert len(result["tried"]) == 4
    assert result["failed"] == [{"contender": "other", "workers": 4, "why": "it fell over"}]
    (claim,) = result["claims"]
    assert claim["value"] == 3
    assert claim["met"] is True


def test_a_missed_mark_is_a_missed_mark(images: ModuleType, row: Any) -> None:
    (claim,) = images.outcome(row, {("spdl-turbo", 1): FAST, ("other", 1): {"images_per_second": 151.0}}, {})["claims"]
    assert claim["value"] == pytest.approx(300 / 151)
    assert claim["met"] is False


def test_whoever_has_no_figures_is_listed_with_the_reason(images: ModuleType, row: Any) -> None:
    result = images.outcome(row, {("spdl-turbo", 1): FAST}, {("other", 1): "it fell over", ("other", 2): "so did this"})
    assert images.missing(row, result, {}) == {"other": "so did this", "absent": "it did not run"}
    assert images.missing(row, result, {"own": "there is no such thing"})["absent"] == "there is no such thing"


def test_rows_of_an_earlier_run_stay(images: ModuleType) -> None:
    before = {"provenance": 1, "rows": {"c": 1, "a": 1, "gone": 1}}
    both = images.merged(before, {"provenance": 2, "rows": {"b": 2, "a": 2}}, ["a", "b", "c", "d"])
    assert both == {"provenance": 2, "rows": {"a": 2, "b": 2, "c": 1}}
    assert list(both["rows"]) == ["a", "b", "c"]


@pytest.mark.parametrize("cores", [2, 16])
def test_claims_are_about_contenders_of_the_row(images: ModuleType, cores: int) -> None:
    environments = sys.modules["_image_environments"].MAKERS
    for row in images.rows(cores).values():
        assert {it.environment for it in row.contenders.values()} <= environments.keys()
        assert any(claim.mark or row.title == "whole loaders" for claim in row.claims)
        for claim in row.claims:
            assert {claim.of, claim.beside or claim.of} <= row.contenders.keys()


def test_work_that_fails_gets_no_more_turns(images: ModuleType, tmp_path: Path) -> None:
    program = tmp_path / "work.py"
    program.write_text(
        "import json, sys\nfigure = json.loads(sys.argv[1])['figure']\nprint(json.dumps({'it': figure / 2}))\n"
    )
    jobs = {
        name: images.Job((sys.executable,), program, {"figure": it}) for name, it in {"works": 4, "fails": "x"}.items()
    }
    medians, failed = images.take_turns(jobs, 2)
    assert medians == {"works": {"it": 2}}
    assert failed == {"fails": "TypeError: unsupported operand type(s) for /: 'str' and 'int'"}


@given(st.integers(1, 3000), st.integers(1, 3000), st.integers(0, 1 << 30))
def test_random_crops_are_those_that_were_asked_for(width: int, height: int, seed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(WORK))
        crops = importlib.import_module("crops")
    left, top, right, bottom = crops.draw_crop(random.Random(seed), width, height)  # noqa: S311
    assert 0 <= left < right <= width
    assert 0 <= top < bottom <= height
    if (right - left, bottom - top) != (width, height) and min(right - left, bottom - top) > 50:
        assert 0.07 <= (right - left) * (bottom - top) / (width * height) <= 1
        assert 0.73 <= (right - left) / (bottom - top) <= 1.36


@pytest.mark.parametrize(
    "work",
    [
        {"work": "ours.one_thread", "flow": "batch", "resize": "stretch-bilinear", "images": 64, "normalised": True},
        {"work": "ours.one_thread", "flow": "seed", "resize": "pad-bicubic", "images": 64},
        {"work": "ours.loader", "flow": "batch", "resize": "stretch-bilinear", "images": 64, "random": True},
        {"work": "kernel.pillow", "calls": 20},
        {"work": "ticks.longest_wait"},
        {"work": "ours.callers", "resize": "stretch-bilinear", "seconds": 0.1},
    ],
    ids=lambda work: f"{work['work']}-{work.get('flow')}",
)
def test_work_prints_its_figures(work: dict[str, Any], tmp_path: Path) -> None:
    for number in range(3):
        Image.fromarray(np.full((60, 80, 3), number, np.uint8)).save(tmp_path / f"{number}.jpg")
    arguments = work | {"folder": str(tmp_path), "workers": 1}
    done = subprocess.run([sys.executable, WORK, json.dumps(arguments)], check=True, capture_output=True, text=True)
    figures = json.loads(done.stdout)
    assert figures
    # The wait beside a thread may be shorter than the wait beside a process.
    assert all(value > 0 for name, value in figures.items() if name != "excess_ms")
