"""What running pipelines do, for people and for other programs: metrics of monitoring systems, traces, reports.

`find_pipelines` and `diagnose` watch pipelines of other processes; ``spdl ps``, ``spdl top``, ``spdl why`` and
``spdl stack`` stand on them. A running pipeline writes its counters into a page of memory that only its user can read.
Reading it asks nothing of the process, so it works while the process holds the GIL, hangs, or was killed.
"""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl.observe._export.observed import Observed
from spdl.observe._export.opentelemetry import OpenTelemetryExport
from spdl.observe._export.prometheus import PrometheusFile, prometheus_text
from spdl.observe._export.prometheus_server import PrometheusServer
from spdl.observe._export.tensorboard import TensorBoardScalars
from spdl.observe._page.find_pipelines import find_pipelines
from spdl.observe._page.observed_pipeline import ObservedPipeline
from spdl.observe._page.page_head import PageError
from spdl.observe._report.history import History, Sample
from spdl.observe._report.write_report import write_report
from spdl.observe._trace.record_trace import record_trace
from spdl.observe._why.diagnose import diagnose
from spdl.pipeline._metrics.head import PageHead, StageHead
from spdl.pipeline._metrics.sample import Sample as Observation
from spdl.pipeline._metrics.sample import SourceSample as SourceObservation
from spdl.pipeline._metrics.sample import StageSample as StageObservation
from spdl.pipeline._metrics.sample import ThreadSample as ThreadObservation
from spdl.pipeline._metrics.stacks_file import enable_stacks
from spdl.pipeline._metrics.verdict import Verdict

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
    "StageHead",
    "StageObservation",
    "TensorBoardScalars",
    "ThreadObservation",
    "Verdict",
    "diagnose",
    "enable_stacks",
    "find_pipelines",
    "prometheus_text",
    "record_trace",
    "write_report",
]
