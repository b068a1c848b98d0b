"""Checks the arguments that processes and interpreters have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any, NamedTuple

from spdl._check import check_int, check_timeout, refuse

from .wire import UNBOUNDED

__all__ = ["Common", "Initializer", "check_common", "check_initializers"]

Initializer = Callable[[], object]


class Common(NamedTuple):
    """What was checked.

    Attributes:
        buffer_size: How many items may be under way.
        initializers: What is called there first.
        timeout: Seconds of silence; None for any.
    """

    buffer_size: int
    initializers: list[Initializer]
    timeout: float | None


def check_common(fn: Any, buffer_size: Any, initializer: Any, timeout: Any) -> Common:
    """Return the arguments of the same names, checked.

    Raises:
        TypeError, ValueError: If one is not as `iterate_in_subprocess` describes it.
    """
    if not callable(fn):
        remedy = "Wrap it: `lambda: iterable`, or a functools.partial." if isinstance(fn, Iterable) else ""
        refuse(TypeError, "fn", "callable without arguments", fn, remedy)
    accepted = "an int of at least 1, or -1 for no bound"
    buffer_size = check_int("buffer_size", buffer_size, least=-1, accepted=accepted)
    if buffer_size == 0:
        refuse(ValueError, "buffer_size", accepted, buffer_size)
    initializers = check_initializers(initializer)
    timeout = check_timeout("timeout", timeout)
    return Common(buffer_size if buffer_size > 0 else UNBOUNDED, initializers, None if timeout == inf else timeout)


def check_initializers(initializer: Any) -> list[Initializer]:
    """Return the initializers as a list.

    Raises:
        TypeError: If an initializer cannot be called.
    """
    if initializer is None:
        return []
    if callable(initializer):
        return [initializer]
    accepted = "callable without arguments, a sequence of such callables, or None"
    if isinstance(initializer, str | bytes) or not isinstance(initializer, Sequence):
        refuse(TypeError, "initializer", accepted, initializer)
    for index, each in enumerate(initializer):
        if not callable(each):
            refuse(TypeError, f"initializer[{index}]", "callable without arguments", each)
    return list(initializer)
