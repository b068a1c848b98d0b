"""Files that cannot be read and are left out of a source."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from spdl._check import is_fraction
from spdl.io import FormatError
from spdl.source._records.defects import Defect, is_defect

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

__all__ = ["REMEDY", "ShardFailure", "is_broken", "leave_out"]

REMEDY = "To leave out archives that are damaged or missing, say how many at most: max_failures=1."
"""What the error for one of them adds."""

_SHOWN = 5
_LOGGED = 10

_LOG = logging.getLogger("spdl.source")


class ShardFailure(NamedTuple):
    """An archive that was left out of a source, since it is damaged, cut short or missing.

    Example:
        >>> ShardFailure(path="train-0007.tar", reason="FormatError: 'train-0007.tar' is truncated").path
        'train-0007.tar'
    """

    path: str
    """Its path; in a store, its path there."""
    reason: str
    """What is wrong with it."""


def is_broken(error: Exception) -> bool:
    """Return whether an error tells of one file that is damaged or missing, and not of the storage."""
    return is_defect(error) and isinstance(error, FormatError | FileNotFoundError)


def leave_out(
    called: str, failed: Sequence[tuple[str, Exception]], count: int, limit: int | Fraction
) -> list[ShardFailure]:
    """Return the record of files that are left out, and log it.

    Args:
        called: What messages call the files.
        failed: The path of each, and why it cannot be read.
        count: How many files there are, with these.
        limit: How many may be left out, or which share of them. A negative number is no limit.

    Raises:
        FormatError: If there are more of them, or no other file.
    """
    failures = [ShardFailure(path, Defect.of(error).reason) for path, error in failed]
    share = is_fraction(limit)
    most = limit * count if share else count if limit < 0 else limit
    if len(failures) > most or len(failures) == count:
        allowed = f"`max_failures` allows {limit}{' of them' if share else ''}"
        why = "none is left" if len(failures) == count else allowed
        shown = [f"{each.path}: {each.reason}" for each in failures[:_SHOWN]]
        if len(failures) > _SHOWN:
            shown.append(f"and {len(failures) - _SHOWN} more")
        message = f"{len(failures)} of {count} {called} cannot be read, and {why}: {'; '.join(shown)}"
        raise FormatError(message, path=failures[0].path) from failed[0][1]
    for each in failures[:_LOGGED]:
        _LOG.warning("%s cannot be read, and is left out: %s", each.path, each.reason)
    if failures:
        _LOG.warning("%d of %d %s are left out of the source", len(failures), count, called)
    return failures
