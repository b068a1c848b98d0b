"""The counters of a channel at one moment, together with what its ends have counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl.pipeline._metrics.counters import STARVED
from spdl.pipeline._metrics.records import QueueRecord
from spdl.pipeline._world import perf_counter

from .source import Source

if TYPE_CHECKING:
    from .channel import Channel
    from .engine import Engine
    from .node import Node

__all__ = ["channel_counts"]


def channel_counts(engine: Engine, writer: Node | Source, channel: Channel, reader: Node | None) -> QueueRecord:
    """Return what was counted of a channel until now, or until the pipeline ended.

    Args:
        engine: The engine.
        writer: What fills the channel.
        channel: The channel.
        reader: The stage that takes from it; None is the consumer.
    """
    now = engine.stopped_at or perf_counter()
    counters = channel.counters
    given = writer.counters.emitted
    if isinstance(writer, Source):
        put_seconds = writer.blocked_seconds(now)
    else:
        put_seconds = counters.put_seconds + sum(max(0.0, now - since) for since in counters.late)
        given -= 0 if writer.order is None else writer.order.buffered
    get_seconds = counters.get_seconds
    puts, gets = counters.put_times.counts.copy(), counters.get_times.counts.copy()
    occupied = counters.occupied_seconds
    if reader is None:
        waiting = len(channel.entries)
        taken = given - waiting
        # Items whose wait was not noted have waited for nothing.
        gets[0] += max(0, taken - sum(gets))
        occupied += max(0.0, (now if waiting else counters.emptied_at) - (counters.filled_at or now))
    elif reader.counts_gets:
        stage = reader.counters
        taken = stage.completed + stage.failed + reader.running
        occupied += now - max(stage.got_at, counters.filled_at) if reader.queue else 0.0
        get_seconds = stage.waited(now)[STARVED]
    else:
        taken = counters.taken
        occupied += now - max(counters.got_at, counters.filled_at) if given > taken else 0.0
    if not isinstance(writer, Source):
        # As above.
        puts[0] += max(0, taken - sum(puts))
    return QueueRecord(now, taken, put_seconds, puts, get_seconds, gets, occupied)
