"""Recognises a thread of an executor's that makes a call for an engine, from the call's first step to its last."""

from __future__ import annotations

import sys
from concurrent.futures.thread import _WorkItem
from types import MethodType
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

__all__ = ["called_elsewhere", "makes_call_of"]

Method = TypeVar("Method", bound="Callable[..., Any]")

# The methods that executors call, whose objects have the engine as ``engine``.
_CALLED: set[CodeType] = set()
# What a pool of threads does around a call.
_AROUND = _WorkItem.run.__code__


def called_elsewhere(method: Method) -> Method:
    """Mark a method that an executor calls. Its object has the engine as ``engine``."""
    _CALLED.add(method.__code__)
    return method


def makes_call_of(engine: object) -> bool:
    """Return whether the current thread makes a call of an executor's for this engine.

    A finalizer may run at any step of it, and stop the pipeline. If it waited for the call, it would wait for itself.
    Such a call may note itself that it begins and ends, but not in its first and last steps: only the thread's frames
    know of these.
    """
    frame = sys._getframe(1)  # noqa: SLF001 - there is no other way to one's own frames.
    while frame is not None:
        if frame.f_code in _CALLED:
            if frame.f_locals["self"].engine is engine:
                return True
        elif frame.f_code is _AROUND and _engine_of(frame.f_locals["self"]) is engine:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _engine_of(work: Any) -> object:
    """Return the engine for which something is called, if a method that it has marked is."""
    function: Any = getattr(work, "fn", None)
    method = function if isinstance(function, MethodType) else type(function).__call__
    if getattr(getattr(method, "__func__", method), "__code__", None) not in _CALLED:
        return None
    engine: object = getattr(function, "__self__", function).engine
    return engine
