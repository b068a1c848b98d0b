"""How a pipeline ends: its input does, a part of it fails, or it is asked to stop."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

from spdl.pipeline._world import perf_counter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from spdl.pipeline._declare.stage_info import StageInfo
    from spdl.pipeline._failures.epoch_counts import EpochCounts
    from spdl.pipeline._failures.failure_collector import FailureCollector
    from spdl.pipeline._failures.tally import Tally
    from spdl.pipeline._metrics.counters import StageCounters
    from spdl.pipeline._metrics.page import Page
    from spdl.pipeline._metrics.reporter import Reporter
    from spdl.pipeline._metrics.stores import StoresMeanwhile
    from spdl.pipeline._world import RLock

    from .event_loop import EventLoop
    from .groups import Root
    from .lineage import Lineage
    from .sink import Sink
    from .timer import Timer
    from .workers import Workers

__all__ = ["Ending", "Ends", "EndsAsSource", "EndsAsStage"]


class Ends(Protocol):
    """What is asked of a source or a stage: this module stands below both."""

    info: StageInfo

    @property
    def name(self) -> str: ...
    @property
    def feeders(self) -> Sequence[Ends]: ...
    def is_finished(self) -> bool: ...
    def give_up_work(self) -> bool: ...


class EndsAsSource(Ends, Protocol):
    """What is asked of a source."""

    def end(self) -> None: ...
    def interrupt(self) -> None: ...


class EndsAsStage(Ends, Protocol):
    """What is asked of a stage."""

    @property
    def finished(self) -> bool: ...
    @property
    def cancelled(self) -> bool: ...
    @property
    def counters(self) -> StageCounters: ...
    @property
    def tally(self) -> Tally | None: ...
    def finish_stage(self, now: float) -> None: ...
    def drained(self) -> bool: ...
    def end_input(self) -> bool: ...
    def interrupt(self) -> None: ...
    def excess_of_failures(self, verdict: str) -> RuntimeError: ...


class Ending:
    """The part of the engine that ends. `Engine` makes what is named here, and moves the items until then."""

    __slots__ = ("done", "ending", "stopped_at", "stopping")

    lock: RLock
    sink: Sink
    sources: Sequence[EndsAsSource]
    nodes: Sequence[EndsAsStage]
    lineage: Lineage
    workers: Workers
    timer: Timer
    event_loop: EventLoop | None
    reporter: Reporter
    page: Page
    stores: StoresMeanwhile
    failures: FailureCollector
    epochs: EpochCounts

    def __init__(self) -> None:
        # A source has ended, so stages may end as well.
        self.ending = False
        self.stopping = False
        self.done = False
        self.stopped_at = 0.0

    def input_ends(self) -> None:
        """Note that a source has ended, so that stages may end as well. Called with the lock held."""
        self.ending = True
        if self.event_loop is not None:
            self.event_loop.wake()

    def settle(self) -> None:
        """Pass the end of the input on, stage by stage, as far as they are drained."""
        if not self.ending:
            return
        for node in self.nodes:
            if not node.finished and self._is_finished(node):
                node.finish_stage(perf_counter())
                if self.event_loop is not None:
                    # Merges of the user's tell each branch's end.
                    self.event_loop.wake()
                self.reporter.stage_ended(node.counters)
        if all(node.finished for node in self.nodes) and all(source.is_finished() for source in self.sources):
            if self.event_loop is not None and not self.event_loop.has_left():
                # The context managers around the stages may still fail.
                self.event_loop.wake()
            else:
                self.finish()

    def _is_finished(self, node: EndsAsStage) -> bool:
        if node.cancelled:
            # Items that still run there, or are parked, are no longer wanted: the consumer need not wait for them.
            return True
        return all(feeder.is_finished() for feeder in node.feeders) and node.drained() and node.end_input()

    def finish(self) -> None:
        """Note that nothing more will come, and tell everybody."""
        if self.done:
            return
        if (found := self.failure_at_end()) is not None:
            where, failure = found
            self.failures.add(where.name, failure)
        self.done = True
        self.stopped_at = perf_counter()
        self.stores.end()
        self.page.remove()
        self.timer.end()
        self._wake_all()

    def failure_at_end(self) -> tuple[EndsAsStage, RuntimeError] | None:
        """Return what fails the pipeline at the end of the input or of an epoch, and where, if anything does."""
        # After a request to stop the rest of the items is missing, which is no failure.
        if self.failures or self.stopping:
            return None
        stages = [(node.name, node.counters) for node in self.nodes]
        if (failure := self.epochs.failure(stages, self.failures.quarantine)) is not None:
            return self.nodes[-1], failure
        # A share of failures is looked at when an item fails, but only later may enough have been tried to judge by.
        for tally in dict.fromkeys(node.tally for node in self.nodes if node.tally is not None):
            if (verdict := tally.verdict()) is not None:
                worst = max((node for node in self.nodes if node.tally is tally), key=lambda node: node.counters.failed)
                return worst, worst.excess_of_failures(verdict)
        return None

    def fail(self, where: Ends, root: Root | None, error: BaseException, *, cut_off: Ends | None = None) -> None:
        """End the pipeline because a stage or a source failed: what is downstream of it still finishes its work.

        Args:
            where: What failed.
            root: Where the item came from that it failed on, if it was an item.
            error: What it failed with.
            cut_off: The last stage that is given up, if it is not ``where``.
        """
        origin = None if root is None else partial(self.lineage.describe, root)
        self.failures.add_stage(where.name, where.info, origin, error)
        for source in self.sources:
            source.end()
            source.interrupt()
        self.cut_off(cut_off or where)

    def cut_off(self, where: Ends) -> None:
        """Give up a stage and all that is upstream of it. Called with the lock held."""
        pending: list[Ends] = [where]
        while pending:
            part = pending.pop()
            if part.give_up_work():
                pending += part.feeders

    def request_stop(self) -> None:
        """Ask all threads to end. Takes no lock, so it may be called from anywhere at any time."""
        self.stopping = True
        if not self.stopped_at:
            self.stopped_at = perf_counter()
            self.stores.end()
        self._wake_all()

    def _wake_all(self) -> None:
        # Each step is atomic and may run in a signal handler or a finalizer, inside a critical section of anyone's.
        self.workers.wake_all()
        self.sink.wake_readers()
        event_loop = self.event_loop
        if event_loop is not None:
            event_loop.stop_or_wake()
        for source in self.sources:
            source.interrupt()
        for node in self.nodes:
            node.interrupt()

    def crash(self, error: BaseException) -> None:
        """End the pipeline because of a fault that no stage can answer for. Returns with the lock held."""
        self.failures.add("engine", error)
        self.request_stop()
        if not self.holds_lock():
            self.lock.acquire()

    def holds_lock(self) -> bool:
        """Return whether the current thread is in a critical section, as finalizers and signal handlers may be."""
        owned: bool = self.lock._is_owned()  # type: ignore[attr-defined]  # noqa: SLF001 - as `threading.Condition`.
        return owned
