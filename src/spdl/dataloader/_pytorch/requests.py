"""What goes to a worker and what comes back."""

from __future__ import annotations

from typing import Any, NamedTuple

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

__all__ = ["Outcome", "Request", "is_stateful"]


class Request(NamedTuple):
    """What to load: the indices of one batch, or one index if there are no batches.

    Attributes:
        number: The number of the batch in its epoch.
        index: The indices or the index.
    """

    number: int
    index: Any


class Outcome(NamedTuple):
    """What came of a request.

    Attributes:
        number: That of the request.
        batch: The batch, unless there is an error.
        error: The exception that loading ended in, or None.
    """

    number: int
    batch: Any
    error: BaseException | None


def is_stateful(part: object) -> bool:
    """Return whether an object of the user's has the two methods by which states are saved and restored."""
    return callable(getattr(part, "state_dict", None)) and callable(getattr(part, "load_state_dict", None))
