"""Answers of servers that are unusual, byte by byte: each script is one connection's answers, in turn."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from tests.store.http.scripted_server import LETTERS, say, say_part, serving

from spdl.store import CachedStore, HTTPStore, StoreError

if TYPE_CHECKING:
    import socket
    from pathlib import Path


@pytest.mark.parametrize(
    "refusal",
    [
        say("403 Forbidden", Content_Length="9"),
        say("405 Method Not Allowed", Content_Length="0", Allow="GET"),
        say("501 Not Implemented", Content_Length="0"),
        say("200 OK", ETag='"1"'),
        say("200 OK", Content_Length="0", ETag='"1"'),
    ],
)
@pytest.mark.parametrize("parts", [True, False])
def test_a_server_that_tells_a_size_by_get_alone(refusal: bytes, parts: bool) -> None:  # noqa: FBT001 - a parameter.
    def answer(method: str, wanted: str) -> tuple[bytes, bool]:
        if method == "HEAD":
            return refusal, True
        if parts:
            assert wanted == "0-0"
            return say("206 Partial", LETTERS[:1], Content_Length="1", Content_Range="bytes 0-0/10", ETag='"1"'), True
        return say("200 OK", LETTERS, Content_Length="10", ETag='"1"'), True

    with serving(answer) as (url, asked):
        store = HTTPStore(url, timeout=30)
        assert store.size("x") == 10
        assert [tuple(entry) for entry in store.list("x")] == [("x", 10, '"1"')]
        assert asked == ["HEAD", "GET 0-0"] * 2
        store.close()


@pytest.mark.parametrize("head", ["405 Method Not Allowed", "200 OK"])
@pytest.mark.parametrize("length", ["5x", "-5", "9" * 30])
def test_a_length_that_is_no_number_is_asked_for_again(head: str, length: str) -> None:
    faulty = [True]

    def answer(method: str, _: str) -> tuple[bytes, bool]:
        if method == "HEAD":
            return say(head, Content_Length=length if head == "200 OK" else "0"), head != "200 OK"
        if faulty and faulty.pop():
            return say("200 OK", LETTERS, Content_Length=length), False
        return say("200 OK", LETTERS, Content_Length="10"), False

    with serving(answer) as (url, asked):
        store = HTTPStore(url, timeout=30)
        assert store.size("x") == 10
        assert asked == ["HEAD", "GET 0-0"] * 2
        store.close()


def test_an_empty_object_whose_size_is_told_by_get_alone() -> None:
    def answer(method: str, _: str) -> tuple[bytes, bool]:
        if method == "HEAD":
            return say("403 Forbidden", Content_Length="0"), True
        return say("416 Range", Content_Length="0", Content_Range="bytes */0"), True

    with serving(answer) as (url, _):
        store = HTTPStore(url, timeout=30)
        assert store.size("x") == 0
        store.close()


def test_a_server_that_refuses_both() -> None:
    with serving(lambda *_: (say("403 Forbidden", Content_Length="0"), True)) as (url, asked):
        store = HTTPStore(url, timeout=30)
        with pytest.raises(StoreError, match="the server answered 403"):
            store.size("x")
        assert asked == ["HEAD", "GET 0-0"]
        store.close()


@pytest.mark.usefixtures("no_pauses")
def test_an_answer_without_a_length_that_is_cut() -> None:
    cuts = [4, 10]

    def answer(method: str, _: str) -> tuple[bytes, bool]:
        if method == "HEAD":
            return say("200 OK", Content_Length="10"), True
        return say("200 OK", LETTERS[: cuts.pop(0)]), False

    with serving(answer) as (url, _):
        store = HTTPStore(url)
        assert bytes(store.get("x")) == LETTERS
        assert store.statistics().cut == 1
        cuts += [4] * 8
        with pytest.raises(StoreError, match=r"whose length the server did not say \(attempt 8, after"):
            store.get_ranges("x", [1], [2])
        store.close()


def test_an_answer_without_a_length_from_a_server_that_never_tells_one() -> None:
    with serving(lambda *_: (say("200 OK", LETTERS), False)) as (url, _):
        store = HTTPStore(url, timeout=30)
        assert bytes(store.get("x")) == LETTERS
        store.close()


@pytest.mark.parametrize("at_once", [True, False])
def test_bytes_that_nobody_asked_for_are_no_answer(at_once: bool) -> None:  # noqa: FBT001 - a parameter.
    """A server sends more than it announced, with its answer or a moment later."""
    forged = say("206 OK", b"!", Content_Length="1", Content_Range="bytes 0-0/1")
    answers = iter([b"0", b"1"])
    connections: list[socket.socket] = []

    def answer(_: str, __: str) -> tuple[bytes, bool]:
        good = say("206 OK", next(answers), Content_Length="1", Content_Range="bytes 0-0/1")
        return good + forged * at_once, True

    with serving(answer, connections=connections) as (url, _):
        store = HTTPStore(url, timeout=30)
        assert bytes(store.get("x")) == b"0"
        if not at_once:
            connections[0].sendall(forged)
            time.sleep(0.05)
        assert bytes(store.get("x")) == b"1"
        assert at_once or store.statistics().connections == 2
        store.close()


def test_what_is_no_text_is_not_in_a_message() -> None:
    body = bytes(range(256))
    with serving(lambda *_: (say("418 Teapot", body, Content_Length="256"), True)) as (url, _):
        store = HTTPStore(url, timeout=30)
        with pytest.raises(StoreError, match=r"the server answered 418 \(attempt 1|the server answered 418$"):
            store.get("x")
        store.close()


@pytest.mark.parametrize("head", [say("200 OK", ETag='"1"'), say("200 OK", ETag='"1"', Content_Length="0")])
@pytest.mark.parametrize(
    "error",
    [
        say("416 Range", Content_Length="0", Content_Range="bytes */0"),
        say("416 Range", Content_Length="0", Content_Range="bytes */0", ETag='"page"'),
        say("416 Range", Content_Length="0", Content_Range="bytes */0", Last_Modified="Wed, 21 Oct 2015 07:28:00 GMT"),
    ],
)
@pytest.mark.parametrize("content", [b"", LETTERS])
def test_a_cache_keeps_what_head_gives_no_length_or_0_of(
    tmp_path: Path, content: bytes, head: bytes, error: bytes
) -> None:
    def answer(method: str, wanted: str) -> tuple[bytes, bool]:
        if method == "HEAD":
            return head, True
        return (say_part(content, wanted) if content else error), True

    with serving(answer) as (url, _):
        store = HTTPStore(url, timeout=30)
        cached = CachedStore(store, tmp_path, 10**6)
        assert [bytes(cached.get("x")) for _ in range(2)] == [content] * 2
        assert cached.size("x") == len(content)
        assert cached.statistics()[1:] == (1, 1, 0, 0)
        store.close()


def test_an_empty_object_has_the_same_version_however_it_is_read() -> None:
    modified = "Wed, 21 Oct 2015 07:28:00 GMT"

    def answer(method: str, _: str) -> tuple[bytes, bool]:
        if method == "HEAD":
            return say("200 OK", Content_Length="0", Last_Modified=modified), True
        return say("416 Range", Content_Length="0", Content_Range="bytes */0", Last_Modified=modified), True

    with serving(answer) as (url, _):
        store = HTTPStore(url, timeout=30)
        assert [store.read_version("x")[0]] == list(store.list("x"))
        store.close()
