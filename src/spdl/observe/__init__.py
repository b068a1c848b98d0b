"""What running pipelines do, for people and for other programs: metrics of monitoring systems, traces, reports."""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

from ._export.observed import Observed
from ._export.opentelemetry import OpenTelemetryExport
from ._export.prometheus_file import PrometheusFile
from ._export.prometheus_server import PrometheusServer
from ._export.prometheus_text import prometheus_text
from ._export.tensorboard import TensorBoardScalars
from ._report.history import History, Sample
from ._report.write_report import write_report
from ._trace.record_trace import record_trace

__all__ = [
    "History",
    "Observed",
    "OpenTelemetryExport",
    "PrometheusFile",
    "PrometheusServer",
    "Sample",
    "TensorBoardScalars",
    "prometheus_text",
    "record_trace",
    "write_report",
]
