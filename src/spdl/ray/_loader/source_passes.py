"""The passes over the driver's own copy of the source, which is never iterated while the actors do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spdl._check import refuse
from spdl.pipeline._declare.records import PipelineConfig, SourceConfig
from spdl.pipeline._engine.resumption import has_state, how_to_seek, offers

__all__ = ["SourcePasses", "seekable_source"]

# No pass has such a position.
_BEYOND = 1 << 60


def seekable_source(config: PipelineConfig[Any]) -> Any:
    """Return the source of a pipeline.

    Raises:
        ValueError: If there are several, or if it cannot begin at any position.
    """
    if not isinstance(config.src, SourceConfig):
        remedy = "Merge the sources below the pipeline, by `MergeIterator` or `MixedOrder` of spdl.source."
        refuse(ValueError, "config", "a pipeline with one source", config.src, remedy)
    source = config.src.source
    if hasattr(source, "__aiter__") or how_to_seek(source) == "replay":
        refuse(
            ValueError,
            "config",
            "a pipeline whose source can begin at any position, since each actor takes a part of the positions: a "
            "sequence, or an iterable with a method `iterate_from(position)`, such as EpochSampler",
            source,
            "" if not hasattr(source, "__len__") or isinstance(source, Sequence) else "If it is short, make a list.",
        )
    return source


class SourcePasses:
    """What a source says of itself before each pass.

    Args:
        source: The source.
    """

    def __init__(self, source: Any) -> None:
        self.source = source

    def state(self) -> Any:
        """Return what the source says of itself before the next pass; None if it says nothing."""
        if not has_state(self.source):
            return None
        if offers(self.source, "advance_state"):
            # For a sampler, a pass that was left is under way until an iterator over the next one is asked for.
            iter(self.source)
        return self.source.state_dict()

    def load(self, state: Any) -> None:
        """Bring the source to a state."""
        if state is not None and has_state(self.source):
            self.source.load_state_dict(state)

    def advance(self, state: Any) -> None:
        """Bring the source from the state before a pass to that behind it."""
        if not has_state(self.source):
            return
        self.load(state)
        # A pass that begins behind its last item ends at once, and the source has got through it.
        if offers(self.source, "iterate_from", "advance_state"):
            rest = self.source.iterate_from(_BEYOND)
        elif offers(self.source, "iterate_from", "__len__"):
            rest = self.source.iterate_from(len(self.source))
        else:
            rest = self.source
        for _ in rest:
            pass
