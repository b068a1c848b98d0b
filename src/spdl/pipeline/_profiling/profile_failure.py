"""Why a stage failed on items while it was measured."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ProfileFailure"]


@dataclass(frozen=True, slots=True)
class ProfileFailure:
    """A cause of failures: a type of exception and the line that raised it.

    Attributes:
        error: The type and the message of the first exception.
        place: The file and line that raised it, as ``train.py:12``. Empty if they are not known.
        num_items: How many different items failed for this cause at least once.
        num_calls: How many calls failed for it. A profile calls an op with the same items again and again.
        traceback: The formatted traceback of the first exception.

    Example:
        >>> from spdl.pipeline import PipelineBuilder, profile_pipeline
        >>> builder = PipelineBuilder().add_source(range(5)).pipe(lambda x: 1 // x, name="invert").add_sink()
        >>> (result,) = profile_pipeline(builder.get_config())
        >>> (failure,) = result.failures
        >>> failure.error, failure.num_items, result.num_items
        ('ZeroDivisionError: integer division or modulo by zero', 1, 5)
    """

    error: str
    place: str
    num_items: int
    num_calls: int
    traceback: str
