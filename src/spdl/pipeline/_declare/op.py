"""What can be said of a user's function without calling it."""

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
    """The short name: partials are unwrapped, instances give their class."""
    function = _unwrapped(op)
    name = getattr(function, "__name__", None)
    # An object that delegates, such as a mock, has an attribute of any name.
    return name if isinstance(name, str) else type(function).__name__


def place_of(op: object) -> str:
    """What a function is called and where it is written, without its contents.

    Of a class that is its ``__init__``, of an object with ``__call__`` that method, of a generator the function.
    """
    function = _unwrapped(op)
    name = getattr(function, "__qualname__", None)
    if not isinstance(name, str):
        name = type(function).__qualname__
    if isinstance(function, type):
        code = _code_of(vars(function).get("__init__"))
    else:
        code = _code_of(function) or _code_of(getattr(type(function), "__call__", None))  # noqa: B004 - its code.
    # What was made of a text, such as a dataclass's __init__, is in no file.
    place = "" if code is None or code.co_filename == "<string>" else f" at {code.co_filename}:{code.co_firstlineno}"
    return f"{name}{place}"


def _code_of(function: object) -> CodeType | None:
    found = (getattr(function, name, None) for name in ("__code__", "gi_code", "ag_code"))
    return next((code for code in found if isinstance(code, CodeType)), None)


def called_function(op: object) -> Any:
    """The function whose body runs when ``op`` is called, if it has one that can be looked at."""
    function = _unwrapped(op)
    if isinstance(function, FunctionType | MethodType):
        return function
    return getattr(type(function), "__call__", None)  # noqa: B004 - the method itself.


def is_async(op: object) -> bool:
    """Whether calling ``op`` makes a coroutine or an async generator, as far as its definition tells."""
    return makes_coroutine(op) or any(map(isasyncgenfunction, bodies_of(op)))


def makes_coroutine(op: object) -> bool:
    """Whether calling ``op`` makes a coroutine, as far as its definition tells."""
    return any(map(iscoroutinefunction, bodies_of(op)))


def bodies_of(op: object) -> tuple[Any, Any]:
    """What may hold the code that runs when ``op`` is called: itself, and its class's method for it."""
    function = _unwrapped(op)
    # Which function it runs, not whether it is one.
    return function, getattr(type(function), "__call__", None)  # noqa: B004
