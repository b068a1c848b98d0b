"""Observe running pipelines, for people and for other programs: metrics of monitoring systems, traces, reports.

`find_pipelines` and `diagnose` watch pipelines of other processes; ``spdl ps``, ``spdl top``, ``spdl why`` and
``spdl stack`` stand on them. A running pipeline writes its counters into a page of memory that only its user can read.
Reading it asks nothing of the process, so it works while the process holds the GIL, hangs, or was killed.

An `Observation` is all that is counted, at one moment. A `Window` is what happened between two of them, and `verdict`
says what limits a pipeline by a window and nothing else.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl._not_here import missing

if TYPE_CHECKING:
    from spdl.observe._export.observed import Observed
    from spdl.observe._export.opentelemetry import OpenTelemetryExport
    from spdl.observe._export.prometheus import PrometheusFile, prometheus_text
    from spdl.observe._export.prometheus_server import PrometheusServer
    from spdl.observe._export.tensorboard import TensorBoardScalars
    from spdl.observe._page import ObservedPipeline, PageError, find_pipelines
    from spdl.observe._report.history import History, Sample
    from spdl.observe._report.write_report import write_report
    from spdl.observe._trace.record_trace import record_trace
    from spdl.observe._verdict.decide import verdict
    from spdl.observe._verdict.diagnose import diagnose, watch
    from spdl.observe._verdict.verdict import Verdict
    from spdl.observe._window.window import SourceWindow, StageWindow, Window
    from spdl.pipeline._report.page_file import enable_stacks
    from spdl.pipeline._report.sample import Sample as Observation
    from spdl.pipeline._report.sample import SourceSample as SourceObservation
    from spdl.pipeline._report.sample import StageSample as StageObservation
    from spdl.pipeline._report.sample import ThreadSample as ThreadObservation
    from spdl.pipeline._report.statistics import PageHead, StageHead

__all__ = [
    "History",
    "Observation",
    "Observed",
    "ObservedPipeline",
    "OpenTelemetryExport",
    "PageError",
    "PageHead",
    "PrometheusFile",
    "PrometheusServer",
    "Sample",
    "SourceObservation",
    "SourceWindow",
    "StageHead",
    "StageObservation",
    "StageWindow",
    "TensorBoardScalars",
    "ThreadObservation",
    "Verdict",
    "Window",
    "diagnose",
    "enable_stacks",
    "find_pipelines",
    "prometheus_text",
    "record_trace",
    "verdict",
    "watch",
    "write_report",
]

# These are imported when they are first used: each pipeline needs the verdict, and few anything else.
_LATER = {
    "History": "observe._report.history",
    "Observation": "pipeline._report.sample:Sample",
    "Observed": "observe._export.observed",
    "ObservedPipeline": "observe._page",
    "OpenTelemetryExport": "observe._export.opentelemetry",
    "PageError": "observe._page",
    "PageHead": "pipeline._report.statistics",
    "PrometheusFile": "observe._export.prometheus",
    "PrometheusServer": "observe._export.prometheus_server",
    "Sample": "observe._report.history",
    "SourceObservation": "pipeline._report.sample:SourceSample",
    "SourceWindow": "observe._window.window",
    "StageHead": "pipeline._report.statistics",
    "StageObservation": "pipeline._report.sample:StageSample",
    "StageWindow": "observe._window.window",
    "TensorBoardScalars": "observe._export.tensorboard",
    "ThreadObservation": "pipeline._report.sample:ThreadSample",
    "Verdict": "observe._verdict.verdict",
    "Window": "observe._window.window",
    "diagnose": "observe._verdict.diagnose",
    "enable_stacks": "pipeline._report.page_file",
    "find_pipelines": "observe._page",
    "prometheus_text": "observe._export.prometheus",
    "record_trace": "observe._trace.record_trace",
    "verdict": "observe._verdict.decide",
    "watch": "observe._verdict.diagnose",
    "write_report": "observe._report.write_report",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise missing(__name__, name)
    module, _, other = _LATER[name].partition(":")
    value = globals()[name] = getattr(import_module(f"spdl.{module}"), other or name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
