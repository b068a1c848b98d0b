"""URLs are taken apart as the standard library does, and redirections are joined to them."""

from __future__ import annotations

import pytest

from spdl.store._http.address import host_header, parse_address


@pytest.mark.parametrize(
    ("url", "address", "host"),
    [
        ("http://a", ("http", "a", 80, "/"), "a"),
        ("https://a:8443/b/c?d=e", ("https", "a", 8443, "/b/c?d=e"), "a:8443"),
        ("HTTP://A/%20#part", ("http", "a", 80, "/%20"), "a"),
        ("http://[::1]:8080/x", ("http", "::1", 8080, "/x"), "[::1]:8080"),
        ("http://user:secret@a/", ("http", "a", 80, "/"), "a"),
        ("https://b\u00fccher.example/", ("https", "xn--bcher-kva.example", 443, "/"), "xn--bcher-kva.example"),
    ],
)
def test_addresses(url: str, address: tuple[str, str, int, str], host: str) -> None:
    found = parse_address(url)
    assert (*found.origin, found.target) == address
    assert host_header(found.origin) == host


@pytest.mark.parametrize(
    "url", ["", "a", "/a", "ftp://a/b", "http:///a", "http://a:99999/", "http://a/b c", "file:///a"]
)
def test_what_is_none(url: str) -> None:
    with pytest.raises(ValueError, match=r"URL|[Pp]ort"):
        parse_address(url)


@pytest.mark.parametrize(
    ("location", "address"),
    [
        ("/x?y", (("http", "a", 81), "/x?y")),
        ("x", (("http", "a", 81), "/b/x")),
        ("https://c/d", (("https", "c", 443), "/d")),
        ("//c/d", (("http", "c", 80), "/d")),
    ],
)
def test_redirections(location: str, address: tuple[tuple[str, str, int], str]) -> None:
    assert tuple(parse_address("http://a:81/b/c").joined(location)) == address


def test_a_redirection_cannot_split_a_request() -> None:
    with pytest.raises(ValueError, match="quoted"):
        parse_address("http://a/").joined("/x y")
