"""Reads objects through a transport, whole or in parts, in one version each."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeVar

from spdl.store._protocol.checks import check_inside
from spdl.store._protocol.errors import StoreError
from spdl.store._reading.attempts import Answer, Request, UnknownSizeError
from spdl.store._reading.plan import cut_out, merge_ranges, split_evenly
from spdl.store._reading.room import make_room

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spdl.store._reading.books import Books

__all__ = ["Reader", "Version"]

_T = TypeVar("_T")

_LARGEST = 1 << 23
"""Bytes that one request asks for. More at once would not arrive faster, and would be lost together."""
_BEGINNINGS = 4


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


class Reader:
    """Reads objects: plans the requests, and puts the answers together. Threads share it.

    Args:
        store: The repr of the store, which errors name.
        ask: Returns the answers of requests.
        books: The counters.
    """

    def __init__(self, store: str, ask: Callable[[Sequence[Request]], list[Answer]], books: Books) -> None:
        self._store = store
        self._answers_of = ask
        self._books = books

    def look(self, path: str) -> Version:
        """Return the size and version of an object.

        Raises:
            FileNotFoundError: If it is missing.
            StoreError: If the server does not say.
        """
        (answer,) = self._ask(path, [Request(path, 0, None)])
        return Version(answer.size, answer.etag)

    def read(self, path: str) -> tuple[Version, memoryview]:
        """Return the version and the content of an object.

        Raises:
            FileNotFoundError: If it is missing.
            StoreError: If it cannot be read.
        """
        return self._unchanged(path, lambda: self._read(path))

    def _read(self, path: str) -> tuple[Version, memoryview]:
        (first,) = self._ask(path, [Request(path, 0, _LARGEST, or_all=True)])
        version = Version(first.size, first.etag)
        done = len(first.content)
        if done >= first.size:
            return version, first.content
        parts = split_evenly(first.size - done, _LARGEST)
        rest = self._ask(path, [Request(path, done + offset, length) for offset, length in parts])
        _check_version(rest, version)
        return version, _joined([first, *rest], first.size)

    def read_ranges(self, path: str, starts: Sequence[int], lengths: Sequence[int]) -> tuple[Version, list[memoryview]]:
        """Return the version and parts of an object.

        Raises:
            FileNotFoundError: If it is missing.
            StoreError: If it cannot be read, or ends before one of the parts does.
        """
        return self._unchanged(path, lambda: self._read_ranges(path, starts, lengths))

    def _read_ranges(
        self, path: str, starts: Sequence[int], lengths: Sequence[int]
    ) -> tuple[Version, list[memoryview]]:
        parts = [memoryview(b"")] * len(starts)
        blocks = merge_ranges(starts, lengths, gap=self._books.gap, most=_LARGEST)
        splits = [split_evenly(block.length, _LARGEST) for block in blocks]
        answers = self._ask(
            path,
            [
                Request(path, block.start + offset, length)
                for block, split in zip(blocks, splits, strict=True)
                for offset, length in split
            ],
        )
        if not answers:
            return self.look(path), parts  # So that a missing object is noticed.
        if all(answer.size == answers[0].size for answer in answers):
            # First, since what lies beyond the end has no version.
            check_inside(path, self._store, starts, lengths, answers[0].size)
        version = Version(answers[0].size, answers[0].etag)
        _check_version(answers, version)
        following = iter(answers)
        for block, split in zip(blocks, splits, strict=True):
            own = [next(following) for _ in split]
            content = own[0].content if len(own) == 1 else _joined(own, block.length)
            for index, part in cut_out(block, content, starts, lengths):
                parts[index] = part
        return version, parts

    def _ask(self, path: str, requests: list[Request]) -> list[Answer]:
        try:
            answers = self._answers_of(requests)
            if not all(answer.said for answer in answers):
                self._check_lengths(path, answers)
        except FileNotFoundError:
            raise
        except StoreError as error:
            raise StoreError(f"{path} in {self._store}: {error}") from error.__cause__
        return answers

    def _check_lengths(self, path: str, answers: Sequence[Answer]) -> None:
        """Compare answers whose length the server did not say with the size of the object, if it tells that."""
        try:
            (now,) = self._answers_of([Request(path, 0, None)])
        except UnknownSizeError:
            return
        size = now.size
        if any(answer.size != size for answer in answers if not answer.said):
            raise _ShortError

    def _unchanged(self, path: str, read: Callable[[], _T]) -> _T:
        reason = ""
        for _ in range(_BEGINNINGS):
            try:
                return read()
            except _ChangedError as error:
                reason = error.reason
                self._books.count(error.counter)
        raise StoreError(f"{path} in {self._store}: {reason}, {_BEGINNINGS} times")


def _check_version(answers: Sequence[Answer], version: Version) -> None:
    if any((answer.size, answer.etag) != version for answer in answers):
        raise _ChangedError


def _joined(answers: Sequence[Answer], length: int) -> memoryview:
    whole = make_room(length)
    done = 0
    for answer in answers:
        whole[done : done + len(answer.content)] = answer.content
        done += len(answer.content)
    if done != length:  # Every answer had the whole range below the same size.
        raise _ChangedError
    return whole.toreadonly()
