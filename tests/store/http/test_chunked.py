"""Chunks are put together, however they are cut up on their way."""

from __future__ import annotations

import contextlib
import http.client
import io
import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.store._http.chunked import Chunked

if TYPE_CHECKING:
    import socket


class _Socket:
    def __init__(self, data: bytes) -> None:
        self.data = data

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self.data)


def oracle(encoded: bytes) -> bytes:
    sock: socket.socket = _Socket(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + encoded)  # type: ignore[assignment]
    response = http.client.HTTPResponse(sock)
    response.begin()
    return response.read()


@given(
    parts=st.lists(st.binary(min_size=1, max_size=40), max_size=8),
    extension=st.sampled_from([b"", b";a=1", b" ;b"]),
    trailer=st.sampled_from([b"", b"Expires: never\r\n"]),
    cuts=st.lists(st.integers(0, 400), max_size=20),
    rest=st.binary(max_size=3),
)
def test_any_cuts(parts: list[bytes], extension: bytes, trailer: bytes, cuts: list[int], rest: bytes) -> None:
    encoded = b"".join(b"%x%b\r\n%b\r\n" % (len(part), extension, part) for part in parts) + b"0\r\n%b\r\n" % trailer
    assert oracle(encoded) == b"".join(parts)
    edges = [0, *sorted(cut for cut in cuts if cut < len(encoded)), len(encoded)]
    chunks = Chunked()
    for start, stop in itertools.pairwise(edges):
        assert not chunks.ended
        chunks.feed(encoded[start:stop] + (rest if stop == len(encoded) else b""))
    assert chunks.ended
    assert bytes(chunks.content) == b"".join(parts)
    assert chunks.rest == rest


@pytest.mark.parametrize("data", [b"x\r\n", b"-1\r\n", b"\r\n", b"3\r\nabcd\r\n", b"1" * 5000, b"f" * 16 + b"\r\n"])
def test_what_is_no_chunk(data: bytes) -> None:
    with pytest.raises(ValueError, match="chunks"):
        Chunked().feed(data)


@given(data=st.binary(max_size=40))
def test_anything(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        Chunked().feed(data)
