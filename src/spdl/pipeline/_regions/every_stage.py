"""All stages of a region, those in paths included."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl.pipeline._declare.records import PathVariantsConfig

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from spdl.pipeline._declare.records import StageConfig

__all__ = ["every_stage"]


def every_stage(stages: Sequence[StageConfig]) -> Iterator[StageConfig]:
    """Yield the stages, each fork before the stages of its paths."""
    for stage in stages:
        yield stage
        if isinstance(stage, PathVariantsConfig):
            for path in stage.paths:
                yield from every_stage(path)
