"""Numbers that were left open: the defaults, told from the same numbers where somebody chose them."""

from __future__ import annotations

from typing import Any

from spdl._check import positive

__all__ = ["ONE", "THREE", "LeftOpen", "positive_or_open"]


class LeftOpen(int):
    """A default that the tuner may change. In every other respect it is the number."""

    __slots__ = ()


ONE = LeftOpen(1)
THREE = LeftOpen(3)


def positive_or_open(argument: str, value: Any, *, wrong_type: type[Exception] = TypeError) -> int:
    """Return the value as an int of at least 1, and a default as it is; see `check_int`."""
    return value if isinstance(value, LeftOpen) else positive(argument, value, wrong_type=wrong_type)
