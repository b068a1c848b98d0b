"""A line in the description of counters is all that a new one takes to be shown everywhere."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

# It counts what the engine counts anyway, in sevens.
LINE = """
    sevens: float = _total(
        "7 * counted.emitted", shown=Shown("spdl.stage.sevens", "{seven}", "Sevens.", "sevens", "sevens_per_second")
    )
"""
# A program in which the description has that line, and which prints how each reader of counters shows it.
PROGRAM = """
import contextlib, io, json, os, sys, tempfile
from importlib.machinery import SourceFileLoader
from pathlib import Path

get_code = SourceFileLoader.get_code

def with_line(loader, name):
    if not loader.path.endswith("_report/sample.py"):
        return get_code(loader, name)
    before, counts, behind = Path(loader.path).read_text().partition("    bytes_read: float = _total(")
    return compile(before + {line!r} + counts + behind, loader.path, "exec")

SourceFileLoader.get_code = with_line

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from spdl.cli import main
from spdl.observe import OpenTelemetryExport, TensorBoardScalars, find_pipelines, prometheus_text, watch, write_report
from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig

class Scalars(dict):
    def add_scalar(self, tag, value, step):
        self[tag] = value

def endless():
    while True:
        yield 1

found = {{}}
builder = PipelineBuilder().add_source(endless()).to(ProcessPoolExecutorConfig(1)).pipe(abs).to(MAIN_PROCESS)
pipeline = builder.pipe(str).add_sink(2).build(num_threads=1)
with pipeline.auto_stop():
    # The region's worker tells what it has counted now and then.
    while not pipeline.statistics().stages[1].num_emitted:
        pipeline.get_item()
    window = watch(find_pipelines(os.getpid())[0], 0.3)
    found["watch"] = [hasattr(each.per_second, "sevens") for each in (*window.sources, *window.stages)]
    top = io.StringIO()
    with contextlib.redirect_stdout(top):
        main(["top", str(os.getpid()), "--json", "--once"])
    (shown,) = json.loads(top.getvalue())
    found["top"] = [list(each["per_second"]) for each in shown["stages"]]
    statistics = pipeline.statistics()
    found["statistics"] = [(each.sevens, each.num_emitted) for each in statistics.stages]
    reader = InMemoryMetricReader()
    with OpenTelemetryExport(pipeline, MeterProvider(metric_readers=[reader])):
        (scope,) = reader.get_metrics_data().resource_metrics[0].scope_metrics
    found["opentelemetry"] = [
        len(each.data.data_points) for each in scope.metrics if each.name == "spdl.stage.sevens"
    ]
    found["prometheus"] = [
        line.split("{{")[0] for line in prometheus_text(pipeline).splitlines() if line.startswith("spdl_stage_sevens")
    ]
    TensorBoardScalars(pipeline, scalars := Scalars()).write(1)
    found["tensorboard"] = [tag for tag, value in scalars.items() if tag.endswith("/sevens_per_second") and value]
    with tempfile.TemporaryDirectory() as folder:
        write_report(pipeline, Path(folder, "report.html"))
        found["report"] = Path(folder, "report.html").read_text().count(">sevens<")
print(json.dumps(found))
"""


@pytest.mark.timeout(120)
def test_one_line_shows_a_counter_everywhere() -> None:
    program = PROGRAM.format(line=LINE)
    done = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    counted = found.pop("statistics")
    assert all(sevens == 7 * emitted for sevens, emitted in counted[:-1])
    assert [sevens > 0 for sevens, _ in counted] == [True, True, True, False]
    names = ["sevens", "bytes_read"]
    assert found == {
        "watch": [True] * 3,
        "top": [names, names],
        "opentelemetry": [3],
        "prometheus": ["spdl_stage_sevens_total"] * 3,
        "tensorboard": [f"pipeline/{part}/sevens_per_second" for part in ("0 src", "1 abs", "2 str")],
        "report": 1,
    }
