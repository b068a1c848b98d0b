"""The page on statistics and hooks gives the measured figures."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_what_hooks_cost() -> None:
    record = json.loads((ROOT / "benchmarks" / "results" / "surfaces.json").read_text(encoding="utf-8"))
    inside = record["rows"]["hooks"]["contenders"]["spdl-turbo"]["items_per_second"]
    without = record["rows"]["statistics"]["contenders"]["spdl-turbo, without hooks"]["items_per_second"]
    text = " ".join((ROOT / "docs" / "statistics.md").read_text(encoding="utf-8").split())
    assert f"pass on {inside:,.0f} items per second, each inside a hook" in text
    assert f"and {without:,.0f} without hooks" in text
