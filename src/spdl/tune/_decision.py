"""What the tuner decides."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ._limits import Limits
    from ._window import Window

__all__ = ["Decision"]


class Decision(NamedTuple):
    """What to do now.

    Attributes:
        limits: The limits that come next; the ones in force if nothing is to change.
        move: What kind of change this is, one of those of `History`; empty if nothing is to change.
        reason: Why, in one sentence.
        settled: Whether nothing more is to be gained.
        kept: Whether the last step was found to be worth it just now, which the history is to note.
        seen: The window in which nothing was found to do just now, which the history is to note.
    """

    limits: Limits
    move: str
    reason: str
    settled: bool = False
    kept: bool = False
    seen: Window | None = None
