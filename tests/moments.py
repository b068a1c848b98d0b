"""The moments of a program at which Python runs signal handlers, for tests of what a handler does or raises there."""

from __future__ import annotations

import dis
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType


@cache
def _operations(code: CodeType) -> dict[int, str]:
    return {each.offset: each.opname for each in dis.get_instructions(code)}


class AtMoments:
    """A tracer that acts at each moment of some functions at which Python may run a signal handler.

    That is after a call, where a function begins, and where a loop goes back.

    Args:
        act: Called with a description of the moment. What it raises is raised there.
        within: Tells by a function's code whether it is one of them.
    """

    def __init__(self, act: Callable[[str], object], within: Callable[[CodeType], bool]) -> None:
        self._act = act
        self._within = within
        self._before: dict[FrameType, str] = {}

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        if not self._within(frame.f_code):
            return None
        frame.f_trace_opcodes = True
        if event == "opcode":
            operation = _operations(frame.f_code).get(frame.f_lasti, "")
            before = self._before.get(frame, "")
            if operation.startswith("CALL") and before.startswith("LOAD_SPECIAL"):
                # A lock is entered. No handler runs then, but on 3.14: https://github.com/python/cpython/issues/148874
                operation = "ENTER"
            # Ones that are no more than a part of the next one.
            if operation not in ("CACHE", "PRECALL"):
                self._before[frame] = operation
            # Python never does so where a handler begins, and would take the handled exception for one that goes on.
            if before.startswith(("CALL", "RESUME", "JUMP_BACKWARD")) and operation != "PUSH_EXC_INFO":
                self._act(f"{frame.f_code.co_name}:{frame.f_lineno} after {before}")
        return self


class Interrupt(AtMoments):
    """Raises a KeyboardInterrupt once, at the n-th of these moments, and tells where that was."""

    def __init__(self, number: int, within: Callable[[CodeType], bool]) -> None:
        super().__init__(self._count, within)
        self.left = number
        self.where = ""

    def _count(self, where: str) -> None:
        if self.where:
            return
        self.left -= 1
        if self.left < 0:
            self.where = where
            raise KeyboardInterrupt
