"""The regions among the stages of a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from spdl._locate import callers_line

from .placement import ExecutorConfig, PlacementConfig, check_interpreters

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from .records import StageConfig

    Part: TypeAlias = StageConfig | PlacementConfig

__all__ = ["Region", "check_regions", "outside", "split"]

S = TypeVar("S")


class Region(NamedTuple):
    """Stages that run in workers.

    Attributes:
        entry: The mark before them, with the workers.
        stages: The stages.
        exit: The mark behind them.
    """

    entry: PlacementConfig
    stages: tuple[StageConfig, ...]
    exit: PlacementConfig

    def workers(self) -> ExecutorConfig:
        """Return the workers' configuration."""
        assert isinstance(self.entry.target, ExecutorConfig)
        return self.entry.target


def split(parts: Sequence[Part]) -> Iterator[StageConfig | Region]:
    """Yield the stages that run here, and the regions, in order."""
    entry: PlacementConfig | None = None
    stages: list[StageConfig] = []
    for part in parts:
        if not isinstance(part, PlacementConfig):
            if entry is None:
                yield part
            else:
                stages.append(part)
            continue
        if entry is not None:
            yield Region(entry, tuple(stages), part)
        entry = part if isinstance(part.target, ExecutorConfig) else None
        stages = []


def outside(parts: Sequence[Part]) -> list[StageConfig]:
    """Return the stages without the marks, wherever they run."""
    return [part for part in parts if not isinstance(part, PlacementConfig)]


def check_regions(parts: Sequence[Part]) -> None:
    """Check the marks of regions.

    Raises:
        ValueError: If a region is empty, or not closed.
        RuntimeError: If a region is to run in sub-interpreters, and this Python has none.
    """
    entry: PlacementConfig | None = None
    empty = False
    for part in parts:
        if not isinstance(part, PlacementConfig):
            empty = False
            continue
        if entry is not None and empty:
            raise ValueError(
                f"The region {entry!r} has no stage ({callers_line()}): put stages between it and the next `to`."
            )
        entry = part if isinstance(part.target, ExecutorConfig) else None
        if isinstance(part.target, ExecutorConfig):
            check_interpreters(part.target)
        empty = True
    if entry is not None:
        raise ValueError(
            f"The region {entry!r} is not closed ({callers_line()}): call `to(MAIN_PROCESS)` behind its last stage."
        )
