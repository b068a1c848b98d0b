"""Has a pipeline note what it does."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from .engines import engines
from .traced_nodes import traced_kind
from .traced_sink import traced_sink_kind
from .traced_source import traced_source_kind
from .tracer import Tracer

if TYPE_CHECKING:
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.node import Node
    from spdl.pipeline._engine.source import Source

    from .recorder import Recorder

__all__ = ["attach", "attach_all", "detach_all"]


def attach(engine: Engine, recorder: Recorder) -> bool:
    """Have a pipeline tell a recorder what it does, from now on. It may run already.

    Its parts become parts of traced kinds, which have the same fields. So the engine that is not traced has no line and
    no branch for it, and pays nothing. A call that goes on is not seen, as it has begun before.

    It does not if the recorder keeps nothing more, or if it has been told to stop.

    Returns:
        Whether it does, and runs.
    """
    with engine.lock:
        if recorder.closed or engine.stopping or engine.forked:
            return False
        if (tracer := _tracer(engine)) is not None:
            if tracer.recorder is recorder:
                return _runs(engine)
            # There is one recorder at a time, so the other one keeps nothing more.
            _detach(engine)
        _attach(engine, recorder)
        return _runs(engine)


def _runs(engine: Engine) -> bool:
    return engine.started_at > 0 and not engine.done


def attach_all(recorder: Recorder) -> int:
    """Attach a recorder to all pipelines, and return how many run. Those that are built meanwhile do it themselves."""
    return sum(attach(engine, recorder) for engine in engines())


def detach_all(recorder: Recorder) -> None:
    """Have all pipelines tell a recorder nothing more, and be what they were before. It was closed."""
    for engine in engines():
        with engine.lock:
            if (tracer := _tracer(engine)) is not None and tracer.recorder is recorder:
                _detach(engine)


def _tracer(engine: Engine) -> Tracer | None:
    return getattr(engine.sink, "tracer", None)


def _attach(engine: Engine, recorder: Recorder) -> None:
    # The recorder lives longer than a pipeline should.
    found = weakref.ref(engine)

    def ended_at() -> float | None:
        engine = found()
        if engine is None:
            return 0.0
        return engine.stopped_at or None

    recorder.add_pipeline(engine.pipeline_id, engine.lineage.sources, ended_at)
    tracer = Tracer(recorder, engine.pipeline_id)
    for source in engine.sources:
        _become(source, traced_source_kind(source, tracer))
    for node in engine.nodes:
        if node.is_stage and (kind := traced_kind(node, tracer)) is not None:
            _become(node, kind).begin_tracing()
    _become(engine.sink, traced_sink_kind(tracer)).begin_tracing()
    _take_entries_at_hand(engine)


def _detach(engine: Engine) -> None:
    traced: list[Any] = [*engine.nodes, engine.sink]
    for part in traced:
        if hasattr(part, "end_tracing"):
            part.end_tracing()
            _become(part, part.untraced)
    sources: list[Any] = list(engine.sources)
    for source in sources:
        _become(source, source.untraced)
    _take_entries_at_hand(engine)


def _take_entries_at_hand(engine: Engine) -> None:
    # Whoever fills the sink has its entries at hand.
    parts: list[Source | Node] = [*engine.sources, *engine.nodes]
    for part in parts:
        if part.output is engine.sink:
            part.write_to(engine.sink, None)


def _become(part: Any, kind: Any) -> Any:
    part.__class__ = kind
    return part
