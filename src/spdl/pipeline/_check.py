"""Checks of arguments, with messages that name the argument and the user's line."""

from __future__ import annotations

from ._locate import callers_line

__all__ = ["positive"]


def positive(argument: str, value: object, *, wrong_type: type[Exception] = TypeError) -> int:
    """Return the value if it is an int of at least 1.

    Raises:
        ValueError: If it is smaller.
        wrong_type: If it is no int. A bool is none: ``True`` workers is a mistake.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise wrong_type(f"`{argument}` must be an int of at least 1, got {value!r} ({callers_line()}).")
    if value < 1:
        raise ValueError(f"`{argument}` must be an int of at least 1, got {value} ({callers_line()}).")
    return value
