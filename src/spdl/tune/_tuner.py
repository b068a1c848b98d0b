"""Tunes a running pipeline: looks at its counters from time to time, and changes its limits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from spdl.pipeline._engine.lifetime import set_limits
from spdl.pipeline._report.threads import CoreWaits
from spdl.pipeline._world import perf_counter
from spdl.tune._limits import Limits, budgets_of, head_of, limits_of, sample_for, stages_of

from ._climb import Climb
from ._records import TunedSettings, TuningStep

if TYPE_CHECKING:
    from spdl.pipeline._engine.engine import Engine


# Seconds between two looks: just after a change, while its effect is measured, and when there is nothing to gain or
# nothing is read. A look takes a tenth of a millisecond, and reading the threads' times some more.
_SOON, _EVERY, _LATER = 0.05, 0.1, 0.25
# Seconds after a change in which every look may be the one that tells enough.
_YOUNG = 0.8


class Tuner:
    """The tuner of one pipeline. It runs on the engine's timer thread, so it ends with the engine.

    Args:
        engine: The engine, which was not started.
        threads_pinned: Whether the number of threads was set by hand.
    """

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
        """Begin to tune. Called when the engine has started."""
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
        """Leave a stage's concurrency alone from now on."""
        limits = limits_of(self._engine)
        index = [node.name for node in self._stages].index(stage)
        self._climb.pin(limits, self._climb.budgets.pin(stage, limits.concurrency[index]))

    def pin_threads(self) -> None:
        """Leave the number of threads alone from now on."""
        limits = limits_of(self._engine)
        budgets = replace(self._climb.budgets, num_threads=limits.num_threads, threads_pinned=True)
        self._climb.pin(limits, budgets)

    def pin_buffer(self) -> None:
        """Leave the buffer in front of the consumer alone from now on."""
        limits = limits_of(self._engine)
        budgets = replace(self._climb.budgets, buffer_size=limits.buffer_size, buffer_pinned=True)
        self._climb.pin(limits, budgets)

    # ---- what came out ----

    def settings(self) -> TunedSettings:
        """Return the settings in force."""
        climb = self._climb
        limits = climb.limits
        return TunedSettings(limits.num_threads, self._by_name(limits), limits.buffer_size, climb.settled, climb.reason)

    def log(self) -> list[TuningStep]:
        """Return the changes, oldest first."""
        begin = self._engine.started_at
        return [
            TuningStep(time - begin, limits.num_threads, self._by_name(limits), limits.buffer_size, reason)
            for time, limits, reason in self._climb.log
        ]

    def _by_name(self, limits: Limits) -> Mapping[str, int]:
        pairs = zip(self._stages, limits.concurrency, strict=True)
        return {node.name: slots // node.copies for node, slots in pairs if node.adjustable}
