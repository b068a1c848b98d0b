"""Pipelines on several machines: in actors of Ray. Needs ``spdl-turbo[ray]``, but for `LeaseTable`."""

from spdl import _guard  # noqa: F401 - raises if the reference has overwritten modules of this package.
from spdl._not_here import missing

from ._data.datasource import ray_datasource
from ._data.pipeline_stage import PipelineStage
from ._data.ray_data_source import RayDataSource
from ._leases.lease_table import LeaseTable, Undelivered
from ._loader.actor_lost import ActorLostError
from ._loader.ray_loader import RayLoader
from ._loader.ray_statistics import ActorStatistics, RayStatistics
from ._loader.run_on_ray import run_on_ray

__all__ = [
    "ActorLostError",
    "ActorStatistics",
    "LeaseTable",
    "PipelineStage",
    "RayDataSource",
    "RayLoader",
    "RayStatistics",
    "Undelivered",
    "ray_datasource",
    "run_on_ray",
]


def __getattr__(name: str) -> object:
    raise missing(__name__, name)
