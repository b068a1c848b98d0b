"""Servers that name versions otherwise in answers than in listings, and such whose objects change back and forth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from spdl.store import CachedStore, Entry, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

OLD, NEW = b"0123456789", b"abcdefghij"


class Changing:
    """A store of one object, whose version at each look and each answer follows a script.

    Args:
        script: The version of each call, the last for all that follow.
        name: How answers name a version.
    """

    def __init__(self, script: str, name: Callable[[str], str | None]) -> None:
        self.script = script
        self.name = name

    def __repr__(self) -> str:
        return "Changing()"

    def next(self) -> str:
        version, self.script = self.script[0], self.script[1:] or self.script[0]
        return version

    def list(self, prefix: str) -> Iterator[Entry]:
        yield Entry(prefix, 10, f'"{self.next()}"')

    def size(self, _: str) -> int:
        return 10

    def get(self, path: str) -> bytes:
        return bytes(self.read_version(path)[1][0])

    def get_ranges(self, path: str, starts: Any, lengths: Any) -> Any:
        return self.read_version(path, (starts, lengths))[1]

    def read_version(self, path: str, ranges: Any = None) -> Any:
        version = self.next()
        whole = {"1": OLD, "2": NEW}[version]
        starts, lengths = ranges or ([0], [10])
        parts = [whole[start : start + length] for start, length in zip(starts, lengths, strict=True)]
        return Entry(path, 10, self.name(version)), parts


def same(version: str) -> str:
    return f'"{version}"'


@pytest.mark.parametrize(
    "name", [same, lambda version: version, lambda version: f'W/"{version}"', lambda version: f"answer-{version}"]
)
def test_names_may_differ(tmp_path: Path, name: Callable[[str], str]) -> None:
    for hits in range(2):
        store = CachedStore(Changing("1", name), tmp_path, 10**6)
        assert bytes(store.get("x")) == OLD
        assert store.statistics().disk_hits == hits


@pytest.mark.parametrize("agreed", [True, False])
@pytest.mark.parametrize("name", [same, lambda version: f"answer-{version}"])
def test_an_object_that_changes_and_is_the_former_one_again(
    tmp_path: Path,
    agreed: bool,  # noqa: FBT001 - a parameter.
    name: Callable[[str], str],
) -> None:
    """It is looked up (1), read (2), and the old one again whenever somebody looks: the new content is not the old."""
    inner = Changing("11" if agreed else "1", name)
    store = CachedStore(inner, tmp_path, 10**6)
    if agreed:
        assert [bytes(part) for part in store.get_ranges("x", [0], [4])] == [OLD[:4]]
    else:
        assert store.size("x") == 10
    inner.script = "21"
    with pytest.raises(StoreError, match=r"it has changed since it was looked up, .*: its etag was"):
        store.get("x")
    assert bytes(store.get("x")) == OLD


def test_an_answer_that_names_no_version(tmp_path: Path) -> None:
    inner = Changing("1", lambda _: None)
    store = CachedStore(inner, tmp_path, 10**6)
    assert bytes(store.get("x")) == OLD
    other = CachedStore(Changing("122", lambda _: None), tmp_path / "other", 10**6)
    with pytest.raises(StoreError, match=r'its etag was "1", and is "2"'):
        other.get("x")
