"""Ops that take longer than their stage allows: they are reported, or abandoned."""

from __future__ import annotations

import logging
from math import inf
from typing import TYPE_CHECKING

from spdl.pipeline._failures.error_text import show_logging_error
from spdl.pipeline._failures.stacks import stack_of
from spdl.pipeline._world import monotonic

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.pipeline._declare.policy import OnTimeout
    from spdl.pipeline._engine.attempt import Attempt

    from .op_node import OpNode

__all__ = ["Timeout", "Watch"]

_LOG = logging.getLogger("spdl.pipeline")


class Watch:
    """An op under way that has a deadline."""

    __slots__ = ("abandoned", "attempt", "cancel", "deadline", "ended", "thread")

    def __init__(
        self, attempt: Attempt, *, cancel: Callable[[Watch], object] | None = None, thread: int | None = None
    ) -> None:
        self.attempt = attempt
        self.deadline = inf
        # Ends the op, if there is a way. The op may have ended by itself meanwhile.
        self.cancel = cancel
        self.ended = False
        # The thread that it keeps to itself.
        self.thread = thread
        self.abandoned = False


class Timeout:
    """The deadlines of one stage's ops. All have the same timeout, so they fall due in the order of their start.

    An async generator has a deadline for each result, and none while it waits for a place for one.

    Guarded by the engine's lock.
    """

    def __init__(self, node: OpNode, seconds: float, on_timeout: OnTimeout) -> None:
        self._node = node
        self._seconds = seconds
        self._on_timeout = on_timeout
        # The ops under way, in the order of their start. One that takes long does not keep ended ones here.
        self._watches: dict[Watch, None] = {}
        self._armed = False

    def begin(self, attempt: Attempt, *, thread: int | None = None) -> Watch:
        """Watch an op that starts now."""
        watch = Watch(attempt, thread=thread)
        self.resume(watch)
        return watch

    def resume(self, watch: Watch) -> None:
        """Give an op that starts now, or goes on, a deadline."""
        watch.deadline = monotonic() + self._seconds
        self._watches[watch] = None
        self._arm()

    def pause(self, watch: Watch) -> bool:
        """Note that an op is not at work for now. Return whether its outcome still counts."""
        self._watches.pop(watch, None)
        return not watch.abandoned

    def end(self, watch: Watch) -> bool:
        """Note that an op has returned. Return whether its outcome still counts."""
        watch.ended = True
        self._node.engine.drops.append(watch)
        return self.pause(watch)

    def let_go(self) -> list[Watch]:
        """Return the ops that a stop has cancelled, and forget them: they have not told that they ended."""
        watches, self._watches = list(self._watches), {}
        return watches

    def _arm(self) -> None:
        if not self._armed and self._watches:
            self._armed = True
            first = next(iter(self._watches))
            self._node.engine.timer.after(max(0.0, first.deadline - monotonic()), self._fall_due)

    def _fall_due(self) -> None:
        self._armed = False
        now = monotonic()
        while self._watches and (watch := next(iter(self._watches))).deadline <= now:
            del self._watches[watch]
            self._overdue(watch)
        self._arm()

    def _overdue(self, watch: Watch) -> None:
        node = self._node
        engine = node.engine
        node.note_overdue()
        drop = self._on_timeout == "drop" and not node.cancelled
        if drop:
            watch.abandoned = True
        engine.lock.release()
        stack = stack_of(watch.thread)
        try:
            _LOG.warning(
                "Stage %r has worked on %s for more than %g seconds%s.%s",
                node.name,
                engine.lineage.describe(watch.attempt.root),
                self._seconds,
                ", which is abandoned" if drop else "",
                stack,
            )
        except Exception:  # noqa: BLE001 - a broken log handler must not keep the timer from its work.
            show_logging_error()
        finally:
            engine.lock.acquire()
            # The op may have ended meanwhile, and all others have let go of its item.
            engine.drops.append(watch)
        # `stop` reports ops that do not end.
        if not drop or engine.stopping:
            return
        if watch.cancel is not None:
            watch.cancel(watch)
        elif node.on_workers:
            engine.replace_worker(node, watch.attempt.root, stack)
        error = TimeoutError(f"The op took more than {self._seconds:g} seconds.{stack}")
        node.give_up(watch.attempt, error)
