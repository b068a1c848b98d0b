"""An object is a file like any other, of which only what is wanted is read."""

from __future__ import annotations

import io
import random
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.store.range_server import Faults, content, running

from spdl.store import HTTPStore, LocalStore, ObjectFile, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def store(url: str) -> Iterator[HTTPStore]:
    store = HTTPStore(url)
    yield store
    store.close()


SIZE = 600_000
STEPS = st.one_of(
    st.tuples(st.just("read"), st.one_of(st.just(-1), st.integers(0, 300_000))),
    st.tuples(st.just("readinto"), st.integers(0, 200_000)),
    st.tuples(st.just("set"), st.integers(0, SIZE + 10)),
    st.tuples(st.just("end"), st.integers(-SIZE, 10)),
    st.tuples(st.just("move"), st.integers(0, 1000)),
    st.tuples(st.just("readline"), st.integers(0, 50)),
)


def step(file: Any, name: str, number: int) -> Any:
    if name == "readinto":
        buffer = bytearray(number)
        # A raw file may read less than fits.
        found = file.readinto(buffer)
        return bytes(buffer[:found]) if isinstance(file, io.BytesIO) else _fill(file, buffer, found)
    if name in ("read", "readline"):
        return getattr(file, name)(number)
    return file.seek(number, {"set": 0, "move": 1, "end": 2}[name])


def _fill(file: Any, buffer: bytearray, done: int) -> bytes:
    while done < len(buffer) and (more := file.readinto(memoryview(buffer)[done:])):
        done += more
    return bytes(buffer[:done])


@given(steps=st.lists(STEPS, max_size=20))
def test_it_reads_as_a_file_in_memory(steps: list[tuple[str, int]], tmp_path_factory: pytest.TempPathFactory) -> None:
    whole = content(f"{SIZE}/x")
    folder = tmp_path_factory.getbasetemp()
    (folder / "object").write_bytes(whole)
    known, file = io.BytesIO(whole), ObjectFile(LocalStore(folder), "object")
    for name, number in steps:
        assert step(file, name, number) == step(known, name, number)
        assert file.tell() == known.tell()


def test_formats_read_it(store: HTTPStore, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        for number in range(50):
            archive.writestr(str(number), random.Random(number).randbytes(100_000))  # noqa: S311 - content.
    local = LocalStore(tmp_path)
    with zipfile.ZipFile(ObjectFile(local, "a.zip")) as archive:
        assert archive.read("30") == random.Random(30).randbytes(100_000)  # noqa: S311
    with ObjectFile(store, "100000/x") as file, io.BufferedReader(file) as buffered:
        assert buffered.read(10) == content("100000/x")[:10]


def test_little_is_requested_of_a_large_object(store: HTTPStore) -> None:
    whole = content("8000000/x")
    file = ObjectFile(store, "8000000/x")
    file.seek(-1000, io.SEEK_END)
    assert file.read() == whole[-1000:]
    file.seek(1_000_000)
    assert file.read(10) == whole[1_000_000:1_000_010]
    statistics = store.statistics()
    # The first asks for the size.
    assert statistics.requests <= 3
    assert statistics.bytes < 200_000


def test_reading_all_takes_few_requests(store: HTTPStore) -> None:
    file = ObjectFile(store, "20000000/y")
    pieces = []
    while piece := file.read(10_000):
        pieces.append(piece)
    assert b"".join(pieces) == content("20000000/y")
    assert store.statistics().requests < 30
    assert store.statistics().bytes == 20_000_000


def test_an_object_that_has_changed_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(bytes(300_000))
    file = ObjectFile(LocalStore(tmp_path), "x")
    assert file.read(10) == bytes(10)
    path.write_bytes(b"1" * 300_000)
    assert file.read(10) == bytes(10)
    with pytest.raises(StoreError, match=r"x in .* has changed since it was opened"):
        file.read()
    with running(Faults(change=1.0)) as url:
        store = HTTPStore(url)
        file = ObjectFile(store, "300000/x")
        with pytest.raises(StoreError, match=r"300000/x in .* has changed since it was opened"):
            file.read(10)
        store.close()


def test_what_is_wrong_is_said(store: HTTPStore) -> None:
    with pytest.raises(FileNotFoundError, match="none"):
        ObjectFile(store, "none")
    wrong: Any = "http://host"
    with pytest.raises(TypeError, match="`store` must be a store"):
        ObjectFile(wrong, "x")
    file = ObjectFile(store, "100/x")
    with pytest.raises(ValueError, match="0 or more, not -1"):
        file.seek(-1)
    file.close()
    with pytest.raises(ValueError, match="closed"):
        file.read(1)
