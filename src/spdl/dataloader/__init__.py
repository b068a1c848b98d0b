"""Ready-made loaders on top of `spdl.pipeline`.

`Pipeline` and `PipelineBuilder` are the classes of `spdl.pipeline`.
"""

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl.dataloader._cache_dataloader import CacheDataLoader
from spdl.dataloader._dataloader import DataLoader
from spdl.dataloader._map_iterator import MapIterator
from spdl.pipeline import Pipeline, PipelineBuilder

__all__ = ["CacheDataLoader", "DataLoader", "MapIterator", "Pipeline", "PipelineBuilder"]
