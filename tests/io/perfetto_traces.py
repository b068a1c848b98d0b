"""Read traces as https://ui.perfetto.dev does: packets of Protocol Buffers, put together to rows of nested events."""

from __future__ import annotations

import struct
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

Message = dict[int, list[Any]]
"""The values of a message by the number of their field."""

CLOCKS, TIME, EVENT, TRACK = 6, 8, 11, 60
BEGIN, END, COUNTER = 1, 2, 4


def parse(data: bytes) -> Message:
    """Return the fields of a message. Those that are texts or messages are bytes."""
    fields: Message = defaultdict(list)
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == 0:
            value: Any
            value, at = _varint(data, at)
        elif kind == 1:
            (value,) = struct.unpack_from("<d", data, at)
            at += 8
        else:
            assert kind == 2, f"wire type {kind} at {at}"
            size, at = _varint(data, at)
            value = data[at : at + size]
            assert len(value) == size, "the message ends early"
            at += size
        fields[tag >> 3].append(value)
    return fields


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


@dataclass
class Event:
    """An event that has ended."""

    name: str
    begin: int
    end: int
    parents: tuple[str, ...]


@dataclass
class Row:
    """A thread of the trace."""

    name: str
    pid: int
    tid: int
    events: list[Event] = field(default_factory=list)
    open: list[tuple[str, int]] = field(default_factory=list)


@dataclass
class Trace:
    process: tuple[int, str] = (0, "")
    clocks: dict[int, int] = field(default_factory=dict)
    rows: dict[int, Row] = field(default_factory=dict)
    counters: dict[str, list[float]] = field(default_factory=dict)

    def row(self, name: str) -> Row:
        (row,) = (row for row in self.rows.values() if row.name == name)
        return row

    def events(self, name: str) -> list[Event]:
        return [event for row in self.rows.values() for event in row.events if event.name == name]


def packets(path: Path) -> Iterator[Message]:
    trace = parse(path.read_bytes())
    assert set(trace) == {1}
    yield from map(parse, trace[1])


def read(path: Path) -> Trace:
    """Return a trace, in which every event refers to a track that was described before."""
    trace = Trace()
    names: dict[int, str] = {}
    for packet in packets(path):
        for content in packet[TRACK]:
            _describe(trace, names, parse(content))
        for content in packet[CLOCKS]:
            clocks = map(parse, parse(content)[1])
            trace.clocks = {clock[1][0]: clock[2][0] for clock in clocks}
        for content in packet[EVENT]:
            (time,) = packet[TIME]
            _add(trace, names, parse(content), time)
    return trace


def _describe(trace: Trace, names: dict[int, str], track: Message) -> None:
    (number,) = track[1]
    if track[3]:
        process = parse(track[3][0])
        trace.process = (process[1][0], process[6][0].decode())
    elif track[4]:
        thread = parse(track[4][0])
        name = thread[5][0].decode()
        row = trace.rows.setdefault(number, Row(name, thread[1][0], thread[2][0]))
        row.name = name
    else:
        assert track[8] == [b""]
        names[number] = track[2][0].decode()


def _add(trace: Trace, names: dict[int, str], event: Message, time: int) -> None:
    ((kind,), (track,)) = event[9], event[11]
    if kind == COUNTER:
        whole = [value - 2**64 if value >= 2**63 else value for value in event[30]]
        trace.counters.setdefault(names[track], []).extend(whole + event[44])
        return
    row = trace.rows[track]
    if kind == BEGIN:
        row.open.append((event[23][0].decode(), time))
    else:
        assert kind == END
        name, begin = row.open.pop()
        row.events.append(Event(name, begin, time, tuple(outer for outer, _ in row.open)))
