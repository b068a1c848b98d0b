"""The metrics that are exported: their names, units and meanings, and where their values come from.

The names follow OpenTelemetry's conventions: singular, without the unit, which is written by UCUM.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from spdl.pipeline import PipelineStatistics, StageStatistics

__all__ = ["METRICS", "Metric", "Point"]


class Point(NamedTuple):
    """One value of a metric.

    Attributes:
        stage: The stage's name; None for a value of the whole pipeline.
        place: The place of the stage among the pipeline's, since several may have the same name.
        direction: What the stage waited for, where the metric tells.
        value: The value.
    """

    stage: str | None
    place: int
    direction: str | None
    value: float


class Metric(NamedTuple):
    """A metric.

    Attributes:
        name: Its name by OpenTelemetry's conventions.
        unit: Its unit by UCUM; one in braces is what is counted.
        kind: ``counter``, which only rises, or ``gauge``.
        description: What it is.
        read: Yields its values.
    """

    name: str
    unit: str
    kind: str
    description: str
    read: Callable[[PipelineStatistics], Iterator[Point]]


def _of_stages(
    value: Callable[[StageStatistics], float], *, without_sink: bool = False
) -> Callable[[PipelineStatistics], Iterator[Point]]:
    def values(statistics: PipelineStatistics) -> Iterator[Point]:
        last = len(statistics.stages) - 1
        for index, stage in enumerate(statistics.stages):
            if not (without_sink and index == last):
                yield Point(stage.name, index, None, value(stage))

    return values


def _waits(statistics: PipelineStatistics) -> Iterator[Point]:
    for index, stage in enumerate(statistics.stages[:-1]):
        yield Point(stage.name, index, "input", stage.starved_seconds)
        yield Point(stage.name, index, "output", stage.blocked_seconds)
        yield Point(stage.name, index, "order", stage.held_seconds)


def _queues(value: Callable[[StageStatistics], float]) -> Callable[[PipelineStatistics], Iterator[Point]]:
    def values(statistics: PipelineStatistics) -> Iterator[Point]:
        for index, stage in enumerate(statistics.stages):
            # No queue is in front of a source.
            if stage.queue_capacity:
                yield Point(stage.name, index, None, value(stage))

    return values


def _of_pipeline(value: Callable[[PipelineStatistics], float]) -> Callable[[PipelineStatistics], Iterator[Point]]:
    def values(statistics: PipelineStatistics) -> Iterator[Point]:
        yield Point(None, 0, None, value(statistics))

    return values


def _of_budget(value: Callable[[PipelineStatistics], float]) -> Callable[[PipelineStatistics], Iterator[Point]]:
    def values(statistics: PipelineStatistics) -> Iterator[Point]:
        # Without a budget nothing is weighed.
        if statistics.max_bytes:
            yield Point(None, 0, None, value(statistics))

    return values


METRICS = (
    Metric(
        "spdl.stage.items",
        "{item}",
        "counter",
        "Items whose op ended without raising; at the sink, items that were read.",
        _of_stages(lambda stage: stage.num_completed),
    ),
    Metric(
        "spdl.stage.results",
        "{item}",
        "counter",
        "Results passed on.",
        _of_stages(lambda stage: stage.num_emitted),
    ),
    Metric(
        "spdl.stage.failures",
        "{failure}",
        "counter",
        "Items given up because something raised or took too long.",
        _of_stages(lambda stage: stage.num_failed, without_sink=True),
    ),
    Metric(
        "spdl.stage.drops",
        "{item}",
        "counter",
        "Results dropped because they were None.",
        _of_stages(lambda stage: stage.num_dropped, without_sink=True),
    ),
    Metric(
        "spdl.stage.retries",
        "{attempt}",
        "counter",
        "Attempts that failed and were followed by another.",
        _of_stages(lambda stage: stage.num_retried, without_sink=True),
    ),
    Metric(
        "spdl.stage.timeouts",
        "{call}",
        "counter",
        "Ops that took longer than the stage's timeout.",
        _of_stages(lambda stage: stage.num_overdue, without_sink=True),
    ),
    Metric(
        "spdl.stage.busy",
        "s",
        "counter",
        "Time in ops that have ended, summed over concurrent ones.",
        _of_stages(lambda stage: stage.busy_seconds, without_sink=True),
    ),
    Metric(
        "spdl.stage.cpu",
        "s",
        "counter",
        "CPU time of threads in ops.",
        _of_stages(lambda stage: stage.cpu_seconds, without_sink=True),
    ),
    Metric(
        "spdl.stage.wait",
        "s",
        "counter",
        "Time with a free slot that waited for an item (input), for a place (output) or for an earlier item (order).",
        _waits,
    ),
    Metric(
        "spdl.stage.concurrency",
        "{item}",
        "gauge",
        "Items that the stage may work on at once.",
        _of_stages(lambda stage: stage.concurrency, without_sink=True),
    ),
    Metric(
        "spdl.stage.running",
        "{item}",
        "gauge",
        "Items that the stage works on now.",
        _of_stages(lambda stage: stage.running, without_sink=True),
    ),
    Metric(
        "spdl.queue.size",
        "{item}",
        "gauge",
        "Items that wait in front of the stage now; at the sink, items that wait to be read.",
        _queues(lambda stage: stage.queue_size),
    ),
    Metric(
        "spdl.queue.limit",
        "{item}",
        "gauge",
        "Items that may wait in front of the stage.",
        _queues(lambda stage: stage.queue_capacity),
    ),
    Metric(
        "spdl.pipeline.in_flight",
        "{item}",
        "gauge",
        "Source items of which something is under way or unread.",
        _of_pipeline(lambda statistics: statistics.in_flight),
    ),
    Metric(
        "spdl.pipeline.memory.usage",
        "By",
        "gauge",
        "Memory that the items in the pipeline keep, where max_bytes bounds it.",
        _of_budget(lambda statistics: statistics.bytes_in_flight),
    ),
    Metric(
        "spdl.pipeline.memory.limit",
        "By",
        "gauge",
        "Memory that they may keep.",
        _of_budget(lambda statistics: statistics.max_bytes),
    ),
    Metric(
        "spdl.pipeline.memory.wait",
        "s",
        "counter",
        "Time in which something was not made since it might not have fitted.",
        _of_budget(lambda statistics: statistics.seconds_short_of_bytes),
    ),
    Metric(
        "spdl.pipeline.elapsed",
        "s",
        "gauge",
        "Time since the pipeline's start, or from its start to its end.",
        _of_pipeline(lambda statistics: statistics.elapsed),
    ),
    Metric(
        "spdl.pipeline.consumer.wait",
        "s",
        "counter",
        "Time in which reads of the consumer waited for an item.",
        _of_pipeline(lambda statistics: statistics.stages[-1].starved_seconds),
    ),
)
