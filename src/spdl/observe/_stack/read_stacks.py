"""Reads the stacks of a process in the best way there is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .fault_handler import by_signal
from .py_spy import by_py_spy
from .thread_stack import NoStacksError

if TYPE_CHECKING:
    from .thread_stack import ThreadStack

__all__ = ["read_stacks"]


def read_stacks(pid: int) -> tuple[str, list[ThreadStack]]:
    """Return how the stacks of a process were read, and the stacks.

    Raises:
        NoStacksError: If that is not possible; it says what is missing.
    """
    reasons = []
    for name, read in (("py-spy", by_py_spy), ("signal", by_signal)):
        try:
            return name, read(pid)
        except NoStacksError as error:
            reasons.append(str(error))
    raise NoStacksError(", and ".join(reasons))
