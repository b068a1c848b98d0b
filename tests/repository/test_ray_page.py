"""The page on several machines shows what its script writes."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script() -> Any:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        spec = importlib.util.spec_from_file_location("ray_page", ROOT / "scripts" / "ray_page.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(ROOT / "scripts"))
    return module


def test_the_picture_is_what_the_script_draws(script: Any) -> None:
    assert script.PICTURE.read_text(encoding="utf-8") == script.draw(), "run scripts/ray_page.py"


def test_the_costs_are_the_recorded_ones(script: Any) -> None:
    if not script.RESULTS.exists():
        pytest.skip("nothing is recorded")
    recorded = [json.loads(path.read_text(encoding="utf-8")) for path in (script.RESULTS, script.LEAVING)]
    table = script.costs(*recorded)
    assert table in script.PAGE.read_text(encoding="utf-8"), "run scripts/ray_page.py"
