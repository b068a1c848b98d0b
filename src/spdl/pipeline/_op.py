"""What can be said of a user's function without calling it."""

from __future__ import annotations

import functools
from inspect import isasyncgenfunction, iscoroutinefunction
from typing import Any

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

__all__ = ["is_async", "name_of", "place_of"]


def _unwrapped(op: object) -> Any:
    while isinstance(op, functools.partial):
        op = op.func
    return op


def name_of(op: object) -> str:
    """The short name: partials are unwrapped, instances give their class."""
    function = _unwrapped(op)
    return str(getattr(function, "__name__", type(function).__name__))


def place_of(op: object) -> str:
    """What a function is called and where it is written, without its contents."""
    function = _unwrapped(op)
    name = str(getattr(function, "__qualname__", type(function).__qualname__))
    code = getattr(function, "__code__", None)
    return name if code is None else f"{name} at {code.co_filename}:{code.co_firstlineno}"


def is_async(op: object) -> bool:
    """Whether calling ``op`` makes a coroutine or an async generator, as far as its definition tells."""
    function = _unwrapped(op)
    call = getattr(type(function), "__call__", None)  # noqa: B004 - which function it runs, not whether it is one.
    return any(iscoroutinefunction(candidate) or isasyncgenfunction(candidate) for candidate in (function, call))
