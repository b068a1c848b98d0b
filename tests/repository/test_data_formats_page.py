"""The case study of data formats shows the recorded runs."""

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def page() -> Iterator[ModuleType]:
    pytest.importorskip("matplotlib")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        yield importlib.import_module("data_formats_page")


def test_marks_are_the_recorded_ones(page: ModuleType) -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    recorded = json.loads((page.RESULTS / "arrays.json").read_text(encoding="utf-8"))
    assert page.block(text, "marks", page.marks(recorded)) == text, "run scripts/data_formats_page.py"
    claims = [claim for row in recorded["rows"].values() for claim in row["claims"]]
    claims[0]["met"] = False
    assert page.marks(recorded).count("**missed**") == 1 + sum(not claim["met"] for claim in claims[1:])


def test_throughput_is_the_recorded_one(page: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = page.PAGE.read_text(encoding="utf-8")
    monkeypatch.setattr(page, "IMAGES", tmp_path)
    content = page.scaling(page.RESULTS / "data_formats.json")
    assert page.block(text, "scaling", content) == text, "run scripts/data_formats_page.py"
    assert {path.name for path in tmp_path.iterdir()} >= {"data_formats.png"}
