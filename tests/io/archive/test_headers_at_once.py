"""Headers of an archive that are read from several places at once are those that are read one after the other."""

from __future__ import annotations

import io
import random
import tarfile
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tests.io.tars import make_tar
from tests.source.counting_store import CountingStore

from spdl.io import FormatError
from spdl.io._archive import stored_index
from spdl.io._archive.stored_index import read_headers_at_once
from spdl.io._archive.tar_headers import MemberHeader, Walk
from spdl.source import TarShards

if TYPE_CHECKING:
    import builtins
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from typing_extensions import Buffer


@pytest.fixture(params=["far", "near"])
def many_pieces(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut small archives, too, as if their members were far from each other, or near."""
    monkeypatch.setattr(stored_index, "_ENOUGH", 3)
    monkeypatch.setattr(stored_index, "_LEAST_MEMBERS", 1)
    monkeypatch.setattr(stored_index, "_APART", 1 if request.param == "far" else 1 << 15)
    monkeypatch.setattr(stored_index, "_LEAST_NEAR", 1 << 11)
    monkeypatch.setattr(stored_index, "_SHARE", 1)
    monkeypatch.setattr(stored_index, "_SEARCHED", 1 << 11)


def fetcher(content: bytes) -> Callable[[int, int], bytes]:
    def fetch(start: int, length: int) -> bytes:
        assert length > 0
        assert start + length <= len(content)
        return content[start : start + length]

    return fetch


def draw_archive(rng: random.Random, depth: int = 0) -> bytes:
    """Return an archive with long names, attributes, folders, and archives as members."""
    file = io.BytesIO()
    # Of all members; GNU's format ignores them.
    options = {"comment": "x"} if rng.random() < 0.3 else {}
    if rng.random() < 0.05:
        options = {"path": "the name of all"}
    kind = rng.choice([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
    with tarfile.open(
        fileobj=file, mode="w", format=kind, pax_headers=options if kind == tarfile.PAX_FORMAT else {}
    ) as out:
        for number in range(rng.randrange(1, 40)):
            member = tarfile.TarInfo(rng.choice(["a", "long/" * 40, "é"]) + f"{number}.jpg")
            content = rng.randbytes(rng.choice([0, 1, 512, 3000]))
            if depth == 0 and rng.random() < 0.15:
                content = draw_archive(rng, 1)
            if rng.random() < 0.1:
                member.type, content = rng.choice([tarfile.DIRTYPE, tarfile.SYMTYPE]), b""
            member.size = len(content)
            out.addfile(member, io.BytesIO(content))
    return file.getvalue()


def outcome(read: Callable[[Any, int], Iterator[MemberHeader]], fetch: Any, size: int) -> list[MemberHeader] | str:
    try:
        return list(read(fetch, size))
    except FormatError as error:
        return str(error)


def read_in_order(read: Callable[[int, int], bytes], size: int) -> Iterator[MemberHeader]:
    walk = Walk(read, size)
    place: int | None = 0
    while place is not None:
        found, place = walk.step(place)
        if found is not None:
            yield found


@pytest.mark.parametrize("seed", range(10))
def test_random_archives(many_pieces: None, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311
    for _ in range(20):
        content = bytearray(draw_archive(rng))
        if rng.random() < 0.4:
            for _ in range(rng.choice([1, 5])):
                content[rng.randrange(len(content))] ^= 0xFF
        if rng.random() < 0.2:
            del content[rng.randrange(len(content)) :]
        whole = bytes(content)
        expected = outcome(read_in_order, lambda start, length, whole=whole: whole[start : start + length], len(whole))
        found = outcome(read_headers_at_once, fetcher(whole), len(whole))
        assert found == expected


@pytest.mark.parametrize(("count", "size"), [(12_000, 100_000), (20_000, 10_000)], ids=["far", "near"])
def test_a_whole_archive_is_read_from_several_places(tmp_path: Path, count: int, size: int) -> None:
    with (tmp_path / "large.tar").open("wb") as file:
        for number in range(count):
            header = tarfile.TarInfo(f"{number:08}.jpg")
            header.size = size
            file.seek(number * (512 + -(-size // 512) * 512))
            file.write(header.tobuf(tarfile.GNU_FORMAT))
        file.truncate(count * (512 + -(-size // 512) * 512) + 1024)

    at_once = 9 if size == 100_000 else 4
    main = threading.get_ident()
    enough = threading.Event()
    waiting = threading.Semaphore(at_once - 1)

    class Far(CountingStore):
        """Answers no request of another thread before so many of them wait for an answer."""

        def get_ranges(self, path: str, starts: Sequence[int], lengths: Sequence[int]) -> builtins.list[Buffer]:
            if threading.get_ident() != main:
                if not waiting.acquire(blocking=False):
                    enough.set()
                assert enough.wait(50)
            return super().get_ranges(path, starts, lengths)

    store = Far(tmp_path)
    samples = TarShards("large.tar", store=store, cache=tmp_path / "cache")
    assert [samples.locate(number)[1].key for number in range(count)] == [f"{number:08}" for number in range(count)]
    # Far members: nothing but headers. Near ones: everything, and nothing twice but where pieces meet.
    whole = (tmp_path / "large.tar").stat().st_size
    assert store.bytes_read < (whole / 50 if size == 100_000 else whole * 1.02)
    assert enough.is_set()
    assert not [thread.name for thread in threading.enumerate() if thread.name.startswith("spdl-")]


def test_errors_of_the_store_pass(many_pieces: None) -> None:
    content = make_tar([(f"{number}.txt", bytes(2000)) for number in range(50)])

    def fetch(start: int, length: int) -> bytes:
        if start > len(content) // 2:
            raise ConnectionError("gone")
        return content[start : start + length]

    with pytest.raises(ConnectionError, match="gone"):
        list(read_headers_at_once(fetch, len(content)))
