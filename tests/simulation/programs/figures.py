"""Reads the lines that a pipeline logs about its queues, and compares them with what was seen of these."""

from __future__ import annotations

import contextlib
import logging
import re
from typing import TYPE_CHECKING

from .places import PipePlace, SinkPlace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .rest import Rest

__all__ = ["compare_queues", "listening"]

_LINE = re.compile(
    r"\[[^\]]*:(?P<name>[^:\[\]]+)(\[\d+\])?_queue\]\t"
    r"Processed +(?P<items>\d+) items in +(?P<elapsed>\S+ \[ ?\w+\]) .*?"
    r"put: +(?P<put>\S+ \[ ?\w+\]), .*Occupancy rate: (?P<rate>\d+)%"
)
_UNITS = {"us": 1e-6, "ms": 1e-3, "sec": 1.0}
# How far a line may be from what was seen: it is rounded, and reading a clock takes time.
_SECONDS, _SHARE = 4e-3, 0.06
# How far a mean may be rounded, in seconds, and from which share in percent on a queue counts as always occupied.
_ROUNDED, _FULL = 6e-5, 97


@contextlib.contextmanager
def listening(lines: list[str]) -> Iterator[None]:
    """Collect the lines on queues."""
    logger = logging.getLogger("spdl.pipeline.queues")
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign] # The only use.
    level, disabled = logger.level, logging.root.manager.disable
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logging.disable(logging.NOTSET)
    try:
        yield
    finally:
        logging.disable(disabled)
        logger.propagate = True
        logger.setLevel(level)
        logger.removeHandler(handler)


def compare_queues(lines: list[str], rest: Rest) -> list[str]:
    """Return where the lines on the queues behind stages are not what was seen of a program that was timed."""
    findings = []
    for match in filter(None, map(_LINE.match, lines)):
        place = rest.pipes.get(match["name"])
        reader = rest.sink if match["name"] == "sink" else None if place is None else place.following
        if not isinstance(reader, PipePlace | SinkPlace) or not _is_seen(reader):
            continue
        seen, items, elapsed = rest.queues[reader], int(match["items"]), _seconds(match["elapsed"])
        occupied, put = int(match["rate"]) / 100 * elapsed, _seconds(match["put"]) * items
        # What lies in front of the consumer after the end does not count, nor does more than all of the time.
        share_known = int(match["rate"]) < _FULL and seen.occupied < _FULL / 100 * elapsed
        if share_known and abs(occupied - seen.occupied) > _SECONDS + 0.01 * elapsed + _SHARE * seen.occupied:
            findings.append(f"something lay in a queue for {seen.occupied:.4f} s: {match[0]}")
        # The consumer need not say at once that it has made room, and what waits for it after the end does not count.
        if isinstance(reader, PipePlace) and put < seen.late / 2 - _SECONDS - _ROUNDED * items:
            findings.append(f"results waited for a place in a queue for {seen.late:.4f} s: {match[0]}")
    return findings


def _is_seen(reader: PipePlace | SinkPlace) -> bool:
    """Return whether it is always known what lies in front of a stage or the consumer."""
    if len(reader.feeders) != 1 or (isinstance(reader, PipePlace) and reader.pipe.op.is_generator):
        return False
    feeder = reader.feeders[0]
    return isinstance(feeder, PipePlace) and not feeder.pipe.op.is_generator and feeder.order_is_seen()


def _seconds(text: str) -> float:
    number, unit = text.replace("[", "").replace("]", "").split()
    return float(number) * _UNITS[unit]
