"""What exporters share: pipelines and loaders under names, until the exporter is closed, and their metrics."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, TypeAlias, runtime_checkable

from spdl._check import refuse
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
    from spdl.pipeline._report.statistics import PipelineStatistics, StageStatistics


# The name of a pipeline that was given without one.
LONE_NAME = "pipeline"


@runtime_checkable
class Observed(Protocol):
    """Anything that tells what a pipeline does: a `Pipeline`, and the loaders of `spdl.dataloader`.

    Example:
        >>> from spdl.observe import Observed
        >>> from spdl.pipeline import PipelineBuilder
        >>> isinstance(PipelineBuilder().add_source(range(3)).add_sink().build(), Observed)
        True
    """

    def statistics(self) -> PipelineStatistics:
        """Return the counts and times since the start. It may be called at any time, from any thread."""


Observables: TypeAlias = Observed | Mapping[str, Observed]


def check_observed(observed: object) -> Observables:
    accepted = "a pipeline, a loader, or a mapping from names to these"
    if isinstance(observed, Mapping):
        for name, each in observed.items():
            if not isinstance(name, str):
                refuse(TypeError, "pipelines", accepted, observed, f"The name {name!r} is not a str.")
            if not isinstance(each, Observed):
                refuse(TypeError, "pipelines", accepted, observed, f"What is called {name!r} has no statistics().")
        return observed
    if not isinstance(observed, Observed):
        refuse(TypeError, "pipelines", accepted, observed)
    return observed


def read(observed: Observables) -> dict[str, PipelineStatistics]:
    """Return the statistics of each pipeline now, by name. Other threads may change a mapping at the same time."""
    if not isinstance(observed, Mapping):
        return {LONE_NAME: observed.statistics()}
    # Copied in one step, for dicts.
    return {name: each.statistics() for name, each in dict(observed).items()}


class UntilClosed:
    """Closes itself at the end of a ``with`` block."""

    def close(self) -> None:
        """End. Further calls do nothing."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        """Return the object itself, which works already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        """Close it."""
        self.close()


_LOG = logging.getLogger("spdl.observe")


class Ticker:
    """Calls a function at intervals, in its own daemon thread. A call that takes longer delays the next.

    An error of the function is logged, once until it succeeds again.
    """

    def __init__(self, act: Callable[[], None], interval: float, name: str) -> None:
        self._act = act
        self._interval = interval
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        failing = False
        while not self._closed.wait(self._interval):
            try:
                self._act()
                failing = False
            except Exception:  # noqa: BLE001 - it may be of any kind, and the next call may succeed.
                if not failing:
                    _LOG.exception("%s could not do its work; it tries again", self._thread.name)
                failing = True

    def close(self) -> bool:
        """End the thread. Return whether that was not done before."""
        if self._closed.is_set():
            return False
        self._closed.set()
        self._thread.join()
        return True


# The values of a metric's labels: of none, a stage's name and place, or these and a direction.
Labels: TypeAlias = tuple[Any, ...]

COUNTER, GAUGE = "counter", "gauge"
# Stages may have the same name, and the place tells them apart.
_STAGE = ("stage", "stage_index")


class _Where(NamedTuple):
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
    """A metric: a ``counter``, which only rises, or a ``gauge``.

    ``fields`` are the statistics that have the value, by what they are labelled with, or by "".
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
