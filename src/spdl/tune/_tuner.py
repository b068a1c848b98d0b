"""Tunes a running pipeline: looks at its counters from time to time, and changes its limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from spdl.pipeline._engine.lifetime import set_limits
from spdl.pipeline._report.threads import CoreWaits
from spdl.pipeline._world import perf_counter
from spdl.tune._climb import Climb
from spdl.tune._limits import Limits, budgets_of, head_of, limits_of, sample_for, stages_of

if TYPE_CHECKING:
    from spdl.pipeline._engine.engine import Engine


# Seconds between two looks: just after a change, while its effect is measured, and when there is nothing to gain or
# nothing is read. A look takes a tenth of a millisecond, and reading the threads' times some more.
_SOON, _EVERY, _LATER = 0.05, 0.1, 0.25
# Seconds after a change in which every look may be the one that tells enough.
_YOUNG = 0.8


@dataclass(frozen=True, slots=True)
class TunedSettings:
    """The limits that the tuner has chosen; see `Pipeline.tuned`.

    ``str()`` returns them as the arguments to write into the program.

    Attributes:
        num_threads: For `PipelineBuilder.build`: how many synchronous ops may run at once.
        concurrency: For `PipelineBuilder.pipe`: how many items each stage that `pipe` made may work on at once, by the
            stage's name. Of stages with the same name, the last one. In a region, it counts for each worker.
        buffer_size: For `PipelineBuilder.add_sink`: how many finished items may wait.
        settled: Whether there is nothing more to gain. While it is False, better settings may follow.
        reason: The last decision of the tuner, in one sentence: the limit of the pipeline, if it has settled.

    Example:
        >>> from spdl.tune import TunedSettings
        >>> print(TunedSettings(12, {"read": 10, "decode": 2}, 3, True, "The CPU is the limit."))
        pipe(..., name='read', concurrency=10)
        pipe(..., name='decode', concurrency=2)
        add_sink(3)
        build(num_threads=12)
    """

    num_threads: int
    concurrency: Mapping[str, int]
    buffer_size: int
    settled: bool
    reason: str

    def __str__(self) -> str:
        lines = [f"pipe(..., name={name!r}, concurrency={slots})" for name, slots in self.concurrency.items()]
        return "\n".join([*lines, f"add_sink({self.buffer_size})", f"build(num_threads={self.num_threads})"])


@dataclass(frozen=True, slots=True)
class TuningStep:
    """A change that the tuner has made; see `Pipeline.tuning_log`.

    Attributes:
        elapsed: Seconds from the pipeline's start.
        num_threads: How many synchronous ops may run at once from then on.
        concurrency: How many items each stage may work on at once from then on, by the stage's name, as for
            `TunedSettings`.
        buffer_size: How many finished items may wait from then on.
        reason: The change and its reason, in one sentence.

    Example:
        >>> import time
        >>> from spdl.pipeline import PipelineBuilder
        >>> builder = PipelineBuilder().add_source(range(100)).pipe(lambda x: time.sleep(0.01) or x, name="read")
        >>> pipeline = builder.add_sink().build(autotune=True)
        >>> with pipeline.auto_stop():
        ...     items = list(pipeline)
        >>> first = pipeline.tuning_log()[0]
        >>> first.concurrency["read"] > 1, first.reason.startswith("concurrency of 'read' 1 ->")
        (True, True)
    """

    elapsed: float
    num_threads: int
    concurrency: Mapping[str, int]
    buffer_size: int
    reason: str


class Tuner:
    """The tuner of one pipeline. It runs on the engine's timer thread, so it ends with the engine."""

    def __init__(self, engine: Engine, *, threads_pinned: bool) -> None:
        self._engine = engine
        self._stages = stages_of(engine)
        self._core_waits = CoreWaits()
        for node in engine.nodes:
            node.prepare_tuning()
        budgets = budgets_of(engine, threads_pinned=threads_pinned)
        for node, stage in zip(self._stages, budgets.stages, strict=True):
            if not stage.pinned:
                node.may_overtake()
        limits = limits_of(engine)
        limits = replace(limits, num_threads=budgets.needed_threads(limits.concurrency, limits.num_threads))
        self._climb = Climb(head_of(engine), limits, budgets)

    def begin(self) -> None:
        with self._engine.lock:
            self._apply(self._climb.limits)
            self._engine.timer.after(_SOON, self._act)

    def _act(self) -> None:
        """Look at the counters, and change limits if that gains something. Called with the lock held."""
        engine, climb = self._engine, self._climb
        if engine.is_over() or engine.ending:
            # A draining pipeline says nothing about the limits.
            return
        samples = climb.samples
        engine.lock.release()
        try:
            sample = sample_for(engine, self._stages, self._core_waits, perf_counter())
        finally:
            engine.lock.acquire()
        # If limits were set by hand in the meantime, the sample may belong to the old limits.
        if climb.samples is samples and climb.observe(sample):
            self._apply(climb.limits)
        engine.timer.after(self._next_look(), self._act)

    def _next_look(self) -> float:
        climb = self._climb
        if climb.settled or climb.paused:
            return _LATER
        changed = climb.log[-1].time if climb.log else self._engine.started_at
        return _SOON if perf_counter() - changed < _YOUNG else _EVERY

    def _apply(self, limits: Limits) -> None:
        slots = dict(zip(self._stages, limits.concurrency, strict=True))
        changed = {
            node: each
            for (node, each), stage in zip(slots.items(), self._climb.budgets.stages, strict=True)
            if not stage.pinned
        }
        set_limits(self._engine, changed, limits.num_threads, limits.buffer_size)

    # ---- limits that are set by hand; called with the lock held, when they are in force ----

    def pin_stage(self, stage: str) -> None:
        limits = limits_of(self._engine)
        index = [node.name for node in self._stages].index(stage)
        self._climb.pin(limits, self._climb.budgets.pin(stage, limits.concurrency[index]))

    def pin_threads(self) -> None:
        limits = limits_of(self._engine)
        budgets = replace(self._climb.budgets, num_threads=limits.num_threads, threads_pinned=True)
        self._climb.pin(limits, budgets)

    def pin_buffer(self) -> None:
        limits = limits_of(self._engine)
        budgets = replace(self._climb.budgets, buffer_size=limits.buffer_size, buffer_pinned=True)
        self._climb.pin(limits, budgets)

    # ---- what came out ----

    def settings(self) -> TunedSettings:
        climb = self._climb
        limits = climb.limits
        return TunedSettings(limits.num_threads, self._by_name(limits), limits.buffer_size, climb.settled, climb.reason)

    def log(self) -> list[TuningStep]:
        begin = self._engine.started_at
        return [
            TuningStep(time - begin, limits.num_threads, self._by_name(limits), limits.buffer_size, reason)
            for time, limits, reason in self._climb.log
        ]

    def _by_name(self, limits: Limits) -> Mapping[str, int]:
        pairs = zip(self._stages, limits.concurrency, strict=True)
        return {node.name: slots // node.copies for node, slots in pairs if node.adjustable}
