"""A sample that could not be loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["SampleFailure", "describe_failures"]

_SHOWN = 5


class SampleFailure(NamedTuple):
    """A sample that a loader could not load.

    Example:
        >>> SampleFailure(epoch=0, index=7, path="7.jpg", reason="truncated", replacement=3).index
        7
    """

    epoch: int
    """The number of the epoch; in ``loader.failures`` that of the last time."""
    index: int  # type: ignore[assignment]  # Shadows tuple.index, which a record does not need.
    """The position of the sample in the source."""
    path: str | None
    """Its path or name, or its URL without what may be a secret; else where the source has it, such as
    ``"train-0000.tar/000012"``; None if it cannot say."""
    reason: str
    """What went wrong."""
    replacement: int | None = None
    """The position of the sample that took its place; None if its place was left out."""
    times: int = 1
    """How often it has failed; in ``loader.failures`` in all epochs."""


def describe_failures(failures: Sequence[SampleFailure], count: int, media: str, remedy: str) -> str:
    """Return the message of an error about failed samples of a batch."""
    lines = [f"{len(failures)} of {count} {media} of a batch could not be loaded"]
    lines += [f"  sample {each.index}, {each.path!r}: {each.reason}" for each in failures[:_SHOWN]]
    if len(failures) > _SHOWN:
        lines.append(f"  and {len(failures) - _SHOWN} more")
    return "\n".join([*lines, remedy] if remedy else lines)
