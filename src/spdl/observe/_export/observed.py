"""What is observed: pipelines and loaders, each under a name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from spdl._check import refuse

if TYPE_CHECKING:
    from spdl.pipeline._report.statistics import PipelineStatistics

__all__ = ["LONE_NAME", "Observables", "Observed", "check_observed", "read"]

# What a pipeline is called that was given without a name.
LONE_NAME = "pipeline"


@runtime_checkable
class Observed(Protocol):
    """Anything that tells what a pipeline does: a `Pipeline`, and the loaders of `spdl.dataloader`.

    Example:
        >>> from spdl.observe import Observed
        >>> from spdl.pipeline import PipelineBuilder
        >>> isinstance(PipelineBuilder().add_source(range(3)).add_sink().build(), Observed)
        True
    """

    def statistics(self) -> PipelineStatistics:
        """Return the counts and times since the start. It may be called at any time, from any thread."""


Observables: TypeAlias = Observed | Mapping[str, Observed]


def check_observed(observed: object) -> Observables:
    """Return what is to be observed, if it is that.

    Raises:
        TypeError: If it is neither an `Observed` nor a mapping from names to such.
    """
    accepted = "a pipeline, a loader, or a mapping from names to these"
    if isinstance(observed, Mapping):
        for name, each in observed.items():
            if not isinstance(name, str):
                refuse(TypeError, "pipelines", accepted, observed, f"The name {name!r} is no str.")
            if not isinstance(each, Observed):
                refuse(TypeError, "pipelines", accepted, observed, f"What is called {name!r} has no statistics().")
        return observed
    if not isinstance(observed, Observed):
        refuse(TypeError, "pipelines", accepted, observed)
    return observed


def read(observed: Observables) -> dict[str, PipelineStatistics]:
    """Return the statistics of each pipeline now, by name. A mapping may be changed by other threads meanwhile."""
    if not isinstance(observed, Mapping):
        return {LONE_NAME: observed.statistics()}
    # Copied in one step, for dicts.
    return {name: each.statistics() for name, each in dict(observed).items()}
