"""The sources of the programs."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Generator, Iterable, Iterator
from typing import Any

from spdl.pipeline import Pipeline, PipelineBuilder

from .behaviour import is_unsendable, source_sleeps
from .item import Item
from .lab import Lab, ProvokedError, SourceRecord
from .program import Source

# How long a source blocks where it does.
BLOCKED = 0.3
# No epoch goes on where an iterator has ended, so it is not asked so often.
_MOST_PASSES = 20


class _Maker:
    """Makes the items of one pass over a source."""

    def __init__(self, lab: Lab, source: Source, record: SourceRecord) -> None:
        self.lab = lab
        self.source = source
        self.record = record
        self.epoch = record.iterate()
        self.position = 0

    def seconds(self) -> float:
        """Return how long to sleep before the next item."""
        if self.position == self.source.blocks_at:
            return BLOCKED
        sleeps = source_sleeps(self.source, self.record.number, self.position)
        return self.source.sleep_seconds if sleeps else 0.0

    def next(self) -> Item | None:
        """Return the next item, or None at the end."""
        if self.position == self.source.raise_at and self.epoch == self.source.raise_epoch:
            self.record.raised = True
            self.lab.rest.fail()
            raise ProvokedError(f"source {self.record.number}")
        if self.position == self.source.size:
            self.record.exhausted += 1
            if self.source.kind == "once" and self.record.exhausted > _MOST_PASSES:
                self.lab.report(f"source {self.record.number} has ended, and is iterated for ever")
                raise ProvokedError(f"source {self.record.number}")
            return None
        item = Item(self.record.number, self.position, self.epoch)
        item.watched = self.lab.sees_drops
        item.sendable = not is_unsendable(self.source, self.record.number, self.position)
        self.position += 1
        self.record.pulled += 1
        return item

    def close(self) -> None:
        self.record.closed += 1
        self.lab.host.step()
        if self.source.raise_in_close:
            self.lab.rest.fail()
            raise ProvokedError(f"close of source {self.record.number}")


def _generate(lab: Lab, source: Source, record: SourceRecord) -> Generator[Item, None, None]:
    maker = _Maker(lab, source, record)
    record.opened += 1
    try:
        while True:
            with record.pull.call():
                lab.sleep(maker.seconds())
                item = maker.next()
            if item is None:
                return
            yield item
            del item
    finally:
        maker.close()


async def _generate_async(lab: Lab, source: Source, record: SourceRecord) -> AsyncGenerator[Item, None]:
    maker = _Maker(lab, source, record)
    record.opened += 1
    try:
        while True:
            with record.pull.call():
                await asyncio.sleep(maker.seconds())
                item = maker.next()
            if item is None:
                return
            yield item
            del item
    finally:
        maker.close()


class _Iterator:
    """An iterator with ``close()``."""

    def __init__(self, lab: Lab, source: Source, record: SourceRecord) -> None:
        self.maker = _Maker(lab, source, record)
        record.opened += 1

    def __iter__(self) -> "_Iterator":
        return self

    def __next__(self) -> Item:
        with self.maker.record.pull.call():
            self.maker.lab.sleep(self.maker.seconds())
            item = self.maker.next()
        if item is None:
            raise StopIteration
        return item

    def close(self) -> None:
        self.maker.close()


class _Once(_Iterator):
    """An iterator that is the source itself, and has its items once."""

    def __init__(self, lab: Lab, source: Source, record: SourceRecord) -> None:
        super().__init__(lab, source, record)
        record.opened = 0

    def __iter__(self) -> "_Once":
        self.maker.record.opened = 1
        return self


class _AsyncIterator:
    """An async iterator with ``aclose()``."""

    def __init__(self, lab: Lab, source: Source, record: SourceRecord) -> None:
        self.maker = _Maker(lab, source, record)
        record.opened += 1

    def __aiter__(self) -> "_AsyncIterator":
        return self

    async def __anext__(self) -> Item:
        with self.maker.record.pull.call():
            await asyncio.sleep(self.maker.seconds())
            item = self.maker.next()
        if item is None:
            raise StopAsyncIteration
        return item

    async def aclose(self) -> None:
        self.maker.close()


class _Again:
    """An iterable that starts again each time it is iterated."""

    def __init__(self, start: Callable[[], Iterator[Any]]) -> None:
        self.start = start

    def __iter__(self) -> Iterator[Any]:
        return self.start()


class _AsyncAgain:
    """An async iterable that starts again each time it is iterated."""

    def __init__(self, start: Callable[[], Any]) -> None:
        self.start = start

    def __aiter__(self) -> Any:
        return self.start()


def _list(lab: Lab, source: Source, record: SourceRecord) -> Iterator[Item]:
    epoch = record.iterate()
    items = [Item(record.number, position, epoch) for position in range(source.size)]
    for item in items:
        item.watched = lab.sees_drops
        item.sendable = not is_unsendable(source, record.number, item.position)
    return map(record.count, items)


def make_source(
    lab: Lab, source: Source, record: SourceRecord, inner: list[Pipeline[Any]]
) -> Iterable[Any] | AsyncIterable[Any]:
    """Return a source. A pipeline that is made for it is added to ``inner``, and stopped by the caller."""
    starts: dict[str, Callable[[], Any]] = {
        "list": lambda: _list(lab, source, record),
        "generator": lambda: _generate(lab, source, record),
        "iterator": lambda: _Iterator(lab, source, record),
        "async_generator": lambda: _generate_async(lab, source, record),
        "async_iterator": lambda: _AsyncIterator(lab, source, record),
    }
    if source.kind == "generator" and not lab.program.continuous:
        return _generate(lab, source, record)
    if source.kind == "once":
        return _Once(lab, source, record)
    if source.kind in starts:
        again = _AsyncAgain if source.kind.startswith("async") else _Again
        return again(starts[source.kind])
    pipeline: Pipeline[Any] = (
        PipelineBuilder[Any, Any]()
        .add_source(_Again(lambda: _Iterator(lab, source, record)), continuous=lab.program.continuous)
        .add_sink(2)
        .build(num_threads=1)
    )
    inner.append(pipeline)
    return pipeline
