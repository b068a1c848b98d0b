"""The metrics of pipelines in Prometheus' text format."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .metrics import METRICS, Point
from .observed import check_observed, read

if TYPE_CHECKING:
    from collections.abc import Iterator

    from spdl.pipeline import PipelineStatistics

    from .metrics import Metric
    from .observed import Observables

__all__ = ["CONTENT_TYPE", "format_metrics", "prometheus_text"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_DURATION = "spdl_stage_duration_seconds"
_UNITS = {"s": "_seconds", "By": "_bytes"}
# A label's value stands in quotes. Backslashes first, or those of the others would be doubled.
_IN_LABELS = (("\\", r"\\"), ("\n", r"\n"), ('"', r"\""))
_IN_HELP = _IN_LABELS[:2]


def prometheus_text(pipelines: Observables) -> str:
    """Return what pipelines have done so far in the text format that Prometheus scrapes.

    It takes no lock and slows nothing down. Counters are totals since a pipeline's start. Each value has the labels
    ``pipeline``, ``stage`` and ``stage_index``: stages may have the same name, and the index tells them apart.

    Args:
        pipelines: A pipeline or a loader, which is called ``pipeline``, or a mapping from names to such.

    Returns:
        Text of version 0.0.4 of the format, in which each metric has its ``HELP`` and ``TYPE`` once.

    Raises:
        TypeError: If ``pipelines`` is anything else.

    Example:
        >>> from spdl.observe import prometheus_text
        >>> from spdl.pipeline import PipelineBuilder
        >>> pipeline = PipelineBuilder().add_source(range(3)).pipe(str).add_sink().build(num_threads=1)
        >>> with pipeline.auto_stop():
        ...     items = list(pipeline)
        >>> print(prometheus_text({"train": pipeline}))  # doctest: +ELLIPSIS
        # HELP spdl_stage_items_total Items whose op ended without raising; at the sink, items that were read.
        # TYPE spdl_stage_items_total counter
        spdl_stage_items_total{pipeline="train",stage="src",stage_index="0"} 3
        spdl_stage_items_total{pipeline="train",stage="str",stage_index="1"} 3
        ...
    """
    return format_metrics(read(check_observed(pipelines)))


def format_metrics(statistics: dict[str, PipelineStatistics]) -> str:
    """Return the text for statistics by the names of their pipelines."""
    lines = []
    for metric in METRICS:
        name = _name(metric)
        lines.append(f"# HELP {name} {_escaped(metric.description, _IN_HELP)}")
        lines.append(f"# TYPE {name} {metric.kind}")
        for pipeline, its in statistics.items():
            # Of ints and floats, `repr` is what the format wants.
            lines += [f"{name}{{{_labels(pipeline, point)}}} {point.value!r}" for point in metric.read(its)]
    lines += _durations(statistics)
    return "\n".join(lines) + "\n"


def _durations(statistics: dict[str, PipelineStatistics]) -> Iterator[str]:
    """Yield the lines of the one histogram."""
    yield f"# HELP {_DURATION} How long tasks took that did not raise."
    yield f"# TYPE {_DURATION} histogram"
    for pipeline, its in statistics.items():
        for place, stage in enumerate(its.stages):
            if not stage.durations:
                continue
            labels = _labels(pipeline, Point(stage.name, place, None, 0))
            *finite, (_, everything) = stage.durations
            for bound, count in (*finite, ("+Inf", everything)):
                yield f'{_DURATION}_bucket{{{labels},le="{bound}"}} {count}'
            yield f"{_DURATION}_sum{{{labels}}} {stage.task_seconds!r}"
            yield f"{_DURATION}_count{{{labels}}} {everything}"


def _name(metric: Metric) -> str:
    return metric.name.replace(".", "_") + _UNITS.get(metric.unit, "") + ("_total" if metric.kind == "counter" else "")


def _labels(pipeline: str, point: Point) -> str:
    labels = {"pipeline": pipeline}
    if point.stage is not None:
        labels |= {"stage": point.stage, "stage_index": str(point.place)}
    if point.direction is not None:
        labels["direction"] = point.direction
    return ",".join(f'{key}="{_escaped(value, _IN_LABELS)}"' for key, value in labels.items())


def _escaped(text: str, escapes: tuple[tuple[str, str], ...]) -> str:
    for character, escape in escapes:
        text = text.replace(character, escape)
    # A name of the user's may hold half a character, which cannot be written as UTF-8.
    return text.encode("utf-8", "replace").decode("utf-8")
