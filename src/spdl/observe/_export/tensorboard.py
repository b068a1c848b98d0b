"""The metrics of pipelines as scalars of TensorBoard."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from spdl._check import check_int, refuse
from spdl.observe._export.observed import GAUGE, METRICS, Observables, check_observed, read
from spdl.pipeline._report.sample import SHOWN, STAGES

if TYPE_CHECKING:
    from spdl.pipeline import PipelineStatistics


class ScalarWriter(Protocol):
    """What TensorBoard's scalars are written to."""

    def add_scalar(self, tag: str, scalar_value: float, global_step: int) -> object:
        """Write one value."""


class TensorBoardScalars:
    """Writes what pipelines did between two steps of the training as scalars of TensorBoard.

    The scalars of the pipeline ``train`` are ``train/items_per_second`` and ``train/consumer_wait`` (the share of the
    time in which the loop waited for data), and for each stage, such as ``train/1 decode``, ``items_per_second``,
    ``busy`` (the share of its slots' time spent in ops), ``queue`` (the items that wait in front of it now),
    ``failures`` and, if it reads from stores on other machines, ``bytes_read_per_second``.

    Args:
        pipelines: A pipeline or a loader, which is called ``pipeline``, or a mapping from names to such. The mapping is
            read at each step: pipelines may be added and taken out.
        writer: An object with ``add_scalar(tag, value, step)``, such as PyTorch's or tensorboardX's ``SummaryWriter``.
            No package is imported for it.

    Raises:
        TypeError: If an argument is not as described.

    Example:
        >>> from spdl.observe import TensorBoardScalars
        >>> from spdl.pipeline import PipelineBuilder
        >>> class Printer:
        ...     def add_scalar(self, tag, value, step):
        ...         if "consumer" not in tag and "second" not in tag and "busy" not in tag:
        ...             print(step, tag, value)
        >>> pipeline = PipelineBuilder().add_source(range(4)).pipe(str).add_sink().build(num_threads=1)
        >>> scalars = TensorBoardScalars({"train": pipeline}, Printer())
        >>> with pipeline.auto_stop():
        ...     items = list(pipeline)
        >>> scalars.write(100)
        100 train/0 src/failures 0
        100 train/1 str/failures 0
        100 train/1 str/queue 0
        100 train/2 sink/queue 0
    """

    def __init__(self, pipelines: Observables, writer: ScalarWriter) -> None:
        self._observed = check_observed(pipelines)
        if not callable(getattr(writer, "add_scalar", None)):
            refuse(TypeError, "writer", "an object with `add_scalar`, such as a SummaryWriter", writer)
        self._writer = writer
        self._before: dict[str, PipelineStatistics] = {}

    def write(self, step: int) -> None:
        """Write what happened since the last call, or since the pipeline's start.

        Args:
            step: The step of the training, at which TensorBoard shows the values.

        Raises:
            TypeError: If it is not an int.
        """
        step = check_int("step", step, least=None)
        now = read(self._observed)
        for name, statistics in now.items():
            for tag, value in _scalars(statistics, self._before.get(name)):
                self._writer.add_scalar(f"{name}/{tag}", value, step)
        self._before = now


def _scalars(now: PipelineStatistics, before: PipelineStatistics | None) -> Iterator[tuple[str, float]]:
    # A loader makes a new pipeline for each epoch, which counts from 0 again.
    if before is not None and (before.elapsed > now.elapsed or len(before.stages) != len(now.stages)):
        before = None
    seconds = now.elapsed - (0.0 if before is None else before.elapsed)
    for metric in METRICS:
        shown = metric.shown
        if not shown.scalar:
            continue
        olds = {} if before is None else dict(metric.read(before))
        for labels, value in metric.read(now):
            if not value and SHOWN.keys() & metric.fields.values():
                continue  # Only some pipelines have these.
            tag, slots = shown.scalar, 1
            if labels:
                name, place = labels
                slots = now.stages[place].concurrency
                # The sink passes the results of all stages to the user.
                if shown.where != STAGES or place < len(now.stages) - 1:
                    tag = f"{place} {name}/{tag}"
            change = value - olds.get(labels, 0)
            if metric.kind == GAUGE:
                yield tag, value
            elif shown.unit == "s":
                yield tag, min(1.0, _share(change, seconds * slots))
            else:
                yield tag, _share(change, seconds) if tag.endswith("_per_second") else change


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
