"""The state of a pipeline: what was received, so that another one goes on from there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl._locate import callers_line
from spdl.pipeline._declare.fingerprint import stages_of
from spdl.pipeline._engine.checkpoint import load, load_ranks, take

from .in_hand import in_hand
from .seal import sealed
from .state import (
    VERSION,
    check_state,
    compare_fingerprints,
    ranks_of,
    refuse_state,
    source_fingerprints,
    warn_of_dropped,
    warn_of_replay,
)

if TYPE_CHECKING:
    from spdl.pipeline._declare.records import PipelineConfig
    from spdl.pipeline._engine.engine import Engine

__all__ = ["Resumable"]


class Resumable:
    """What `Pipeline` offers to those who stop and go on later."""

    _engine: Engine
    _started: bool
    _claims: dict[str, object]

    def __init__(self, declared: PipelineConfig[Any] | None) -> None:
        # Until the start: then what is the user's belongs to the stages.
        self._declared = declared
        self._graph = [] if declared is None else stages_of(declared)
        self._sources: list[Any] | None = None

    def state_dict(self) -> dict[str, Any]:
        """Return which items have been received, so that a pipeline built the same way can go on from there.

        An item counts as received when ``next()`` or `get_item` has returned it. Nothing is kept for this per item: the
        state is made when it is asked for, in some ten microseconds. It may be asked for at any time: between two
        items, from any thread, in an op, in a signal handler, before the start and after the end.

        Returns:
            A dict that `json` can write, usually of less than 1 kB; see `load_state_dict`. What the source's own
            ``state_dict()`` returns is a part of it, if the source has one.

        Raises:
            RuntimeError: In a forked child; or if an aggregator has returned a result and may have kept something back
                that the state knows nothing of. The message says what to do.

        Example:
            >>> from spdl.pipeline import PipelineBuilder
            >>> def build():
            ...     return PipelineBuilder().add_source(range(6)).pipe(lambda x: 10 * x).add_sink().build(num_threads=1)
            >>> with build().auto_stop() as pipeline:
            ...     print(pipeline.get_item(), pipeline.get_item())
            ...     state = pipeline.state_dict()
            0 10
            >>> resumed = build()
            >>> resumed.load_state_dict(state)
            >>> with resumed.auto_stop():
            ...     print(list(resumed))
            [20, 30, 40, 50]
        """
        engine = self._engine
        if engine.forked:
            raise RuntimeError("The pipeline runs in the parent of this process, which alone knows what was received.")
        fingerprint = self._fingerprint()
        if not self._started:
            for source in engine.sources:
                source.note_state()
            for node in engine.nodes:
                node.note_state()
        for node in engine.nodes:
            if (inexact := node.inexact()) is not None:
                raise RuntimeError(f"{inexact} ({callers_line()})")
        with engine.lock:
            taken = take(engine, in_hand(self))
        return sealed({"spdl": "pipeline", "version": VERSION, "fingerprint": fingerprint, **taken})

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where a state was taken. Call it before the pipeline starts.

        The pipeline then delivers the items that had not been received: if the stages keep the order, that very
        sequence. See the page on resuming for what is exact and what is asked of ops and sources.

        Args:
            state: What `state_dict` returned, also if it went through JSON. It must come from a pipeline of the same
                stages and source. Concurrencies, orders, batch sizes and policies may differ.

        Raises:
            TypeError: If the state is no dict.
            ValueError: If the state is damaged, newer than this version of the package, or of another pipeline or
                source. The pipeline is then as it was.
            RuntimeError: If the pipeline was started already.
        """
        engine = self._engine
        check_state("state", state, "pipeline")
        if self._started or self._claims:
            raise RuntimeError(
                "The pipeline was started already: load the state before the first read. A pipeline runs once, so "
                "build another one for another state."
            )
        ranks = ranks_of("state", state, "pipeline")
        for each in ranks or [state]:
            compare_fingerprints(each.get("fingerprint"), self._fingerprint())
        try:
            if ranks:
                load_ranks(engine, ranks)
            else:
                load(engine, state, self._changes_counts)
        except ValueError as error:
            refuse_state("state", f"cannot be loaded: {error}")
        for node in engine.nodes:
            node.start_afresh()
        warn_of_replay(engine)
        warn_of_dropped(engine)

    def _changes_counts(self) -> str | None:
        from spdl.pipeline._declare.counts import changes_counts  # noqa: PLC0415 - only if other ranks go on.

        assert self._declared is not None
        return changes_counts(self._declared)

    def _fingerprint(self) -> dict[str, Any]:
        """Return what a state is compared by: the stages' names, and what the sources are known by."""
        if self._sources is None:
            self._sources = source_fingerprints(self._engine)
        return {"stages": self._graph, "sources": self._sources}
