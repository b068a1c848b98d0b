"""Writes what was recorded as a trace."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from typing import TYPE_CHECKING

from spdl._program import command_words, program_name
from spdl.pipeline._tracing.traced_sink import WAIT

from .perfetto import Packets

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import BinaryIO

    from spdl.pipeline._tracing.recorder import Count, Open, Recorder, Slice

__all__ = ["write_trace"]

# Behind the numbers of tracks that are no counters.
_COUNTERS = 1 << 31
_NANOSECONDS = 1_000_000_000


def write_trace(recorder: Recorder, file: BinaryIO) -> None:
    """Write what was recorded until now as a trace of this process.

    What goes on has a beginning and no end there.

    Raises:
        OSError: If it cannot be written.
    """
    packets = Packets(os.getpid())
    file.write(packets.process(program_name(command_words())))
    by_track: dict[int, list[Slice]] = defaultdict(list)
    for piece in recorder.slices():
        by_track[piece.track].append(piece)
    writer = _Writer(recorder, packets)
    for track in recorder.tracks():
        pieces, open_ = by_track[track.number], track.open
        if not pieces and open_ is None:
            continue
        if track.thread_id is None:
            file.write(packets.track(track.number, track.name))
        else:
            file.write(packets.thread(track.number, track.thread_id, track.name))
        file.writelines(writer.slices(track.number, pieces, open_))
    file.writelines(writer.counts(recorder.counts()))


class _Writer:
    def __init__(self, recorder: Recorder, packets: Packets) -> None:
        self._recorder = recorder
        self._packets = packets
        # Perfetto's clock counts while the machine sleeps, where there is such a clock.
        clock = getattr(time, "CLOCK_BOOTTIME", None)
        self._offset = 0.0 if clock is None else time.clock_gettime(clock) - time.perf_counter()

    def _time(self, seconds: float) -> int:
        return round((seconds + self._offset) * _NANOSECONDS)

    def slices(self, track: int, pieces: Sequence[Slice], open_: Open | None) -> Iterator[bytes]:
        """Yield the packets of a track: its slices nest."""
        ends: list[float] = []
        for piece in sorted(pieces, key=lambda piece: (piece.begin, -piece.end)):
            while ends and ends[-1] <= piece.begin:
                yield self._packets.end(track, self._time(ends.pop()))
            if piece.begin == piece.end:
                yield self._packets.instant(
                    track, self._time(piece.begin), piece.name, self._flows(piece.pipeline, piece.roots)
                )
                continue
            ends.append(min(piece.end, ends[-1]) if ends else piece.end)
            yield self._begin(track, piece, piece.error)
        while ends:
            yield self._packets.end(track, self._time(ends.pop()))
        if open_ is not None:
            yield self._begin(track, open_, None)
            ended_at = self._recorder.ended_at(open_.pipeline)
            if open_.name == WAIT and ended_at is not None:
                # Nothing came any more, so nobody took an item.
                yield self._packets.end(track, self._time(max(open_.begin, ended_at)))

    def _begin(self, track: int, piece: Slice | Open, error: str | None) -> bytes:
        notes: dict[str, int | str] = {"pipeline": piece.pipeline}
        if piece.roots:
            notes["item"] = self._recorder.position(piece.pipeline, piece.roots[0])
        if len(piece.roots) > 1:
            notes["items"] = len(piece.roots)
        if error is not None:
            notes["error"] = error
        return self._packets.begin(
            track,
            self._time(piece.begin),
            piece.name,
            self._flows(piece.pipeline, piece.roots),
            notes,
        )

    def _flows(self, pipeline: int, roots: Sequence[int]) -> list[int]:
        return [self._packets.flow(pipeline, root) for root in roots]

    def counts(self, counts: Sequence[Count]) -> Iterator[bytes]:
        """Yield the packets of the queues."""
        tracks: dict[str, int] = {}
        for queue, at, items in counts:
            if queue not in tracks:
                tracks[queue] = _COUNTERS + len(tracks)
                yield self._packets.counter(tracks[queue], queue)
            yield self._packets.count(tracks[queue], self._time(at), items)
