"""The metrics of pipelines as OpenTelemetry's instruments."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from spdl._check import refuse
from spdl._not_here import require
from spdl.observe._export.observed import METRICS, Observables, UntilClosed, check_observed, read

if TYPE_CHECKING:
    from spdl.observe._export.observed import Metric


# The names of labels here.
_ATTRIBUTES = {"pipeline": "spdl.pipeline.name", "stage": "spdl.stage.name", "stage_index": "spdl.stage.index"}


class OpenTelemetryExport(UntilClosed):
    """Observable instruments of OpenTelemetry that tell what pipelines have done so far.

    They are read whenever the program's meter provider collects, and cost nothing in between. Counters are totals since
    a pipeline's start. Each value has the attributes ``spdl.pipeline.name``, ``spdl.stage.name`` and
    ``spdl.stage.index``: stages may have the same name, and the index tells them apart.

    OpenTelemetry cannot take instruments back. So make one of these in a process, and give it a mapping that you change
    as pipelines come and go. It keeps the pipelines alive until `close`, or the end of a ``with`` block.

    It needs the package opentelemetry-api (``pip install 'spdl-turbo[opentelemetry]'``). The values are collected by
    opentelemetry-sdk, or another implementation of that interface.

    Args:
        pipelines: A pipeline or a loader, which is called ``pipeline``, or a mapping from names to such.
        meter_provider: Makes the instruments; None is the one that the program has set for the process.

    Raises:
        ModuleNotFoundError: If opentelemetry-api is not installed.
        TypeError: If an argument is not as described.

    Example:
        >>> from spdl.observe import OpenTelemetryExport
        >>> from spdl.pipeline import Pipeline
        >>> def export(pipeline: Pipeline) -> OpenTelemetryExport:
        ...     return OpenTelemetryExport({"train": pipeline})
    """

    def __init__(self, pipelines: Observables, meter_provider: Any = None) -> None:
        self._observed: Observables | None = check_observed(pipelines)
        if meter_provider is not None and not hasattr(meter_provider, "get_meter"):
            refuse(TypeError, "meter_provider", "a MeterProvider of OpenTelemetry or None", meter_provider)
        api = require("opentelemetry.metrics", "OpenTelemetryExport", extra="opentelemetry")
        self._observation = api.Observation
        provider = api.get_meter_provider() if meter_provider is None else meter_provider
        meter = provider.get_meter("spdl")
        for metric in METRICS:
            make = meter.create_observable_counter if metric.kind == "counter" else meter.create_observable_gauge
            its = metric.shown
            make(its.metric, callbacks=[self._reader(metric)], unit=its.unit, description=its.description)

    def _reader(self, metric: Metric) -> Callable[[object], Iterator[Any]]:
        names = [_ATTRIBUTES.get(label, label) for label in ("pipeline", *metric.labels)]

        def observations(_options: object) -> Iterator[Any]:
            observed = self._observed
            if observed is None:
                return
            for name, statistics in read(observed).items():
                for labels, value in metric.read(statistics):
                    yield self._observation(value, dict(zip(names, (name, *labels), strict=True)))

        return observations

    def close(self) -> None:
        """Let go of the pipelines. The instruments stay, without values."""
        self._observed = None
