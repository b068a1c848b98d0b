"""What is found out once and kept in a folder: what is damaged there, or may be of something else, is made anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.io.tars import make_tar
from tests.source.counting_store import CountingStore

from spdl.source import TarShards
from spdl.store import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEYS = ["first", "second", "third"]


class WithoutEtags(CountingStore):
    """Says nothing of the version of what is in it."""

    def list(self, prefix: str) -> Iterator[Entry]:
        return (Entry(each.path, each.size, None) for each in super().list(prefix))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.tar").write_bytes(make_tar([(f"{key}.txt", key.encode()) for key in KEYS]))
    return tmp_path


def bytes_read_to_find(folder: Path, store: CountingStore | None = None) -> int:
    """Find the samples, by the arrays in a cache if they are there. Return how much of the archive was read."""
    store = store or CountingStore(folder)
    found = TarShards("a.tar", store=store, cache=folder / "cache")
    assert [sample.key for _, sample in map(found.locate, range(len(found)))] == KEYS
    return store.bytes_read


def kept(folder: Path) -> Path:
    (file,) = (folder / "cache").glob("*.index")
    return file


def test_arrays_are_made_once(folder: Path) -> None:
    assert bytes_read_to_find(folder) > 0
    assert bytes_read_to_find(folder) == 0
    kept(folder).unlink()
    assert bytes_read_to_find(folder) > 0


def test_nothing_is_kept_of_what_nobody_can_name(folder: Path) -> None:
    for _ in range(2):
        assert bytes_read_to_find(folder, WithoutEtags(folder)) > 0
    assert not list(folder.glob("cache/*.index"))


def test_a_damaged_name_is_no_array_that_is_missing(folder: Path) -> None:
    bytes_read_to_find(folder)
    whole = kept(folder).read_bytes()
    with np.load(kept(folder)) as arrays:
        names = [name.encode() for name in arrays.files]
    assert len(names) > 2
    for name in names:
        kept(folder).write_bytes(whole.replace(name + b".npy", name[:-1] + b"X.npy"))
        assert bytes_read_to_find(folder) > 0, name
        assert kept(folder).read_bytes() == whole


def test_a_damaged_byte_is_noticed_or_does_no_harm(folder: Path) -> None:
    bytes_read_to_find(folder)
    whole = kept(folder).read_bytes()
    places = range(0, len(whole), 3)
    made_anew = 0
    for place in places:
        kept(folder).write_bytes(whole[:place] + bytes([whole[place] ^ 1 << place % 8]) + whole[place + 1 :])
        made_anew += bytes_read_to_find(folder) > 0
    assert made_anew > len(places) // 2
