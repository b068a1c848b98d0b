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
from spdl.pipeline._metrics.verdict import Verdict

__all__ = [
    "Observation",
    "ObservedPipeline",
    "PageError",
    "PageHead",
    "SourceObservation",
    "StageHead",
    "StageObservation",
    "ThreadObservation",
    "Verdict",
    "diagnose",
    "find_pipelines",
]
