"""Workers that are other interpreters of this process."""

from __future__ import annotations

import atexit
import os
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from spdl._processes import WORKERS, before_children_are_awaited
from spdl.pipeline._declare.records import AggregateConfig, PathVariantsConfig, PipeConfig
from spdl.pipeline._transport.channel import ParentEnd
from spdl.pipeline._transport.interpreter import RunningInterpreter, interpreter_maker

from .every_stage import every_stage
from .packing import packed

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.pipeline._engine.engine import Engine

    from .messages import Job

__all__ = ["Interpreters"]

_PROGRAM = """
from spdl.pipeline._region_worker.begin import begin_interpreter
begin_interpreter(payload, out, into)
"""


class Interpreters:
    """Starts interpreters."""

    def __init__(self) -> None:
        self._payload = b""
        self._make: Callable[[], Any] | None = None

    def prepare(self, region: str, job: Job) -> None:
        """Pickle the work.

        Raises:
            TypeError: If something that the workers need cannot be pickled, or would not be found there.
            RuntimeError: If this Python has no interpreters to make.
        """
        self._make = interpreter_maker("InterpreterPoolExecutorConfig")
        for stage in every_stage(job.stages):
            if isinstance(stage, PipeConfig | AggregateConfig):
                _check_place(f"Stage {stage.name!r}: the op", region, stage.op)
            elif isinstance(stage, PathVariantsConfig):
                _check_place(f"Stage {stage.name!r}: the router", region, stage.router)
        _check_place("The initializer", region, job.initializer)
        self._payload = packed(region, job)

    def start(self, number: int) -> _Interpreter:  # noqa: ARG002 - as the others.
        """Start an interpreter."""
        assert self._make is not None
        return _Interpreter(self._make, self._payload)

    def let_go(self) -> list[Any]:
        """Forget the work."""
        self._payload = b""
        return []


class _Interpreter:
    """A worker interpreter and the connection to it. It cannot be killed."""

    def __init__(self, make: Callable[[], Any], payload: bytes) -> None:
        self._owner = os.getpid()
        self.channel = ParentEnd()
        out, into = self.channel.worker_end.numbers()
        try:
            self._interpreter = RunningInterpreter(
                make, _PROGRAM, {"payload": payload, "out": out, "into": into}, [self.channel.worker_end.close]
            )
        except BaseException:
            self.channel.close()
            raise
        try:
            self.channel.started_here(self._interpreter.sign)
        except BaseException:
            # There are no addresses left, say. It ends by itself, since this end is closed.
            self.end(grace=0.0)
            raise
        _LIVE.add(self)
        before_children_are_awaited(_close_all, WORKERS)

    def close(self) -> None:
        """Have the interpreter end by itself."""
        if os.getpid() == self._owner:
            self.channel.close()

    def end(self, grace: float) -> str:
        """Close the connection and wait for the interpreter, as long as it takes unless ``grace`` is 0."""
        if os.getpid() != self._owner:
            return ""
        self.channel.close()
        ended = self._interpreter.await_end(grace and None)
        self._interpreter.close()
        _LIVE.discard(self)
        if not ended:
            return "its interpreter did not end"
        return f"its interpreter has ended{self._interpreter.why and ': '}{self._interpreter.why}"

    def engines(self) -> list[Engine]:
        """Return nothing: the other interpreter's objects cannot be seen from here."""
        return []


def _check_place(what: str, region: str, value: object) -> None:
    named = value if hasattr(value, "__qualname__") else type(value)
    if getattr(named, "__module__", None) == "__main__":
        raise TypeError(
            f"{what} cannot be sent to the workers of {region}: it is of the main module, which other "
            "interpreters do not have. Move it to a module that can be imported."
        )


_LIVE: WeakSet[_Interpreter] = WeakSet()


def _close_all() -> None:
    for worker in list(_LIVE):
        worker.close()


atexit.register(_close_all)
