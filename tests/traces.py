"""Read traces by the rules of the Trace Event Format, as programs that show them do. What breaks a rule is an error."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

__all__ = ["Piece", "Row", "Trace", "parse", "read"]

KINDS = {
    "M": {"pid", "name", "args"},
    "X": {"ts", "dur", "pid", "tid", "name"},
    "B": {"ts", "pid", "tid", "name"},
    "E": {"ts", "pid", "tid"},
    "i": {"ts", "pid", "tid", "name", "s"},
    "s": {"ts", "pid", "tid", "cat", "name", "id"},
    "t": {"ts", "pid", "tid", "cat", "name", "id"},
    "C": {"ts", "pid", "name", "args"},
}
"""What each kind of event has. Spans may have notes (`args`), and names of rows the number of a thread (`tid`)."""
OPTIONAL = {"M": {"tid"}, "X": {"args"}, "B": {"args"}}


@dataclass
class Piece:
    """What happened on a row. Times are in microseconds; the end is None if it goes on."""

    name: str
    begin: float
    end: float | None
    parents: tuple[str, ...]
    notes: dict[str, Any]
    flows: set[int] = field(default_factory=set)


@dataclass
class Row:
    """A row of a process. The thread is None if it shows none."""

    name: str
    process: int
    thread: int | None
    pieces: list[Piece] = field(default_factory=list)

    def named(self, name: str) -> list[Piece]:
        return [piece for piece in self.pieces if piece.name == name]

    def names(self) -> list[str]:
        return [piece.name for piece in self.pieces]


@dataclass
class Trace:
    processes: dict[int, str] = field(default_factory=dict)
    labels: dict[int, str] = field(default_factory=dict)
    rows: dict[tuple[int, int], Row] = field(default_factory=dict)
    counters: dict[str, list[tuple[float, Any]]] = field(default_factory=lambda: defaultdict(list))

    def named(self, name: str) -> list[Piece]:
        return [piece for row in self.rows.values() for piece in row.named(name)]

    def row(self, beginning: str) -> Row:
        (row,) = (row for row in self.rows.values() if row.name.startswith(beginning))
        return row

    def flows(self) -> dict[int, list[Piece]]:
        """Return the pieces of each flow, in the order of time."""
        found: dict[int, list[Piece]] = defaultdict(list)
        for row in self.rows.values():
            for piece in row.pieces:
                for flow in piece.flows:
                    found[flow].append(piece)
        return {flow: sorted(pieces, key=lambda piece: piece.begin) for flow, pieces in found.items()}


def read(path: Path) -> Trace:
    """Return a trace, whose file is compressed if its name says so."""
    data = path.read_bytes()
    assert data.startswith(b"\x1f\x8b") == (path.suffix == ".gz")
    return parse(gzip.decompress(data) if path.suffix == ".gz" else data)


def parse(content: bytes) -> Trace:
    events = json.loads(content, parse_constant=_refuse)
    assert isinstance(events, list)
    # Programs tell the kind of file by how it begins.
    assert b"".join(content[:20].split()).startswith(b'[{"')
    for event in events:
        _check(event)
    trace = Trace()
    for event in events:
        if event["ph"] == "M":
            _describe(trace, event)
    _check_places(events)
    # As all programs do: in the order of time, and of the file where that is the same.
    _Reading(trace).read(sorted((event for event in events if event["ph"] != "M"), key=lambda event: event["ts"]))
    return trace


def _refuse(constant: str) -> NoReturn:
    raise AssertionError(f"JSON has no {constant}")


def _check(event: dict[str, Any]) -> None:
    kind = event["ph"]
    found = set(event) - {"ph"}
    assert KINDS[kind] <= found <= KINDS[kind] | OPTIONAL.get(kind, set()), event
    for key, value in event.items():
        if key in ("pid", "tid"):
            assert type(value) is int
            assert 0 <= value < 1 << 32
        elif key in ("ts", "dur"):
            # A whole number of nanoseconds, however it is computed from a number with a fraction.
            assert type(value) in (int, float)
            assert value >= 0
            assert int(value * 1000.0) * 8 == value * 8000
        elif key == "args":
            assert value
            assert all(type(each) in (int, float, str) for each in value.values())
        else:
            assert type(value) is str
    assert event.get("s", "t") == "t"


def _describe(trace: Trace, event: dict[str, Any]) -> None:
    process, args = event["pid"], event["args"]
    if event["name"] == "process_name":
        assert process not in trace.processes
        trace.processes[process] = args["name"]
    elif event["name"] == "process_labels":
        trace.labels[process] = args["labels"]
    else:
        assert event["name"] == "thread_name"
        row = process, event["tid"]
        assert row not in trace.rows
        trace.rows[row] = Row(args["name"], process, None if event["tid"] >> 31 else event["tid"])


def _check_places(events: Sequence[dict[str, Any]]) -> None:
    """Check that each place on a way stands behind what it is a place of, and that rows have one kind of spans.

    What ends by an event of its own has no end for Perfetto if it takes no time and comes after what has a duration.
    """
    ended = {(event["pid"], event["tid"]) for event in events if event["ph"] == "E"}
    assert not ended & {(event["pid"], event["tid"]) for event in events if event["ph"] == "X"}
    latest: dict[tuple[int, int], dict[str, Any]] = {}
    for event in events:
        if event["ph"] in "st":
            assert latest[event["pid"], event["tid"]]["ts"] == event["ts"]
        elif event["ph"] in "XBi":
            latest[event["pid"], event["tid"]] = event


class _Reading:
    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        self._open: dict[tuple[int, int], list[Piece]] = defaultdict(list)
        self._begun: set[int] = set()

    def read(self, events: Iterable[dict[str, Any]]) -> None:
        for event in events:
            kind, at = event["ph"], event["ts"]
            if kind == "C":
                for unit, value in event["args"].items():
                    self._trace.counters[f"{event['name']} {unit}"].append((at, value))
                continue
            # Of a row that is described.
            row = self._trace.rows[event["pid"], event["tid"]]
            open_ = self._open[event["pid"], event["tid"]]
            if kind in "st":
                self._add_place(int(event["id"], 16), row.pieces[-1], first=kind == "s")
                continue
            while open_ and open_[-1].end is not None and open_[-1].end <= at:
                open_.pop()
            if kind == "E":
                ended = open_.pop()
                assert ended.end is None, event
                ended.end = at
                continue
            end = {"X": at + event.get("dur", 0.0), "i": at, "B": None}[kind]
            if open_ and open_[-1].end is not None:
                # What is within another one ends no later.
                assert end is not None
                assert end <= open_[-1].end, event
            piece = Piece(event["name"], at, end, tuple(each.name for each in open_), event.get("args", {}))
            row.pieces.append(piece)
            if kind != "i":
                open_.append(piece)
        for before, after in ((a, b) for row in self._trace.rows.values() for a, b in pairwise(row.pieces)):
            assert before.begin <= after.begin

    def _add_place(self, way: int, piece: Piece, *, first: bool) -> None:
        assert first == (way not in self._begun)
        assert way not in piece.flows
        self._begun.add(way)
        piece.flows.add(way)
