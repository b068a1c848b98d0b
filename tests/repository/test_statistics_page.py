"""The page on statistics and hooks gives the measured figures."""

import json
import re
from pathlib import Path

from spdl.observe import prometheus_text
from spdl.pipeline import PipelineBuilder

ROOT = Path(__file__).parents[2]


def test_what_hooks_cost() -> None:
    record = json.loads((ROOT / "benchmarks" / "results" / "surfaces.json").read_text(encoding="utf-8"))
    inside = record["rows"]["hooks"]["contenders"]["spdl-turbo"]["items_per_second"]
    without = record["rows"]["statistics"]["contenders"]["spdl-turbo, without hooks"]["items_per_second"]
    text = " ".join((ROOT / "docs" / "statistics.md").read_text(encoding="utf-8").split())
    assert f"pass on {inside:,.0f} items per second, each inside a hook" in text
    assert f"and {without:,.0f} without hooks" in text


def test_the_table_has_all_metrics() -> None:
    text = (ROOT / "docs" / "statistics.md").read_text(encoding="utf-8")
    named = []
    for row in re.findall(r"^\| (`spdl\.[^|]+) \|", text, re.MULTILINE):
        names = re.findall(r"`([a-z_.]+)`", row)
        named += [f"spdl.stage{name}" if name.startswith(".") else name for name in names if name != "max_bytes"]
    pipeline = PipelineBuilder().add_source(range(1)).add_sink().build(num_threads=1)
    written = re.findall(r"^# HELP (\w+?)(?:_seconds|_bytes)?(?:_total)? ", prometheus_text(pipeline), re.MULTILINE)
    # A histogram, which only Prometheus has.
    written.remove("spdl_stage_duration")
    assert sorted(name.replace(".", "_") for name in named) == sorted(written)
