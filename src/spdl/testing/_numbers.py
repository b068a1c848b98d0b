"""The numbers that a check is to try."""

from __future__ import annotations

from typing import Any

from spdl._check import positive, refuse

__all__ = ["check_numbers"]


def check_numbers(argument: str, value: Any) -> list[int]:
    """Return the numbers of ranks, or the batch sizes.

    Args:
        argument: The argument that has them.
        value: What was given.

    Raises:
        TypeError, ValueError: If it is no sequence of ints of at least 1.
    """
    accepted = "a sequence of ints of at least 1, each of which is tried, such as (1, 2, 3)"
    if not hasattr(type(value), "__iter__"):
        remedy = f"To try it alone, pass {argument}=[{value!r}]." if isinstance(value, int) and value > 0 else ""
        refuse(TypeError, argument, accepted, value, remedy)
    found = [positive(f"{argument}[{place}]", number) for place, number in enumerate(value)]
    if not found:
        refuse(ValueError, argument, accepted, value)
    return found
