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
    from spdl.observe._export.prometheus import PrometheusFile, PrometheusServer, prometheus_text
    from spdl.observe._export.tensorboard import TensorBoardScalars
    from spdl.observe._page import ObservedPipeline, PageError, find_pipelines
    from spdl.observe._report import History, Sample, write_report
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
_MODULES = {
    "observe._export.observed": ("Observed",),
    "observe._export.opentelemetry": ("OpenTelemetryExport",),
    "observe._export.prometheus": ("PrometheusFile", "PrometheusServer", "prometheus_text"),
    "observe._export.tensorboard": ("TensorBoardScalars",),
    "observe._page": ("ObservedPipeline", "PageError", "find_pipelines"),
    "observe._report": ("History", "Sample", "write_report"),
    "observe._trace.record_trace": ("record_trace",),
    "observe._verdict.decide": ("verdict",),
    "observe._verdict.diagnose": ("diagnose", "watch"),
    "observe._verdict.verdict": ("Verdict",),
    "observe._window.window": ("SourceWindow", "StageWindow", "Window"),
    "pipeline._report.page_file": ("enable_stacks",),
    "pipeline._report.sample": ("Observation", "SourceObservation", "StageObservation", "ThreadObservation"),
    "pipeline._report.statistics": ("PageHead", "StageHead"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise missing(__name__, name)
    # What is an observation here is a sample in the pipeline.
    value = getattr(import_module(f"spdl.{_MODULE_OF[name]}"), name.replace("Observation", "Sample"))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
