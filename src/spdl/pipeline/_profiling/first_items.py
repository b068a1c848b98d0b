"""Reads the first items of a source, with which a profile begins."""

from __future__ import annotations

from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, Any

from spdl.pipeline._declare.stage_info import SOURCE

from .measure import bare_pipeline

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from spdl.pipeline._declare.records import SourceConfig

__all__ = ["first_items"]

# Reading ends after this time, even if the source has given fewer items than requested.
_MOST_SECONDS = 5.0
# Comes before the items: a pipeline would warn of a source that yields nothing, which is an error here.
_BEGIN = object()


def first_items(config: SourceConfig[Any], num_items: int) -> list[Any]:
    """Return the first items of a source, or fewer if it has fewer or is slow. A continuous source gives one epoch.

    No further item is requested, and the source's iterator is closed.

    Raises:
        PipelineFailure: If the source raised.
        RuntimeError: If there are no items.
    """
    source = config.source
    few = _FewAsync(source, num_items) if hasattr(source, "__aiter__") else _Few(source, num_items)
    with bare_pipeline(replace(config, source=few, continuous=False), [], 1).auto_stop() as pipeline:
        items = list(pipeline)[1:]
    if not items:
        raise RuntimeError(
            f"The source {SOURCE!r} ({config!r}) gave no items, so there is nothing to profile the stages with. "
            "Give a source that has items; a generator that was iterated before has none left."
        )
    return items


class _Few:
    """The first items of an iterable."""

    def __init__(self, source: Any, num_items: int) -> None:
        self._source = source
        self._num_items = num_items

    def __iter__(self) -> Iterator[Any]:
        yield _BEGIN
        iterator = iter(self._source)
        exhausted, ends_at = False, None
        try:
            for _ in range(self._num_items):
                try:
                    item = next(iterator)
                except StopIteration:
                    exhausted = True
                    return
                yield item
                # The first item is not timed: it may take long, for example to open a file.
                ends_at = ends_at or monotonic() + _MOST_SECONDS
                if monotonic() > ends_at:
                    return
        finally:
            # Like a pipeline, close it only after an early end.
            if not exhausted and hasattr(iterator, "close"):
                iterator.close()


class _FewAsync:
    """The first items of an async iterable."""

    def __init__(self, source: Any, num_items: int) -> None:
        self._source = source
        self._num_items = num_items

    async def __aiter__(self) -> AsyncIterator[Any]:
        yield _BEGIN
        iterator, ends_at = aiter(self._source), None
        try:
            for _ in range(self._num_items):
                try:
                    item = await anext(iterator)
                except StopAsyncIteration:
                    return
                yield item
                ends_at = ends_at or monotonic() + _MOST_SECONDS
                if monotonic() > ends_at:
                    return
        finally:
            if hasattr(iterator, "aclose"):
                await iterator.aclose()
