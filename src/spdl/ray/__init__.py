"""Pipelines on several machines: in actors of Ray. Needs ``spdl-turbo[ray]``, but for `LeaseTable`."""

from spdl import _guard  # noqa: F401 - raises if the reference has overwritten modules of this package.
from spdl._not_here import missing
from spdl.ray._crew import ActorLostError
from spdl.ray._data import PipelineStage, RayDataSource, ray_datasource
from spdl.ray._leases import LeaseTable, Undelivered
from spdl.ray._loader import ActorStatistics, RayLoader, RayStatistics, run_on_ray

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
