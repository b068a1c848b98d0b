"""The limits of a pipeline that are changed while it runs: by its user, or by its tuner."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl._check import check_str, positive, refuse
from spdl._locate import callers_line
from spdl.pipeline._declare.stage_info import SINK
from spdl.pipeline._engine import limits

from .waiting import check_usable

if TYPE_CHECKING:
    from spdl.pipeline._engine.engine import Engine
    from spdl.tune import TunedSettings, TuningStep
    from spdl.tune._tuner import Tuner

__all__ = ["Adjustable"]


class Adjustable:
    """What `Pipeline` offers to those who change its limits."""

    _engine: Engine
    # Changes the limits by itself, if that was asked for.
    _tuner: Tuner | None

    def set_concurrency(self, stage: str, concurrency: int) -> None:
        """Change how many items a stage works on at once. The pipeline may be running or not started yet.

        If the new concurrency of a synchronous stage is higher than the pipeline's number of threads, threads are
        added. A stage on your executor still uses the executor's threads or processes. If the new concurrency is lower
        than the number of items that the stage works on now, the stage starts nothing until it is below. In a region,
        each worker gets its share, rounded up, and learns of it with its next items. Once the pipeline has ended or was
        stopped, a call changes nothing.

        Args:
            stage: The stage's name. No other stage may have it: pass ``name`` to `PipelineBuilder.pipe`.
            concurrency: At least 1; in a region, for all workers together.

        Raises:
            ValueError: If no stage or more than one has this name, if the stage always works on one item at a time
                (`aggregate`, `disaggregate`, a fork or a merge), or if ``concurrency`` is less than 1.
            TypeError: If ``stage`` is not a str or ``concurrency`` not an int.
            RuntimeError: In a forked child, and in a finalizer or a signal handler that interrupted the pipeline.
        """
        check_str("stage", stage)
        concurrency = positive("concurrency", concurrency)
        engine = self._engine
        found = [node for node in engine.nodes if node.name == stage]
        if len(found) != 1:
            names = sorted({node.name for node in engine.nodes if node.adjustable})
            remedy = f"{len(found)} stages have that name."
            refuse(ValueError, "stage", f"the name of one stage only, among {names}", stage, remedy)
        (node,) = found
        if not node.adjustable:
            remedy = "This stage always works on one item at a time."
            refuse(ValueError, "stage", "the name of a stage made by `pipe`", stage, remedy)
        check_usable(self._engine, "changed")
        with engine.lock:
            limits.set_concurrency(engine, node, concurrency)
            if self._tuner is not None:
                self._tuner.pin_stage(stage)

    def set_num_threads(self, num_threads: int) -> None:
        """Change how many synchronous ops may run at once, while the pipeline runs or before.

        If more ops run than are allowed now, none starts until enough of them have ended. This has no effect once the
        pipeline has ended or was stopped.

        Args:
            num_threads: At least 1.

        Raises:
            ValueError: If ``num_threads`` is less than 1.
            TypeError: If it is no int.
            RuntimeError: In a forked child, and in a finalizer or a signal handler that interrupted the pipeline.
        """
        num_threads = positive("num_threads", num_threads)
        check_usable(self._engine, "changed")
        engine = self._engine
        with engine.lock:
            limits.set_num_threads(engine, num_threads)
            if self._tuner is not None:
                self._tuner.pin_threads()

    def set_queue_capacity(self, stage: str, capacity: int) -> None:
        """Change how many items may wait in front of a stage, while the pipeline runs or before.

        Items that wait already stay if there are more. Finished items that find no place keep their slots in the stage
        before, as always. Once the pipeline has ended or was stopped, this has no effect.

        Args:
            stage: The name of one stage, or ``"sink"`` for the items that wait to be read. Of a stage that merges, it
                is the capacity of each branch.
            capacity: At least 1.

        Raises:
            ValueError: If there is no such stage or more than one, or if ``capacity`` is less than 1.
            TypeError: If ``stage`` is no str or ``capacity`` no int.
            RuntimeError: In a forked child, and in a finalizer or a signal handler that interrupted the pipeline.
        """
        check_str("stage", stage)
        capacity = positive("capacity", capacity)
        engine = self._engine
        found = [node for node in engine.nodes if node.name == stage and node.is_stage]
        if stage != SINK and len(found) != 1:
            names = [*sorted({node.name for node in engine.nodes if node.is_stage}), SINK]
            remedy = f"{len(found)} stages have that name."
            refuse(ValueError, "stage", f"the name of one stage only, among {names}", stage, remedy)
        check_usable(self._engine, "changed")
        with engine.lock:
            limits.set_queue_capacity(engine, found[0] if found else None, capacity)
            if self._tuner is not None and not found:
                self._tuner.pin_buffer()

    def tuned(self) -> TunedSettings:
        """Return the settings that the tuner has chosen until now, to be written into the program.

        Once ``settled`` is True, nothing more is to be gained from other settings on this machine. It may be asked for
        at any time, also after the end.

        Raises:
            RuntimeError: If the pipeline was not built with ``autotune=True``.

        Example:
            >>> from spdl.pipeline import PipelineBuilder
            >>> builder = PipelineBuilder().add_source(range(4)).pipe(str, concurrency=2).add_sink(3)
            >>> with builder.build(autotune=True).auto_stop() as pipeline:
            ...     items = list(pipeline)
            >>> print(pipeline.tuned())
            pipe(..., name='str', concurrency=2)
            add_sink(3)
            build(num_threads=2)
        """
        return self._asked_to_tune().settings()

    def tuning_log(self) -> list[TuningStep]:
        """Return the changes that the tuner has made, oldest first, each with its reason: at most the last 200.

        Raises:
            RuntimeError: If the pipeline was not built with ``autotune=True``.
        """
        return self._asked_to_tune().log()

    def _asked_to_tune(self) -> Tuner:
        if self._tuner is None:
            raise RuntimeError(f"The pipeline does not tune itself: build it with `autotune=True` ({callers_line()}).")
        return self._tuner
