"""What a reader made of a file: named arrays, or a refusal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

Arrays: TypeAlias = dict[str, "npt.NDArray[Any] | Exception"]
"""Arrays by what they show of an image, or by their name in an archive; an error for a member that is refused."""


@dataclass(frozen=True)
class Reading:
    """What a reader made of a file."""

    arrays: Arrays | None = None
    """What it read; None if it refused the file, or was not meant to read it."""
    refusal: Exception | None = None


def read(reader: Callable[[], Arrays | None]) -> Reading:
    """Return what a reader makes of a file."""
    try:
        return Reading(reader())
    except Exception as error:  # noqa: BLE001 - readers of untrusted bytes raise anything; the caller looks at the type.
        return Reading(refusal=error)
