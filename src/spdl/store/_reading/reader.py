"""Reads objects through a transport, whole or in parts, in one version each."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from spdl.store._protocol.checks import check_inside
from spdl.store._protocol.errors import StoreError
from spdl.store._reading.attempts import Answer, Request, UnknownSizeError
from spdl.store._reading.plan import cut_out, merge_ranges, split_evenly
from spdl.store._reading.room import make_room

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from spdl.store._protocol.address import SecretAddress
    from spdl.store._reading.books import Books
    from spdl.store._reading.plan import Block
    from spdl.store._reading.sender import Sender

__all__ = ["Reader", "Version"]

_T = TypeVar("_T")

_LARGEST = 1 << 23
"""Bytes that one request asks for. More at once would not arrive faster, and would be lost together."""
_BEGINNINGS = 4
_MUCH = 1 << 28
"""Bytes that are asked for by many requests."""


class Version(NamedTuple):
    """One version of an object.

    Attributes:
        size: Its bytes.
        etag: Its name, if the server has one.
    """

    size: int
    etag: str | None


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
        books: The counters.
    """

    def __init__(self, store: str, place: SecretAddress, sender: Sender, books: Books) -> None:
        self._store = store
        self._place = place
        self._sender = sender
        self._books = books

    def look(self, path: str) -> Version:
        """Return the size and version of an object.

        Raises:
            FileNotFoundError: If it is missing.
            StoreError: If the server does not say.
        """
        return self._look(path, self._sender.until())

    def _look(self, path: str, until: float) -> Version:
        answer = self._ask(Request(path, 0, None), until)
        return Version(answer.size, answer.etag)

    def read(self, path: str) -> tuple[Version, memoryview]:
        """Return the version and the content of an object.

        Raises:
            FileNotFoundError: If it is missing.
            StoreError: If it cannot be read.
        """
        return self._unchanged(path, lambda until: self._read(path, until))

    def _read(self, path: str, until: float) -> tuple[Version, memoryview]:
        first = self._ask(Request(path, 0, _LARGEST, or_all=True), until)
        version = Version(first.size, first.etag)
        done = len(first.content)
        if done >= first.size:
            return version, first.content
        # Before anything is planned: the server may say what it likes.
        whole = self._room(path, first.size)
        whole[:done] = first.content
        rest = first.size - done

        def take(request: Request, answer: Answer) -> None:
            _check(request, answer, version)
            whole[request.start : request.start + len(answer.content)] = answer.content

        parts = ((done + offset, length) for offset, length in split_evenly(rest, _LARGEST))
        self._ask_all(path, (Request(path, start, length) for start, length in parts), take)
        return version, whole.toreadonly()

    def read_ranges(self, path: str, starts: Sequence[int], lengths: Sequence[int]) -> tuple[Version, list[memoryview]]:
        """Return the version and parts of an object.

        Raises:
            FileNotFoundError: If it is missing.
            StoreError: If it cannot be read, or ends before one of the parts does.
        """
        return self._unchanged(path, lambda until: self._read_ranges(path, starts, lengths, until))

    def _read_ranges(
        self, path: str, starts: Sequence[int], lengths: Sequence[int], until: float
    ) -> tuple[Version, list[memoryview]]:
        parts = [memoryview(b"")] * len(starts)
        blocks = merge_ranges(starts, lengths, gap=self._books.gap, most=_LARGEST)
        if not blocks:
            return self._look(path, until), parts  # So that a missing object is noticed.
        try:
            version, contents = self._read_blocks(path, blocks, until)
        except _BeyondError as error:
            check_inside(path, self._store, starts, lengths, error.size)
            raise
        for block, content in zip(blocks, contents, strict=True):
            for index, part in cut_out(block, content, starts, lengths):
                parts[index] = part
        return version, parts

    def _read_blocks(self, path: str, blocks: Sequence[Block], until: float) -> tuple[Version, list[memoryview]]:
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
            room = self._room(path, block.length)
            contents.append(room.toreadonly())
            for offset, length in split_evenly(block.length, _LARGEST):
                request = Request(path, block.start + offset, length)
                places.setdefault(request, []).append(room[offset : offset + length])
        versions: list[Version] = []

        def take(request: Request, answer: Answer) -> None:
            if answer.size < end:
                raise _BeyondError(answer.size)
            versions.append(Version(answer.size, answer.etag))
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
        with self._named(path), suppress(UnknownSizeError):
            size = self._sender.answer(Request(path, 0, None), until).size
            if size < end:
                raise _BeyondError(size)

    def _room(self, path: str, length: int) -> memoryview:
        try:
            return make_room(length)
        except MemoryError:
            raise StoreError(f"{path} in {self._store}: there is no memory for its {length} bytes") from None

    def _ask(self, request: Request, until: float) -> Answer:
        with self._named(request.path):
            answer = self._sender.answer(request, until)
            self._check_length(answer, request.path, until)
        return answer

    def _ask_all(self, path: str, requests: Iterator[Request], take: Callable[[Request, Answer], None]) -> None:
        def take_whole(request: Request, answer: Answer, until: float) -> None:
            self._check_length(answer, path, until)
            take(request, answer)

        with self._named(path):
            self._sender.answer_all(requests, take_whole)

    @contextmanager
    def _named(self, path: str) -> Iterator[None]:
        with self._place.hiding():
            try:
                yield
            except FileNotFoundError:
                raise
            except StoreError as error:
                raise StoreError(f"{path} in {self._store}: {error}") from error.__cause__

    def _check_length(self, answer: Answer, path: str, until: float) -> None:
        """Compare an answer whose length the server did not say with the size of the object, if it tells that."""
        if answer.said:
            return
        with suppress(UnknownSizeError):
            if self._sender.answer(Request(path, 0, None), until).size != answer.size:
                raise _ShortError

    def _unchanged(self, path: str, read: Callable[[float], _T]) -> _T:
        until, reason, count = self._sender.until(), "", 0
        # Parts have time of their own, but what is small takes no longer however often it begins.
        while count < _BEGINNINGS and not (count and self._sender.is_over(until)):
            try:
                return read(until)
            except _ChangedError as error:
                reason = error.reason
                self._books.count(error.counter)
            count += 1
        times = "once" if count == 1 else f"{count} times"
        raise StoreError(f"{path} in {self._store}: {reason}, {times}")


def _check(request: Request, answer: Answer, version: Version) -> None:
    if (answer.size, answer.etag) != version or len(answer.content) != request.length:
        raise _ChangedError
