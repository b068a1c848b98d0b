"""The metrics of the exporters: what each is, and where its values come from, as the description of counters says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from spdl.pipeline._report.sample import (
    BUDGET,
    CONSUMER,
    OPS,
    PIPELINE,
    QUEUES,
    SHOWN,
    STAGES,
    Sample,
    Shown,
    StageSample,
    shown_fields,
)

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


_WHERE = {
    STAGES: _Where(_STAGE, _stages),
    OPS: _Where(_STAGE, lambda its: _stages(its)[:-1]),  # The sink has none.
    QUEUES: _Where(_STAGE, lambda its: [each for each in _stages(its) if each[1].queue_capacity]),
    PIPELINE: _Where((), lambda its: [((), its)]),
    BUDGET: _Where((), lambda its: [((), its)] if its.max_bytes else []),  # Without one nothing is weighed.
    CONSUMER: _Where((), lambda its: [((), its.stages[-1])]),
}


class Metric(NamedTuple):
    """A metric.

    Attributes:
        shown: Its name, unit, parts and description.
        kind: ``counter``, which only rises, or ``gauge``.
        fields: The fields of the statistics that have the value, by what they are labelled with, or by "".
    """

    shown: Shown
    kind: str
    fields: Mapping[str, str]

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of its labels, without the pipeline's name."""
        own = _WHERE[self.shown.where].labels
        return own if "" in self.fields else (*own, "direction")

    def read(self, statistics: PipelineStatistics) -> Iterator[tuple[Labels, float]]:
        for labels, each in _WHERE[self.shown.where].select(statistics):
            for direction, field in self.fields.items():
                yield (*labels, direction) if direction else labels, getattr(each, field)


def _described() -> Iterator[Metric]:
    described = [*shown_fields(StageSample), *shown_fields(Sample)]
    # Those that sources and stages have in common come last.
    in_order = sorted(described, key=lambda field: field.name in SHOWN)
    for _, fields in groupby(in_order, key=lambda field: field.shown.metric):
        first, *others = fields
        kind = COUNTER if first.is_total else GAUGE
        yield Metric(first.shown, kind, {field.shown.direction: field.statistic for field in (first, *others)})


METRICS = tuple(_described())
