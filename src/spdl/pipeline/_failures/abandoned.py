"""The end of a thread whose op was given up."""

from __future__ import annotations

__all__ = ["Abandoned"]


class Abandoned(BaseException):
    """Raised in a worker, with the engine's lock held, whose op returned after it was abandoned."""
