"""Sources that are traced: when which thread pulled which item."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from spdl.pipeline._engine.source import Source

from .recorder import Slice

if TYPE_CHECKING:
    from .recorder import Track
    from .tracer import Tracer

__all__ = ["traced_source_kind"]


class _TracedSource(Source):
    """A source whose pulls are recorded. Each is of a class of its own, which holds what would be fields of others."""

    __slots__ = ()

    tracer: ClassVar[Tracer]
    untraced: ClassVar[type[Source]]
    # The row of pulls that the event loop awaits: other things happen on its thread meanwhile.
    awaited: ClassVar[Track]

    def pull(self, hand: list[Any]) -> int | None:
        # Meanwhile the lock is released, and tracing may end.
        tracer = self.tracer
        track = tracer.thread()
        begin = tracer.begin(track, self.name, ())
        root = super().pull(hand)
        track.end()
        _record(self, tracer, track, begin, root)
        return root

    def put(self, root: int, value: Any) -> None:
        if self.on_loop:
            _record(self, self.tracer, self.awaited, self.pulling_since, root)
        super().put(root, value)


def _record(source: Source, tracer: Tracer, track: Track, begin: float, root: int | None) -> None:
    roots = () if root is None else (root,)
    piece = Slice(track.number, source.name, begin, max(begin, source.pulled_at), tracer.pipeline, roots)
    tracer.recorder.add(piece)


def traced_source_kind(source: Source, tracer: Tracer) -> type[_TracedSource]:
    """Return what a source of this kind becomes where it is traced."""
    fields: dict[str, Any] = {"__slots__": (), "tracer": tracer, "untraced": type(source)}
    if source.on_loop:
        fields["awaited"] = tracer.recorder.add_track(f"{source.name} ({tracer.pipeline})")
    made: Any = type(f"Traced{type(source).__name__}", (_TracedSource, type(source)), fields)
    kind: type[_TracedSource] = made
    return kind
