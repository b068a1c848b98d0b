"""What is read ahead comes in its order, within its bytes, and ends when nobody wants it."""

from __future__ import annotations

import gc
import itertools
import random
import threading
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.pipeline.support import wait_until
from tests.store.range_server import Faults, content, running

from spdl.store import HTTPStore, LocalStore, Part, StoreError, read_ahead

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from spdl.store import Store


def shuffled(count: int, shards: int, each: int) -> list[Part]:
    parts = [Part(f"{each * count}/{shard}", each * index, each) for shard in range(shards) for index in range(count)]
    random.Random(3).shuffle(parts)  # noqa: S311 - an order, no secret.
    return parts


def cut(part: Part) -> bytes:
    return content(part.path)[part.start : part.start + part.length]


def test_a_permutation_of_shards_on_a_server_with_faults() -> None:
    parts = shuffled(200, 5, 400)
    with running(Faults(seed=5, latency=0.01, busy=0.01, cut=0.01, reset=0.01)) as url:
        store = HTTPStore(url)
        found = read_ahead(store, parts, max_bytes=1 << 16)
        for part, buffer in zip(parts, found, strict=True):
            assert bytes(buffer) == cut(part)
        assert store.statistics().answers < len(parts) / 2, "neighbours were read at once"
        store.close()


class Watched:
    """A store that notes how many bytes are under way, or wait for the consumer."""

    def __init__(self, inner: Store) -> None:
        self.size, self.list, self.get = inner.size, inner.list, inner.get
        self.inner = inner
        self.lock = threading.Lock()
        self.asked = 0
        self.calls = 0

    def get_ranges(self, path: str, starts: Sequence[int], lengths: Sequence[int]) -> Any:
        with self.lock:
            self.asked += sum(lengths)
            self.calls += 1
        return self.inner.get_ranges(path, starts, lengths)


@pytest.fixture
def folder(tmp_path: Path) -> Watched:
    for shard in range(4):
        (tmp_path / str(shard)).write_bytes(random.Random(shard).randbytes(100_000))  # noqa: S311 - no secret.
    return Watched(LocalStore(tmp_path))


def random_parts() -> Iterator[Part]:
    generator = random.Random(1)  # noqa: S311 - an order, no secret.
    while True:
        yield Part(str(generator.randrange(4)), generator.randrange(90_000), generator.randrange(1, 10_000))


def test_no_more_bytes_than_allowed_are_ahead(folder: Watched) -> None:
    consumed, most = 0, 0
    found = read_ahead(folder, random_parts(), max_bytes=200_000)
    for buffer in itertools.islice(found, 500):
        consumed += len(memoryview(buffer))
        if not most:
            assert wait_until(lambda: folder.asked > 100_000, 60), "much is under way from the first on"
        most = max(most, folder.asked - consumed)
    assert most <= 200_000
    found.close()  # type: ignore[attr-defined]


def test_a_part_that_is_larger_than_allowed(folder: Watched) -> None:
    parts = [Part("0", 0, 90_000), Part("1", 5, 3), Part("2", 0, 100_000)]
    assert [len(memoryview(each)) for each in read_ahead(folder, parts, max_bytes=10)] == [90_000, 3, 100_000]


def test_an_error_comes_in_its_place(folder: Watched) -> None:
    for wrong, error in ((Part("missing", 0, 1), FileNotFoundError), (Part("3", 99_999, 2), StoreError)):
        found = read_ahead(folder, [Part("0", 0, 5), Part("1", 0, 5), wrong, Part("2", 0, 5)])
        assert [len(memoryview(next(found))) for _ in range(2)] == [5, 5]
        with pytest.raises(error):
            next(found)
        assert list(found) == []


def test_nothing_is_read_before_somebody_asks(folder: Watched) -> None:
    found = read_ahead(folder, random_parts())
    assert folder.calls == 0
    next(found)
    del found
    gc.collect()
    assert wait_until(lambda: not any(thread.name.startswith("spdl-ahead") for thread in threading.enumerate()), 60)


PARTS = st.lists(st.builds(Part, st.sampled_from(["0", "1", "2"]), st.integers(0, 500), st.integers(0, 90)))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=PARTS, most_bytes=st.integers(1, 800))
def test_read_ahead_yields_all_parts_once_and_in_order(folder: Watched, parts: list[Part], most_bytes: int) -> None:
    found = [bytes(each) for each in read_ahead(folder, parts, max_bytes=most_bytes)]
    assert found == [bytes(folder.inner.get_ranges(path, [start], [length])[0]) for path, start, length in parts]


def test_read_ahead_reads_what_is_near_in_the_order_by_one_call_for_each_object(folder: Watched) -> None:
    """A fourth of the bytes makes a window: here 12 parts of 10 bytes, four of each object."""
    parts = [Part(str(number % 3), 10 * number, 10) for number in range(36)]
    assert len(list(read_ahead(folder, parts, max_bytes=480))) == 36
    assert folder.calls == 3 * 3
    # However small they are, there are no more than 1024 in a call.
    folder.calls = 0
    assert len(list(read_ahead(folder, [Part("0", number, 1) for number in range(2049)]))) == 2049
    assert folder.calls == 3


@pytest.mark.parametrize(
    ("part", "error", "match"),
    [
        (("a", -1, 1), ValueError, "`start` must be an int of at least 0, got -1"),
        (("a", 0, -1), ValueError, "`length` must be an int of at least 0, got -1"),
        (("a", 0.5, 1), TypeError, "`start` must be an int"),
        (("../a", 0, 1), ValueError, "`path` must be the path of an object"),
        (3, TypeError, "`parts` must be an iterable of parts"),
        ("ab", TypeError, "`parts` must be an iterable of parts"),
    ],
)
def test_read_ahead_refuses_parts_that_are_none(folder: Watched, part: Any, error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        list(read_ahead(folder, [part]))


def test_empty_parts_and_no_parts(folder: Watched) -> None:
    assert list(read_ahead(folder, [])) == []
    assert [bytes(each) for each in read_ahead(folder, [Part("0", 3, 0), Part("0", 3, 0)])] == [b"", b""]


def test_arguments(folder: Watched) -> None:
    with pytest.raises(TypeError, match="`store` must be a store"):
        read_ahead(3, [])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="`parts` must be an iterable of parts"):
        read_ahead(folder, 3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`max_bytes` must be"):
        read_ahead(folder, [], max_bytes=0)
    with pytest.raises(ValueError, match="`concurrency` must be"):
        read_ahead(folder, [], concurrency=0)
