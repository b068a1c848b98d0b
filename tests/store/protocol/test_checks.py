"""Paths name objects below the store alone; ranges are ints of at least 0, as many starts as lengths."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spdl.store import LocalStore


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    (tmp_path / "outside").write_bytes(b"secret")
    (tmp_path / "root" / ".hidden").mkdir(parents=True)
    (tmp_path / "root" / ".hidden" / "..name").write_bytes(b"0123456789")
    return LocalStore(tmp_path / "root")


PATH = ".hidden/..name"


@pytest.mark.parametrize(
    "path", ["", "/", "../outside", "a/../../outside", "/etc/hostname", "a//b", "a/", "./a", "a\0b"]
)
def test_paths_do_not_leave_the_store(store: LocalStore, path: str) -> None:
    for call in (store.size, store.get, lambda path: store.get_ranges(path, [0], [1])):
        with pytest.raises(ValueError, match=r"`path` must be .*test_checks.py:\d+"):
            call(path)


@pytest.mark.parametrize("prefix", ["/", "..", "a/../..", "a//b", "a\0"])
def test_prefixes_do_not_leave_the_store(store: LocalStore, prefix: str) -> None:
    with pytest.raises(ValueError, match="`prefix` must be a folder below the store"):
        store.list(prefix)


@pytest.mark.parametrize("path", [None, b"a", Path("a"), 3])
def test_paths_are_text(store: LocalStore, path: Any) -> None:
    with pytest.raises(TypeError, match="`path` must be a str"):
        store.get(path)
    with pytest.raises(TypeError, match="`prefix` must be a str"):
        store.list(path)


def test_names_may_begin_with_dots(store: LocalStore) -> None:
    assert bytes(store.get(PATH)) == b"0123456789"
    assert [entry.path for entry in store.list(".hidden/")] == [PATH]


def test_numpys_ints_are_ints(store: LocalStore) -> None:
    parts = store.get_ranges(PATH, np.array([1, 5]), np.array([2, 0], dtype=np.uint8))  # type: ignore[arg-type]
    assert [bytes(part) for part in parts] == [b"12", b""]


@pytest.mark.parametrize(
    ("starts", "lengths", "error", "message"),
    [
        ([0], [], ValueError, "`lengths` must be as many as `starts`, which are 1"),
        ([-1], [1], ValueError, "`starts` must be ints of at least 0, got -1"),
        ([0, 1], [1, -2], ValueError, "`lengths` must be ints of at least 0, got -2"),
        ([0.5], [1], TypeError, "`starts` must be ints of at least 0, got 0.5"),
        ([0], ["1"], TypeError, "`lengths` must be ints of at least 0, got '1'"),
        (0, [1], TypeError, "`starts` must be a sequence of ints, got 0"),
    ],
)
def test_ranges_are_ints(store: LocalStore, starts: Any, lengths: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        store.get_ranges(PATH, starts, lengths)
