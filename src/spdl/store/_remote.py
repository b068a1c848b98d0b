"""Stores on other machines: objects are read by requests, whole or in parts, in one version each."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from spdl._check import check_seconds
from spdl._counted import note_read, show_counters
from spdl._processes import renew_in_children
from spdl.store._blocks import Block, cut_out, make_room, merge_ranges, split_evenly
from spdl.store._identity import SecretAddress
from spdl.store._requests import Answer, Request, Sender, Transport, UnknownSizeError
from spdl.store._server_limits import RequestCounters, StoreStatistics
from spdl.store._store import CheckedStore, Entry, Spans, StoreError, beyond

if TYPE_CHECKING:
    from typing_extensions import Buffer


_LARGEST = 1 << 23
"""Bytes that one request asks for. More at once would not arrive faster, and would be lost together."""
_BEGINNINGS = 4
_MUCH = 1 << 28
"""Bytes that are asked for by many requests."""


class _VersionChangedError(Exception):
    """Two answers are of different versions of an object."""


class RemoteStore(CheckedStore):
    """A store that is read by requests: planned, counted, limited, repeated, and sent twice if they are late."""

    def __init__(self, place: SecretAddress, timeout: float) -> None:
        self._place = place
        self._timeout = check_seconds("timeout", timeout, above_zero=True)
        self._begin()
        renew_in_children(self)
        show_counters(self, repr(self))

    def _begin(self) -> None:
        counters = self._request_counters = RequestCounters()
        self._transport = self._make_transport(counters)
        # It holds no reference to the store, so that the store is freed when it is no longer used.
        self._sender = Sender(self._transport, counters, self._timeout)
        self._closing = weakref.finalize(self, self._sender.close_soon)

    def _renew(self) -> None:
        self._closing.detach()
        self._transport.abandon()
        self._begin()

    def _make_transport(self, counters: RequestCounters) -> Transport:
        raise NotImplementedError

    def close(self) -> None:
        """Close the connections, and end the threads of the store, as soon as all calls have returned.

        It need not be called: it happens when the store is not used anymore. The next call opens them again.
        """
        self._sender.close()

    def statistics(self) -> StoreStatistics:
        """Return the counts so far. They only grow, and begin again in a forked process.

        The statistics of pipelines have the counts since their start.
        """
        return self._request_counters.statistics()

    def _counters(self) -> dict[str, float]:
        return self._request_counters.totals()

    def _size(self, path: str) -> int:
        return self._look(path).size

    def _look(self, path: str) -> Entry:
        with self._named(path):
            return self._ask_size(path, self._sender.until())

    def _read(self, path: str, ranges: Spans | None) -> tuple[Entry, list[Buffer]]:
        until, count = self._sender.until(), 0
        with self._named(path):
            # Each part of a large object has its own deadline. A small object has one, however often it is begun.
            while count < _BEGINNINGS and not (count and self._sender.monotonic() >= until):
                count += 1
                with suppress(_VersionChangedError):
                    found = self._read_all(path, until) if ranges is None else self._read_ranges(path, *ranges, until)
                    note_read(sum(memoryview(part).nbytes for part in found[1]))
                    return found
                self._request_counters.count("changed")
            raise StoreError(f"it changed while it was read, {'once' if count == 1 else f'{count} times'}")

    @contextmanager
    def _named(self, path: str) -> Iterator[None]:
        with self._place.hiding():
            try:
                yield
            except StoreError as error:
                raise StoreError(f"{path} in {self!r}: {error}") from error.__cause__

    def _read_all(self, path: str, until: float) -> tuple[Entry, list[Buffer]]:
        first = self._sender.answer(Request(path, 0, _LARGEST, or_all=True), until)
        entry, done = _entry(path, first), len(first.content)
        if done >= first.size:
            return entry, [first.content]
        # Before anything is planned: the server may say what it likes.
        whole = _room(first.size)
        whole[:done] = first.content

        def take(request: Request, answer: Answer) -> None:
            _check(request, answer, entry)
            whole[request.start : request.start + len(answer.content)] = answer.content

        parts = split_evenly(first.size - done, _LARGEST)
        self._sender.answer_all((Request(path, done + offset, length) for offset, length in parts), take)
        return entry, [whole.toreadonly()]

    def _read_ranges(
        self, path: str, starts: list[int], lengths: list[int], until: float
    ) -> tuple[Entry, list[Buffer]]:
        blocks = merge_ranges(starts, lengths, gap=self._request_counters.gap.bytes, most=_LARGEST)
        if not blocks:
            return self._ask_size(path, until), cut_out([], [], starts, lengths)  # So that a missing object is noticed.
        end = max(block.start + block.length for block in blocks)

        def check_end(size: int) -> None:
            if size < end:
                raise StoreError(beyond(starts, lengths, size))

        if sum(block.length for block in blocks) > _MUCH:
            # Before anything is planned: an index may say what it likes.
            with suppress(UnknownSizeError):
                check_end(self._ask_size(path, until).size)
        # An answer is a whole block, or goes to its place in one. Two large ones may have the same.
        contents = [_room(block.length) if block.length > _LARGEST else memoryview(b"") for block in blocks]
        places = _split(path, blocks)
        versions: list[Entry] = []

        def take(request: Request, answer: Answer) -> None:
            check_end(answer.size)
            versions.append(_entry(path, answer))
            _check(request, answer, versions[0])
            for number, offset in places[request]:
                if contents[number]:
                    contents[number][offset : offset + len(answer.content)] = answer.content
                else:
                    contents[number] = answer.content

        if len(places) == 1:
            (request,) = places
            take(request, self._sender.answer(request, until))
        else:
            self._sender.answer_all(iter(places), take)
        return versions[0], cut_out(blocks, [content.toreadonly() for content in contents], starts, lengths)

    def _ask_size(self, path: str, until: float) -> Entry:
        return _entry(path, self._sender.answer(Request(path, 0, None), until))


def _room(length: int) -> memoryview:
    try:
        return make_room(length)
    except MemoryError:
        raise StoreError(f"not enough memory for its {length} bytes") from None


def _split(path: str, blocks: list[Block]) -> dict[Request, list[tuple[int, int]]]:
    """Return the requests for blocks, each with the numbers of its blocks and its offsets in them."""
    places: dict[Request, list[tuple[int, int]]] = {}
    for number, block in enumerate(blocks):
        for offset, length in split_evenly(block.length, _LARGEST):
            places.setdefault(Request(path, block.start + offset, length), []).append((number, offset))
    return places


def _entry(path: str, answer: Answer) -> Entry:
    return Entry(path, answer.size, answer.etag)


def _check(request: Request, answer: Answer, entry: Entry) -> None:
    if (answer.size, answer.etag) != entry[1:] or len(answer.content) != request.length:
        raise _VersionChangedError
