"""Watch running pipelines from another process: `spdl ps`, `spdl top` and `spdl why` stand on this.

A running pipeline writes its counters into a page of memory that only its user can read. Reading it asks nothing of the
process, so it works while the process holds the GIL, hangs, or was killed.
"""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl.observe._page.find_pipelines import find_pipelines
from spdl.observe._page.observation import Observation, SourceObservation, StageObservation, ThreadObservation
from spdl.observe._page.observed_pipeline import ObservedPipeline
from spdl.observe._page.page_head import PageError, PageHead, StageHead
from spdl.observe._why.diagnose import diagnose
from spdl.observe._why.measure import measure
from spdl.observe._window.thread_times import Doing, ThreadTimes
from spdl.observe._window.window import Look, Window, watch
from spdl.pipeline._metrics.measures import PipelineMeasures, SourceMeasures, StageMeasures
from spdl.pipeline._metrics.verdict import Verdict, decide

__all__ = [
    "Doing",
    "Look",
    "Observation",
    "ObservedPipeline",
    "PageError",
    "PageHead",
    "PipelineMeasures",
    "SourceMeasures",
    "SourceObservation",
    "StageHead",
    "StageMeasures",
    "StageObservation",
    "ThreadObservation",
    "ThreadTimes",
    "Verdict",
    "Window",
    "decide",
    "diagnose",
    "find_pipelines",
    "measure",
    "watch",
]
