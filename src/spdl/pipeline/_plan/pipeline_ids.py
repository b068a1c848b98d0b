"""The numbers that tell the pipelines of a process apart."""

from __future__ import annotations

import itertools

__all__ = ["next_pipeline_id", "number_pipelines_from"]

_ids = itertools.count()


def next_pipeline_id() -> int:
    """Return the number of the pipeline that is built next."""
    return next(_ids)


def number_pipelines_from(first: int) -> None:
    """Give the pipelines of this process numbers from ``first`` on, for a process that continues another's count."""
    global _ids  # noqa: PLW0603 - the count is the process's.
    _ids = itertools.count(first)
