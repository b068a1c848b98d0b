"""Reads objects through a transport, whole or in parts, in one version each."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NoReturn

from spdl.store._protocol.checks import check_inside
from spdl.store._protocol.store import Entry, StoreError
from spdl.store._reading.attempts import Answer, Request, UnknownSizeError
from spdl.store._reading.ranges import cut_out, make_room, merge_ranges, split_evenly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from typing_extensions import Buffer

    from spdl.store._protocol.address import SecretAddress
    from spdl.store._protocol.base import Ranges
    from spdl.store._reading.ranges import Block
    from spdl.store._reading.sender import Sender

__all__ = ["Reader"]

_LARGEST = 1 << 23
"""Bytes that one request asks for. More at once would not arrive faster, and would be lost together."""
_BEGINNINGS = 4
_MUCH = 1 << 28
"""Bytes that are asked for by many requests."""


class _ChangedError(Exception):
    """Raised if two answers are of different versions of an object."""

    reason = "it changed while it was read"
    counter = "changed"


class _ShortError(_ChangedError):
    """Raised if an answer whose length nobody told ends before the object does."""

    reason = "the connection ended before the answer did, whose length the server did not say"
    counter = "cut"


class _BeyondError(Exception):
    """Raised if an object ends before what is asked for."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


class Reader:
    """Reads objects: plans the requests, and puts the answers together. Threads share it.

    Args:
        store: The repr of the store, which errors name.
        place: The address, which hides its secrets in errors.
        sender: Has requests answered.
    """

    def __init__(self, store: str, place: SecretAddress, sender: Sender) -> None:
        self._store = store
        self._place = place
        self._sender = sender

    def look(self, path: str) -> Entry:
        """Return the size and version of an object."""
        try:
            return self._look(path, self._sender.until())
        except Exception as error:  # noqa: BLE001 - raised there.
            self._raise_named(path, error)

    def read(self, path: str, ranges: Ranges | None) -> tuple[Entry, list[Buffer]]:
        """Return the version of an object, and its content or parts of it."""
        try:
            return self._read_unchanged(path, ranges)
        except _BeyondError as error:
            assert ranges is not None
            check_inside(path, self._store, *ranges, error.size)
            raise
        except Exception as error:  # noqa: BLE001 - raised there.
            self._raise_named(path, error)

    def _raise_named(self, path: str, error: Exception) -> NoReturn:
        with self._place.hiding():
            if isinstance(error, StoreError):
                raise StoreError(f"{path} in {self._store}: {error}") from error.__cause__
            raise error

    def _read_unchanged(self, path: str, ranges: Ranges | None) -> tuple[Entry, list[Buffer]]:
        until, reason, count = self._sender.until(), "", 0
        # Parts have time of their own, but what is small takes no longer however often it begins.
        while count < _BEGINNINGS and not (count and self._sender.is_over(until)):
            try:
                return self._read(path, until) if ranges is None else self._read_ranges(path, *ranges, until)
            except _ChangedError as error:
                reason = error.reason
                self._sender.books.count(error.counter)
            count += 1
        raise StoreError(f"{reason}, {'once' if count == 1 else f'{count} times'}")

    def _look(self, path: str, until: float) -> Entry:
        return _entry(path, self._ask(Request(path, 0, None), until))

    def _read(self, path: str, until: float) -> tuple[Entry, list[Buffer]]:
        first = self._ask(Request(path, 0, _LARGEST, or_all=True), until)
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
        self._ask_all(path, (Request(path, done + offset, length) for offset, length in parts), take)
        return entry, [whole.toreadonly()]

    def _read_ranges(
        self, path: str, starts: list[int], lengths: list[int], until: float
    ) -> tuple[Entry, list[Buffer]]:
        parts: list[Buffer] = [b""] * len(starts)
        blocks = merge_ranges(starts, lengths, gap=self._sender.books.gap, most=_LARGEST)
        if not blocks:
            return self._look(path, until), parts  # So that a missing object is noticed.
        entry, contents = self._read_blocks(path, blocks, until)
        for block, content in zip(blocks, contents, strict=True):
            for index, part in cut_out(block, content, starts, lengths):
                parts[index] = part
        return entry, parts

    def _read_blocks(self, path: str, blocks: Sequence[Block], until: float) -> tuple[Entry, list[memoryview]]:
        end = max(block.start + block.length for block in blocks)
        if sum(block.length for block in blocks) > _MUCH:
            # Before anything is planned: an index may say what it likes.
            self._check_end(path, end, until)
        contents: list[memoryview] = []
        # Where each answer goes: into blocks of many, or it is one. Two large ranges may be the same.
        places: dict[Request, list[memoryview]] = {}
        whole: dict[Request, list[int]] = {}
        for number, block in enumerate(blocks):
            if block.length <= _LARGEST:
                request = Request(path, block.start, block.length)
                places.setdefault(request, [])
                whole.setdefault(request, []).append(number)
                contents.append(memoryview(b""))
                continue
            room = _room(block.length)
            contents.append(room.toreadonly())
            for offset, length in split_evenly(block.length, _LARGEST):
                request = Request(path, block.start + offset, length)
                places.setdefault(request, []).append(room[offset : offset + length])
        versions: list[Entry] = []

        def take(request: Request, answer: Answer) -> None:
            if answer.size < end:
                raise _BeyondError(answer.size)
            versions.append(_entry(path, answer))
            _check(request, answer, versions[0])
            for place in places[request]:
                place[:] = answer.content
            for number in whole.get(request, ()):
                contents[number] = answer.content

        if len(places) == 1:
            (request,) = places
            take(request, self._ask(request, until))
        else:
            self._ask_all(path, iter(places), take)
        return versions[0], contents

    def _check_end(self, path: str, end: int, until: float) -> None:
        with suppress(UnknownSizeError):
            size = self._sender.answer(Request(path, 0, None), until).size
            if size < end:
                raise _BeyondError(size)

    def _ask(self, request: Request, until: float) -> Answer:
        answer = self._sender.answer(request, until)
        self._check_length(answer, request.path, until)
        return answer

    def _ask_all(self, path: str, requests: Iterator[Request], take: Callable[[Request, Answer], None]) -> None:
        def take_whole(request: Request, answer: Answer, until: float) -> None:
            self._check_length(answer, path, until)
            take(request, answer)

        self._sender.answer_all(requests, take_whole)

    def _check_length(self, answer: Answer, path: str, until: float) -> None:
        """Compare an answer whose length the server did not say with the size of the object, if it tells that."""
        if answer.said:
            return
        with suppress(UnknownSizeError):
            if self._sender.answer(Request(path, 0, None), until).size != answer.size:
                raise _ShortError


def _room(length: int) -> memoryview:
    try:
        return make_room(length)
    except MemoryError:
        raise StoreError(f"there is no memory for its {length} bytes") from None


def _entry(path: str, answer: Answer) -> Entry:
    return Entry(path, answer.size, answer.etag)


def _check(request: Request, answer: Answer, entry: Entry) -> None:
    if (answer.size, answer.etag) != entry[1:] or len(answer.content) != request.length:
        raise _ChangedError
