"""Read traces by Perfetto's own messages, and check what holds for every trace: slices nest."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Piece", "Row", "Trace", "read"]


@dataclass
class Piece:
    name: str
    begin: int
    end: int | None
    depth: int
    flows: frozenset[int]
    notes: dict[str, int | str]


@dataclass
class Row:
    name: str
    process: int
    thread: int | None
    pieces: list[Piece] = field(default_factory=list)

    def named(self, name: str) -> list[Piece]:
        return [piece for piece in self.pieces if piece.name == name]


@dataclass
class Trace:
    processes: dict[int, str] = field(default_factory=dict)
    rows: dict[int, Row] = field(default_factory=dict)
    counters: dict[str, list[tuple[int, int]]] = field(default_factory=lambda: defaultdict(list))

    def named(self, name: str) -> list[Piece]:
        return [piece for row in self.rows.values() for piece in row.named(name)]

    def row(self, beginning: str) -> Row:
        (row,) = (row for row in self.rows.values() if row.name.startswith(beginning))
        return row

    def flows(self) -> dict[int, list[Piece]]:
        """Return the slices of each flow, in the order of time."""
        found: dict[int, list[Piece]] = defaultdict(list)
        for row in self.rows.values():
            for piece in row.pieces:
                for flow in piece.flows:
                    found[flow].append(piece)
        return {flow: sorted(pieces, key=lambda piece: piece.begin) for flow, pieces in found.items()}


def read(path: Path) -> Trace:
    """Return a trace. Whatever is wrong with it fails an assertion."""
    messages = pytest.importorskip(
        "perfetto.protos.perfetto.trace.perfetto_trace_pb2", reason="needs the package perfetto"
    )
    whole: Any = messages.Trace()
    data = path.read_bytes()
    assert whole.ParseFromString(data) == len(data)
    event_type = messages.TrackEvent.Type
    trace = Trace()
    counters: dict[int, str] = {}
    open_: dict[int, list[Piece]] = defaultdict(list)
    latest: dict[int, int] = {}
    for packet in whole.packet:
        assert packet.trusted_packet_sequence_id
        _check_all_is_known(packet)
        if packet.HasField("track_descriptor"):
            _describe(trace, counters, packet.track_descriptor)
            continue
        assert packet.HasField("track_event")
        event, track = packet.track_event, packet.track_event.track_uuid
        if event.type == event_type.TYPE_COUNTER:
            trace.counters[counters[track]].append((packet.timestamp, event.counter_value))
            continue
        # Of a track that was described before, and in the order of time.
        row = trace.rows[track]
        assert packet.timestamp >= latest.get(track, 0)
        latest[track] = packet.timestamp
        if event.type == event_type.TYPE_SLICE_END:
            open_[track].pop().end = packet.timestamp
            continue
        piece = _piece(packet, depth=len(open_[track]))
        row.pieces.append(piece)
        if event.type == event_type.TYPE_INSTANT:
            piece.end = packet.timestamp
        else:
            assert event.type == event_type.TYPE_SLICE_BEGIN
            open_[track].append(piece)
    _check(trace)
    return trace


def _check_all_is_known(message: Any) -> None:
    """Check that each field has a number and an encoding that Perfetto knows: it drops others without a word."""
    unknown = pytest.importorskip("google.protobuf.unknown_fields").UnknownFieldSet(message)
    assert len(unknown) == 0, [(each.field_number, each.wire_type) for each in unknown]
    for descriptor, value in message.ListFields():
        if descriptor.message_type is not None:
            for each in [value] if hasattr(value, "ListFields") else value:
                _check_all_is_known(each)


def _describe(trace: Trace, counters: dict[int, str], track: Any) -> None:
    if track.HasField("process"):
        assert track.uuid not in trace.processes
        trace.processes[track.uuid] = track.process.process_name
        return
    if track.HasField("thread"):
        process, thread, name = track.thread.pid, track.thread.tid, track.thread.thread_name
    else:
        assert track.parent_uuid in trace.processes
        process, thread, name = track.parent_uuid >> 32, None, track.name
    assert track.uuid not in trace.rows
    assert track.uuid not in counters
    if track.HasField("counter"):
        counters[track.uuid] = name
    else:
        trace.rows[track.uuid] = Row(name, process, thread)


def _piece(packet: Any, *, depth: int) -> Piece:
    event = packet.track_event
    flows = frozenset(event.flow_ids)
    assert len(flows) == len(event.flow_ids)
    assert not event.terminating_flow_ids
    notes = {
        note.name: note.int_value if note.HasField("int_value") else note.string_value
        for note in event.debug_annotations
    }
    return Piece(event.name, packet.timestamp, None, depth, flows, notes)


def _check(trace: Trace) -> None:
    for row in trace.rows.values():
        # Slices nest: those of a depth follow each other, and lie within one of the depth above.
        for depth in {piece.depth for piece in row.pieces}:
            same = [piece for piece in row.pieces if piece.depth == depth]
            for before, after in itertools.pairwise(same):
                assert before.end is not None
                assert before.begin <= before.end <= after.begin, row
