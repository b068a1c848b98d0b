"""The stages of a pipeline as a state names them, to be compared with those of another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .aggregator import Collate
from .records import AggregateConfig, DisaggregateConfig, MergeConfig, PathVariantsConfig
from .regions import outside

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .records import PipelineConfig, StageConfig

__all__ = ["stages_of"]


def stages_of(config: PipelineConfig[Any]) -> list[str]:
    """Return the kinds and names of the stages.

    What may differ after a resume is left out: concurrencies, orders, policies, how many items make a batch, and where
    the stages run.
    """
    return [*_before(config), *_names(outside(config.pipes))]


def _before(config: PipelineConfig[Any]) -> Iterator[str]:
    if isinstance(config.src, MergeConfig):
        branches = "; ".join(", ".join(stages_of(branch)) for branch in config.src.pipeline_configs)
        yield f"merge({branches})"
    elif config.src.continuous:
        yield "continuous"


def _names(stages: Sequence[StageConfig]) -> Iterator[str]:
    for stage in stages:
        if isinstance(stage, AggregateConfig):
            yield "aggregate" if type(stage.op) is Collate else f"aggregate({type(stage.op).__qualname__})"
        elif isinstance(stage, PathVariantsConfig):
            paths = "; ".join(", ".join(_names(path)) for path in stage.paths)
            yield f"{stage.name}({paths}{'; batched' if stage.batched else ''})"
        elif isinstance(stage, DisaggregateConfig):
            yield stage.name
        else:
            yield f"pipe {stage.name}"
