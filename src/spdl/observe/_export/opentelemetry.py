"""The metrics of pipelines as OpenTelemetry's instruments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from spdl._check import refuse

from .metrics import METRICS
from .observed import check_observed, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType

    from .metrics import Metric, Point
    from .observed import Observables

__all__ = ["OpenTelemetryExport"]


class OpenTelemetryExport:
    """Observable instruments of OpenTelemetry that tell what pipelines have done so far.

    They are read whenever the program's meter provider collects, and cost nothing in between. Counters are totals since
    a pipeline's start. Each value has the attributes ``spdl.pipeline.name``, ``spdl.stage.name`` and
    ``spdl.stage.index``: stages may have the same name, and the index tells them apart.

    OpenTelemetry cannot take instruments back. So make one of these in a process, and give it a mapping that you change
    as pipelines come and go. It keeps the pipelines alive until `close`, or the end of a ``with`` block.

    It needs the package opentelemetry-api (``pip install 'spdl-turbo[opentelemetry]'``). What collects and sends is
    opentelemetry-sdk, or another implementation of that interface.

    Args:
        pipelines: A pipeline or a loader, which is called ``pipeline``, or a mapping from names to such.
        meter_provider: What makes the instruments; None is the one that the program has set for the process.

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
        api = _api()
        self._observation = api.Observation
        provider = api.get_meter_provider() if meter_provider is None else meter_provider
        meter = provider.get_meter("spdl")
        for metric in METRICS:
            make = meter.create_observable_counter if metric.kind == "counter" else meter.create_observable_gauge
            make(metric.name, callbacks=[self._reader(metric)], unit=metric.unit, description=metric.description)

    def _reader(self, metric: Metric) -> Callable[[object], Iterator[Any]]:
        def observations(_options: object) -> Iterator[Any]:
            if self._observed is None:
                return
            for name, statistics in read(self._observed).items():
                for point in metric.read(statistics):
                    yield self._observation(point.value, _attributes(name, point))

        return observations

    def close(self) -> None:
        """Let go of the pipelines. The instruments stay, without values."""
        self._observed = None

    def __enter__(self) -> Self:
        """Return the object itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None, /
    ) -> None:
        """Close it."""
        self.close()


def _api() -> Any:
    try:
        from opentelemetry import metrics  # noqa: PLC0415 - an optional package.
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("opentelemetry"):
            raise
        message = "OpenTelemetryExport needs opentelemetry-api: pip install 'spdl-turbo[opentelemetry]'"
        raise ModuleNotFoundError(message, name=error.name) from None
    return metrics


def _attributes(pipeline: str, point: Point) -> dict[str, str | int]:
    attributes: dict[str, str | int] = {"spdl.pipeline.name": pipeline}
    if point.stage is not None:
        attributes |= {"spdl.stage.name": point.stage, "spdl.stage.index": point.place}
    if point.direction is not None:
        attributes["direction"] = point.direction
    return attributes
