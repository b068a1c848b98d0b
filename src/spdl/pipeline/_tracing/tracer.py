"""What the traced parts of one pipeline share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl.pipeline._world import perf_counter

from .recorder import Lanes, Slice

if TYPE_CHECKING:
    from .recorder import Recorder, ThreadTrack, Track

__all__ = ["Tracer"]


class Tracer:
    """Records what the parts of one pipeline do.

    Args:
        recorder: What keeps it.
        pipeline: The pipeline's number.
    """

    def __init__(self, recorder: Recorder, pipeline: int) -> None:
        self.recorder = recorder
        self.pipeline = pipeline
        self._queues: dict[str, int] = {}

    def thread(self) -> ThreadTrack:
        """Return the track of the current thread."""
        return self.recorder.thread()

    def lanes(self, name: str) -> Lanes:
        """Return tracks for what overlaps at a stage."""
        return Lanes(self.recorder, f"{name} ({self.pipeline})")

    def queue_name(self, stage: str) -> str:
        """Return what the queue in front of a stage is called. Stages may have the same name."""
        number = self._queues[stage] = self._queues.get(stage, 0) + 1
        return f"queue of {stage}{f' {number}' if number > 1 else ''} ({self.pipeline})"

    def begin(self, track: Track, name: str, roots: tuple[int, ...]) -> float:
        """Note what begins on a track, and return when."""
        now = perf_counter()
        track.begin(name, now, self.pipeline, roots)
        return now

    def end(self, track: Track, error: BaseException | None = None) -> None:
        """Record what went on there until now."""
        open_ = track.open
        if open_ is None:
            return
        track.end()
        kind = None if error is None else type(error).__name__
        self.recorder.add(
            Slice(track.number, open_.name, open_.begin, perf_counter(), self.pipeline, open_.roots, kind)
        )

    def instant(self, name: str, roots: tuple[int, ...]) -> None:
        """Record what took no time, on the current thread."""
        now = perf_counter()
        self.recorder.add(Slice(self.thread().number, name, now, now, self.pipeline, roots))
