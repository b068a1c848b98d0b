"""What becomes of objects that nobody wants any more."""

from __future__ import annotations

import contextlib
from types import CoroutineType
from typing import Any

__all__ = ["throw_away"]


def throw_away(rubbish: list[Any]) -> None:
    """Empty a list of such objects, whose finalizers may run now: nobody calls it with the engine's lock held."""
    for value in rubbish:
        # What an op returned to a stage that had ended meanwhile: Python would complain that it was never awaited.
        if type(value) is CoroutineType and not value.cr_running and not value.cr_suspended:
            # Whoever else has it may begin to run it at this very moment.
            with contextlib.suppress(Exception):
                value.close()
    rubbish.clear()
