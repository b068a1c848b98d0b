"""Heads of answers are read as the standard library reads them, and what is no HTTP is refused."""

from __future__ import annotations

import contextlib
import http.client
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.store._http.head import content_range, parse_head

NAMES = st.text("abcdefghijklmnopqrstuvwxyzABCXYZ-", min_size=1, max_size=12)
VALUES = st.text(st.characters(min_codepoint=33, max_codepoint=255, exclude_characters="\x7f\x85\xa0"), max_size=20)


@given(headers=st.dictionaries(NAMES, VALUES, max_size=8), spaces=st.sampled_from(["", " ", "  \t"]))
def test_headers(headers: dict[str, str], spaces: str) -> None:
    headers = {name: value for name, value in headers.items() if name.lower() != "connection"}
    lines = "".join(f"{name}:{spaces}{value}{spaces}\r\n" for name, value in headers.items()).encode("latin-1")
    oracle = http.client.parse_headers(io.BytesIO(lines + b"\r\n"))
    found = parse_head((b"HTTP/1.1 206 Partial Content\r\n" + lines).removesuffix(b"\r\n"))
    assert found.status == 206
    assert found.keeps
    expected: dict[str, str] = {}
    for name, value in oracle.items():
        lower = name.lower()
        expected[lower] = f"{expected[lower]}, {value.strip()}" if lower in expected else value.strip()
    assert found.headers == expected


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.2",
        b"HTTP/2 200",
        b"HTTP/1.1 20",
        b"HTTP/1.1 999 X",
        b"HTTP/1.1 200 OK\r\nno colon",
        b"HTTP/1.1 200 OK\r\n: nothing",
        b"HTTP/1.1 200 OK\r\nfolded: a\r\n b: c",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4",
    ],
)
def test_what_is_no_http(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"^its? "):
        parse_head(data)


@given(data=st.binary(max_size=60))
def test_anything(data: bytes) -> None:
    with contextlib.suppress(ValueError):
        parse_head(b"HTTP/1.1 200 OK\r\n" + data)


@pytest.mark.parametrize("length", ["-1", "1e3", "0x10", "1 2", "9" * 30, "\u0663", ""])
def test_lengths_that_are_none(length: str) -> None:
    with pytest.raises(ValueError, match="its length is"):
        parse_head(b"HTTP/1.1 200 OK\r\nContent-Length: " + length.encode("latin-1", "replace")).body_length()


@pytest.mark.parametrize(
    ("text", "keeps"),
    [
        (b"HTTP/1.1 200 OK", True),
        (b"HTTP/1.1 200 OK\r\nConnection: close", False),
        (b"HTTP/1.0 200 OK", False),
        (b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive", True),
    ],
)
def test_which_connections_may_be_used_again(text: bytes, *, keeps: bool) -> None:
    assert parse_head(text).keeps is keeps


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("bytes 0-9/10", (0, 10, 10)),
        ("bytes 5-5/6", (5, 6, 6)),
        ("bytes */12", (0, 0, 12)),
        ("bytes 0-10/10", None),
        ("bytes 5-4/10", None),
        ("bytes 0-9/*", None),
        ("items 0-9/10", None),
        ("", None),
    ],
)
def test_content_ranges(text: str, found: tuple[int, int, int] | None) -> None:
    assert content_range({"content-range": text}) == found
