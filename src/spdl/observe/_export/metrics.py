"""The one list of metrics: what each is, which exporters write, and where its values come from.

The names follow OpenTelemetry's conventions: singular, without the unit, which is written by UCUM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from spdl.pipeline._report.sample import SHOWN

if TYPE_CHECKING:
    from spdl.pipeline import PipelineStatistics, StageStatistics


# The values of a metric's labels: of none, a stage's name and place, or these and a direction.
Labels: TypeAlias = tuple[Any, ...]

COUNTER, GAUGE = "counter", "gauge"
# Stages may have the same name, and the place tells them apart.
_STAGE = ("stage", "stage_index")


class _Where(NamedTuple):
    """The parts that have a value of a metric: the names of their labels, and a function that selects them."""

    labels: tuple[str, ...]
    select: Callable[[PipelineStatistics], Iterable[tuple[Labels, StageStatistics | PipelineStatistics]]]


def _stages(its: PipelineStatistics) -> list[tuple[Labels, StageStatistics]]:
    return [((stage.name, place), stage) for place, stage in enumerate(its.stages)]


STAGES = _Where(_STAGE, _stages)
OPS = _Where(_STAGE, lambda its: _stages(its)[:-1])  # The sink has none.
QUEUES = _Where(_STAGE, lambda its: [each for each in _stages(its) if each[1].queue_capacity])  # A source has none.
PIPELINE = _Where((), lambda its: [((), its)])
BUDGET = _Where((), lambda its: [((), its)] if its.max_bytes else [])  # Without one nothing is weighed.
CONSUMER = _Where((), lambda its: [((), its.stages[-1])])


class Metric(NamedTuple):
    """A metric.

    Attributes:
        name: Its name by OpenTelemetry's conventions.
        unit: Its unit by UCUM; one in braces is what is counted.
        kind: ``counter``, which only rises, or ``gauge``.
        where: The parts that have a value of it.
        field: The field of the statistics that has the value, or several by what they are labelled with.
        description: A sentence that describes it.
        scalar: Its name in TensorBoard, if it is shown there. A counter shows the change since the last step:
            divided by the time for a rate ``..._per_second``, and by the time of all slots if it counts seconds.
    """

    name: str
    unit: str
    kind: str
    where: _Where
    field: str | dict[str, str]
    description: str
    scalar: str = ""

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of its labels, without the pipeline's name."""
        return self.where.labels if isinstance(self.field, str) else (*self.where.labels, "direction")

    def read(self, statistics: PipelineStatistics) -> Iterator[tuple[Labels, float]]:
        for labels, each in self.where.select(statistics):
            if isinstance(self.field, str):
                yield labels, getattr(each, self.field)
            else:
                for direction, field in self.field.items():
                    yield (*labels, direction), getattr(each, field)


_WAITS = {"input": "starved_seconds", "output": "blocked_seconds", "order": "held_seconds"}

METRICS = (
    Metric("spdl.stage.items", "{item}", COUNTER, STAGES, "num_completed",
        "Items whose op ended without raising; at the sink, items that were read."),
    Metric("spdl.stage.results", "{item}", COUNTER, STAGES, "num_emitted", "Results passed on.", "items_per_second"),
    Metric("spdl.stage.failures", "{failure}", COUNTER, OPS, "num_failed",
        "Items given up because something raised or took too long.", "failures"),
    Metric("spdl.stage.drops", "{item}", COUNTER, OPS, "num_dropped", "Results dropped because they were None."),
    Metric("spdl.stage.retries", "{attempt}", COUNTER, OPS, "num_retried",
        "Attempts that failed and were followed by another."),
    Metric("spdl.stage.timeouts", "{call}", COUNTER, OPS, "num_overdue",
        "Ops that took longer than the stage's timeout."),
    Metric("spdl.stage.busy", "s", COUNTER, OPS, "busy_seconds",
        "Time in ops that have ended, summed over concurrent ones.", "busy"),
    Metric("spdl.stage.cpu", "s", COUNTER, OPS, "cpu_seconds", "CPU time of threads in ops."),
    Metric("spdl.stage.wait", "s", COUNTER, OPS, _WAITS,
        "Time with a free slot that waited for an item (input), for a place (output) or for an earlier item (order)."),
    Metric("spdl.stage.concurrency", "{item}", GAUGE, OPS, "concurrency", "Items that the stage may work on at once."),
    Metric("spdl.stage.running", "{item}", GAUGE, OPS, "running", "Items that the stage works on now."),
    Metric("spdl.queue.size", "{item}", GAUGE, QUEUES, "queue_size",
        "Items that wait in front of the stage now; at the sink, items that wait to be read.", "queue"),
    Metric("spdl.queue.limit", "{item}", GAUGE, QUEUES, "queue_capacity", "Items that may wait in front of the stage."),
    Metric("spdl.pipeline.in_flight", "{item}", GAUGE, PIPELINE, "in_flight",
        "Source items of which something is under way or unread."),
    Metric("spdl.pipeline.memory.usage", "By", GAUGE, BUDGET, "bytes_in_flight",
        "Memory that the items in the pipeline keep, where max_bytes bounds it."),
    Metric("spdl.pipeline.memory.limit", "By", GAUGE, BUDGET, "max_bytes", "Memory that they may keep."),
    Metric("spdl.pipeline.memory.wait", "s", COUNTER, BUDGET, "seconds_short_of_bytes",
        "Time in which something was not made since it might not have fitted."),
    Metric("spdl.pipeline.elapsed", "s", GAUGE, PIPELINE, "elapsed",
        "Time since the pipeline's start, or from its start to its end."),
    Metric("spdl.pipeline.consumer.wait", "s", COUNTER, CONSUMER, "starved_seconds",
        "Time in which reads of the consumer waited for an item.", "consumer_wait"),
    *(Metric(shown.metric, shown.unit, COUNTER, OPS, name, shown.description) for name, shown in SHOWN.items()),
)  # fmt: skip
