"""Facts about a user's function that need no call of it."""

from __future__ import annotations

import functools
from inspect import isasyncgenfunction, iscoroutinefunction
from types import CodeType, FunctionType, MethodType
from typing import Any

__all__ = ["bodies_of", "called_function", "is_async", "makes_coroutine", "name_of", "place_of"]


def _unwrapped(op: object) -> Any:
    while isinstance(op, functools.partial):
        op = op.func
    return op


def name_of(op: object) -> str:
    """Return the short name. Partials are unwrapped, and instances have the name of their class."""
    function = _unwrapped(op)
    name = getattr(function, "__name__", None)
    # An object that delegates, such as a mock, has an attribute of any name.
    return name if isinstance(name, str) else type(function).__name__


def place_of(op: object) -> str:
    """Return a function's name, file and line.

    For a class this is the line of its ``__init__``, for an object with ``__call__`` that of this method, and for a
    generator that of its function.
    """
    function = _unwrapped(op)
    name = getattr(function, "__qualname__", None)
    if not isinstance(name, str):
        name = type(function).__qualname__
    if isinstance(function, type):
        code = _code_of(vars(function).get("__init__"))
    else:
        code = _code_of(function) or _code_of(getattr(type(function), "__call__", None))  # noqa: B004 - its code.
    # Code that was compiled from a string, such as a dataclass's __init__, is in no file.
    place = "" if code is None or code.co_filename == "<string>" else f" at {code.co_filename}:{code.co_firstlineno}"
    return f"{name}{place}"


def _code_of(function: object) -> CodeType | None:
    found = (getattr(function, name, None) for name in ("__code__", "gi_code", "ag_code"))
    return next((code for code in found if isinstance(code, CodeType)), None)


def called_function(op: object) -> Any:
    """Return the function whose body runs when ``op`` is called, or None if it cannot be inspected."""
    function = _unwrapped(op)
    if isinstance(function, FunctionType | MethodType):
        return function
    return getattr(type(function), "__call__", None)  # noqa: B004 - the method itself.


def is_async(op: object) -> bool:
    """Return whether calling ``op`` makes a coroutine or an async generator, as far as its definition tells."""
    return makes_coroutine(op) or any(map(isasyncgenfunction, bodies_of(op)))


def makes_coroutine(op: object) -> bool:
    """Return whether calling ``op`` makes a coroutine, as far as its definition tells."""
    return any(map(iscoroutinefunction, bodies_of(op)))


def bodies_of(op: object) -> tuple[Any, Any]:
    """Return the two objects that may hold the code of ``op``: itself and the ``__call__`` of its class."""
    function = _unwrapped(op)
    return function, getattr(type(function), "__call__", None)  # noqa: B004 - the method itself.
