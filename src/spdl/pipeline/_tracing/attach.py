"""Has a pipeline note what it does."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

from .traced_nodes import traced_kind
from .traced_sink import traced_sink_kind
from .traced_source import traced_source_kind
from .tracer import Tracer

if TYPE_CHECKING:
    from spdl.pipeline._engine.engine import Engine
    from spdl.pipeline._engine.node import Node
    from spdl.pipeline._engine.source import Source

    from .recorder import Recorder

__all__ = ["attach"]


def attach(engine: Engine, recorder: Recorder) -> None:
    """Have a pipeline that was not started tell a recorder what it does.

    Its parts become parts of traced kinds, which have the same fields. So the engine that is not traced has no line and
    no branch for it, and pays nothing.
    """
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
    # Whoever fills the sink has its entries at hand.
    parts: list[Source | Node] = [*engine.sources, *engine.nodes]
    for part in parts:
        if part.output is engine.sink:
            part.write_to(engine.sink, None)


def _become(part: Any, kind: Any) -> Any:
    part.__class__ = kind
    return part
