"""Writes traces: what a recorder has, and one of each process into the folder that `spdl record` names."""

from __future__ import annotations

import atexit
import logging
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import IO

from spdl._files import replaced
from spdl._processes import TRACES, before_children_are_awaited
from spdl._program import command_words, program_name
from spdl._trace_file import Events, write_events
from spdl.pipeline._declare import defaults
from spdl.pipeline._report.recorder import MAX_EVENTS, Open, Recorder, Slice, Track
from spdl.pipeline._stages.tracing import WAIT

_32_BITS = (1 << 32) - 1
# Ways of processes whose numbers are next to each other get numbers that are far apart.
_SPREAD = 0x9E3779B1


def write_trace(recorder: Recorder, file: IO[bytes]) -> None:
    """Write what was recorded until now as the content of a trace, in which events that go on have no end."""
    write_events(file, _Trace(recorder).all_events())


class _Trace:
    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._events = Events()
        # The number of each way, and when it begins.
        self._ways: dict[tuple[int, int], tuple[int, float]] = {}

    def all_events(self) -> Iterator[str]:
        rank = os.environ.get("RANK", os.environ.get("LOCAL_RANK"))
        name = program_name(command_words())
        yield from self._events.of_process(name if rank is None else f"{name}, rank {rank}")
        by_track: dict[int, list[Slice]] = defaultdict(list)
        for piece in self._recorder.slices():
            by_track[piece.track].append(piece)
            self._note_ways(piece)
        tracks = [(track, track.open) for track in self._recorder.tracks()]
        for _, open_ in tracks:
            if open_ is not None:
                self._note_ways(open_)
        for track, open_ in tracks:
            pieces = by_track[track.number]
            if pieces or open_ is not None:
                yield from self._of_track(track, pieces, open_)
        for queue, at, items in self._recorder.counts():
            yield self._events.count(queue, self._events.at(at), "items", items)

    def _note_ways(self, piece: Slice | Open) -> None:
        for root in piece.roots:
            way = piece.pipeline, root
            number, begin = self._ways.get(way, (0, piece.begin))
            if not number:
                number = ((self._events.process * _SPREAD + piece.pipeline) & _32_BITS) << 32 | root & _32_BITS
            self._ways[way] = number, min(begin, piece.begin)

    def _of_track(self, track: Track, pieces: list[Slice], open_: Open | None) -> Iterator[str]:
        """Yield the events of a track: its slices nest."""
        events = self._events
        row = events.row(track.number, track.thread_id)
        yield events.of_row(row, track.name)
        ends: list[float] = []
        for piece in sorted(pieces, key=lambda piece: (piece.begin, -piece.end)):
            while ends and ends[-1] <= piece.begin:
                ends.pop()
            at = events.at(piece.begin)
            if piece.begin == piece.end:
                yield events.instant(row, piece.name, at)
            else:
                ends.append(min(piece.end, ends[-1]) if ends else piece.end)
                yield events.span(row, piece.name, at, events.at(ends[-1]), self._notes(piece, piece.error))
            yield from self._places(row, at, piece)
        if open_ is not None:
            at, notes = events.at(open_.begin), self._notes(open_, None)
            ended_at = self._recorder.ended_at(open_.pipeline)
            if open_.name == WAIT and ended_at is not None:
                # There were no more items, so none was taken.
                yield events.span(row, open_.name, at, events.at(max(open_.begin, ended_at)), notes)
            else:
                yield events.begin(row, open_.name, at, notes)
            yield from self._places(row, at, open_)

    def _notes(self, piece: Slice | Open, error: str | None) -> dict[str, int | str]:
        notes: dict[str, int | str] = {"pipeline": piece.pipeline}
        if piece.roots:
            notes["item"] = self._recorder.position(piece.pipeline, piece.roots[0])
        if len(piece.roots) > 1:
            notes["items"] = len(piece.roots)
        if error is not None:
            notes["error"] = error
        return notes

    def _places(self, row: int, at: int, piece: Slice | Open) -> Iterator[str]:
        for root in piece.roots:
            number, begin = self._ways[piece.pipeline, root]
            yield self._events.on_way(row, at, number, first=piece.begin == begin)


_LOG = logging.getLogger("spdl.observe")

SUFFIX = ".json"


def record_into_folder(folder: str) -> None:
    """Record the pipelines that are built from now on, and write the trace into a folder when this process ends."""
    recorder = Recorder(MAX_EVENTS)
    if not defaults.claim_recorder(recorder):
        return
    process = os.getpid()
    _forget_in_children()

    def finish() -> None:
        if os.getpid() != process or recorder.closed:
            return
        recorder.close()
        # Numbers of processes are given again.
        whole = Path(folder, f"{process}-{time.time_ns()}{SUFFIX}")
        try:
            with replaced(whole) as file:
                write_trace(recorder, file)
        except OSError as error:
            _LOG.warning("The trace of process %s could not be written: %s", process, error)

    # Functions registered later, such as the end of pipelines, run first.
    atexit.register(finish)
    before_children_are_awaited(finish, TRACES)


@cache
def _forget_in_children() -> None:
    os.register_at_fork(after_in_child=defaults.release_recorder)
