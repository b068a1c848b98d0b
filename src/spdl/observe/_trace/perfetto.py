"""The packets of a trace that https://ui.perfetto.dev shows.

The fields and their numbers are those of Perfetto's trace_packet.proto, track_event.proto, track_descriptor.proto and
debug_annotation.proto. Any row of packets is a whole trace, so those of several processes may follow each other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .protobuf import fixed64, integer, nested, text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["Packets"]

# TracePacket
_TIMESTAMP, _SEQUENCE, _EVENT, _TRACK = 8, 10, 11, 60
# TrackDescriptor; the first fields of ProcessDescriptor and ThreadDescriptor are the number of the process.
_UUID, _NAME, _PROCESS, _THREAD, _PARENT, _COUNTER = 1, 2, 3, 4, 5, 8
_PROCESS_NAME, _THREAD_ID, _THREAD_NAME = 6, 2, 5
# TrackEvent
_ANNOTATION, _TYPE, _ON_TRACK, _EVENT_NAME, _VALUE = 4, 9, 11, 23, 30
# It is of fixed size: as a varint it would be dropped without a word. No flow has to end, as no number comes again.
_FLOW = 47
_BEGIN, _END, _INSTANT, _COUNT = 1, 2, 3, 4
# DebugAnnotation
_KEY, _INT, _STRING = 10, 4, 6

_32_BITS = (1 << 32) - 1
# Flows of processes whose numbers are next to each other get numbers that are far apart.
_SPREAD = 0x9E3779B1


class Packets:
    """Makes the packets of one process.

    Args:
        process: The number of the process. It is in the numbers of tracks and flows, so that those of several processes
            differ.
    """

    def __init__(self, process: int) -> None:
        self._process = process
        self._sequence = integer(_SEQUENCE, process)

    def _packet(self, field: int, content: bytes, at: int | None = None) -> bytes:
        time = b"" if at is None else integer(_TIMESTAMP, at)
        return nested(1, time + self._sequence + nested(field, content))

    def _uuid(self, track: int) -> int:
        return self._process << 32 | track

    def process(self, name: str) -> bytes:
        """Describe the process, whose track has the number 0."""
        return self._packet(
            _TRACK,
            integer(_UUID, self._uuid(0)) + nested(_PROCESS, integer(1, self._process) + text(_PROCESS_NAME, name)),
        )

    def thread(self, track: int, thread_id: int, name: str) -> bytes:
        """Describe the track of a thread."""
        described = integer(1, self._process) + integer(_THREAD_ID, thread_id) + text(_THREAD_NAME, name)
        return self._packet(_TRACK, integer(_UUID, self._uuid(track)) + nested(_THREAD, described))

    def track(self, track: int, name: str) -> bytes:
        """Describe a track that is no thread's."""
        return self._packet(_TRACK, self._child(track, name))

    def counter(self, track: int, name: str) -> bytes:
        """Describe the track of a counter."""
        return self._packet(_TRACK, self._child(track, name) + nested(_COUNTER, b""))

    def _child(self, track: int, name: str) -> bytes:
        return integer(_UUID, self._uuid(track)) + integer(_PARENT, self._uuid(0)) + text(_NAME, name)

    def begin(
        self,
        track: int,
        at: int,
        name: str,
        flows: Iterable[int] = (),
        notes: Mapping[str, int | str] | None = None,
    ) -> bytes:
        """Begin a slice.

        Args:
            track: The number of the track.
            at: The time in nanoseconds.
            name: What the slice is called.
            flows: The numbers of the flows that go through it.
            notes: What else is shown of it.
        """
        return self._event(_BEGIN, track, at, self._described(name, flows, notes))

    def instant(self, track: int, at: int, name: str, flows: Iterable[int] = ()) -> bytes:
        """Note something that takes no time."""
        return self._event(_INSTANT, track, at, self._described(name, flows, None))

    def end(self, track: int, at: int) -> bytes:
        """End the slice that began last on a track and has not ended."""
        return self._event(_END, track, at)

    def count(self, track: int, at: int, value: int) -> bytes:
        """Note the value of a counter from now on."""
        return self._event(_COUNT, track, at, integer(_VALUE, value))

    def _event(self, kind: int, track: int, at: int, more: bytes = b"") -> bytes:
        return self._packet(_EVENT, integer(_TYPE, kind) + integer(_ON_TRACK, self._uuid(track)) + more, at)

    def _described(self, name: str, flows: Iterable[int], notes: Mapping[str, int | str] | None) -> bytes:
        parts = [text(_EVENT_NAME, name), *(fixed64(_FLOW, flow) for flow in flows)]
        for key, value in (notes or {}).items():
            shown = integer(_INT, value) if isinstance(value, int) else text(_STRING, value)
            parts.append(nested(_ANNOTATION, text(_KEY, key) + shown))
        return b"".join(parts)

    def flow(self, pipeline: int, root: int) -> int:
        """Return the number of the flow of a source item. No other item of the process has it."""
        return ((self._process * _SPREAD + pipeline) & _32_BITS) << 32 | root & _32_BITS
