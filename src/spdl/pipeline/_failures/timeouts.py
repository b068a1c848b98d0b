"""Ops that take longer than their stage allows: told, or written off."""

from __future__ import annotations

import logging
import sys
import traceback
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Literal, TypeAlias

from spdl.pipeline._engine.lineage import describe

from .failure import show_logging_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.pipeline._nodes.function import Attempt, FunctionNode

__all__ = ["OnTimeout", "Overtime", "Watch", "WrittenOff", "stack_of"]

_LOG = logging.getLogger("spdl.pipeline")

OnTimeout: TypeAlias = Literal["report", "drop"]

_FRAMES_SHOWN = 5


class WrittenOff(BaseException):
    """Raised in a worker, with the engine's lock held, whose op returned after it was written off."""


class Watch:
    """An op under way that has a deadline."""

    __slots__ = ("attempt", "cancel", "deadline", "ended", "thread", "written_off")

    def __init__(
        self, attempt: Attempt, *, cancel: Callable[[Watch], object] | None = None, thread: int | None = None
    ) -> None:
        self.attempt = attempt
        self.deadline = inf
        # How to end the op, if there is a way. It may have ended by itself meanwhile.
        self.cancel = cancel
        self.ended = False
        # The thread that it keeps to itself.
        self.thread = thread
        self.written_off = False


class Overtime:
    """The deadlines of one stage's ops. All have the same timeout, so they fall due in the order of their start.

    An async generator has a deadline for each result, and none while it waits for a place for one.

    Guarded by the engine's lock.
    """

    def __init__(self, node: FunctionNode, seconds: float, on_timeout: OnTimeout) -> None:
        self._node = node
        self._seconds = seconds
        self._on_timeout = on_timeout
        # Those under way, in the order of their start. What has ended is not kept behind one that takes long.
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
        """Note that an op is not at work for now. Returns whether its outcome still counts."""
        self._watches.pop(watch, None)
        return not watch.written_off

    def end(self, watch: Watch) -> bool:
        """Note that an op has returned. Returns whether its outcome still counts."""
        watch.ended = True
        self._node.engine.rubbish.append(watch)
        return self.pause(watch)

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
        node.overdue += 1
        origin = describe(engine.lineage.locate(watch.attempt.root), sources=len(engine.sources))
        drop = self._on_timeout == "drop" and not node.cancelled
        if drop:
            watch.written_off = True
        engine.lock.release()
        stack = stack_of(watch.thread)
        try:
            _LOG.warning(
                "Stage %r has worked on %s for more than %g seconds%s.%s",
                node.name,
                origin,
                self._seconds,
                ", which is written off" if drop else "",
                stack,
            )
        except Exception:  # noqa: BLE001 - a broken log handler must not keep the timer from its work.
            show_logging_error()
        finally:
            engine.lock.acquire()
        # Whoever stops the pipeline is told of what does not end.
        if not drop or engine.stopping:
            return
        if watch.cancel is not None:
            watch.cancel(watch)
        elif node.on_workers:
            engine.replace_worker(node, watch.attempt.root, stack)
        error = TimeoutError(f"The op took more than {self._seconds:g} seconds.{stack}")
        node.give_up(watch.attempt, error)


def stack_of(thread: int | None) -> str:
    """Where a thread is, as the end of a sentence; nothing if it is none."""
    frame = None if thread is None else sys._current_frames().get(thread)  # noqa: SLF001 - the documented way.
    if frame is None:
        return ""
    return f" It is here:\n{''.join(traceback.format_stack(frame)[-_FRAMES_SHOWN:]).rstrip()}"
