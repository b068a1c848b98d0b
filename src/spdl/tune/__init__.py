"""Chooses a pipeline's limits while it runs: concurrencies, threads, and the buffer in front of the consumer.

`PipelineBuilder.build` with ``autotune=True`` does it; these are the records that the pipeline then returns.
"""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl.tune._tuner import TunedSettings, TuningStep

__all__ = ["TunedSettings", "TuningStep"]
