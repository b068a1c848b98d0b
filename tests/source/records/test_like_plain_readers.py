"""Random files of records, read in every way and from every place, are what plain readers give.

A few are drawn here. `SPDL_TEST_SEEDS=500` draws as many of each format.
"""

from __future__ import annotations

import os
import pickle
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from tests.source.records.drawn_files import KINDS, plain
from tests.store.hostile_server import FAULTS, Behaviour, serving

from spdl.io import FormatError
from spdl.source import Files
from spdl.store import CachedStore, HTTPStore, LocalStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from pathlib import Path

SEEDS = int(os.environ.get("SPDL_TEST_SEEDS", "6"))
_PLACES = ("folder", "URL", "store", "server", "cache")


def all_of(records: Iterable[Any]) -> list[str]:
    """Return records in words, which tell 1 from 1.0 and True, and the order of names."""
    return [repr(plain(each)) for each in records]


def read_all(records: Iterable[Any]) -> tuple[list[str], bool]:
    """Return the records before the first bad one, and whether there is a bad one."""
    found = []
    try:
        for each in records:
            found += all_of([each])
    except FormatError:
        return found, True
    return found, False


def compare(rng: random.Random, source: Any, records: Sequence[dict[str, Any] | None]) -> None:
    """Read at random: one by one, a batch, a slice, from a position on."""
    count = len(records)
    assert len(source) == sum(source.block_sizes) == count
    for position in rng.choices(range(-count, count), k=6):
        if records[position] is None:
            with pytest.raises(FormatError):
                source[position]
        else:
            assert all_of([source[position]]) == [repr(records[position])]
    for position in (count, -count - 1):
        with pytest.raises(IndexError):
            source[position]
    good = [position - rng.choice([0, count]) for position in range(count) if records[position] is not None]
    batch = rng.choices(good, k=rng.randrange(1, 30)) if good else []
    assert all_of(source.__getitems__(batch)) == [repr(records[position]) for position in batch]
    part = slice(rng.randrange(-count, count), rng.randrange(-count, count), rng.choice([None, 1, 3, -2]))
    if None in records[part]:
        with pytest.raises(FormatError):
            source[part]
    else:
        assert all_of(source[part]) == list(map(repr, records[part]))
    begin = rng.choice([0, rng.randint(0, count)])
    rest = records[begin:]
    bad = None in rest
    expected = list(map(repr, rest[: rest.index(None)] if bad else rest))
    assert read_all(source.iterate_from(begin) if begin else source) == (expected, bad)


def compare_parts(rng: random.Random, source: Any, records: Sequence[dict[str, Any] | None]) -> None:
    """Share the files among ranks and workers: each record is in one part."""
    ranks, workers = rng.randrange(1, 3), rng.randrange(1, 3)
    found = []
    for number in range(ranks * workers):
        rank, worker = divmod(number, workers)
        try:
            part = source.split(rank, ranks, worker=worker, num_workers=workers)
        except ValueError as error:
            assert "gets no record" in str(error)  # noqa: PT017 - it may go well, too.
            continue
        found += all_of(part)
    assert sorted(found) == sorted(map(repr, records))


def open_place(
    rng: random.Random, folder: Path, cache: Path, stack: ExitStack, places: Sequence[str]
) -> tuple[str, str, dict[str, Any]]:
    """Return one of the places, its prefix of paths, and options; a server repeats what its faults spoil."""
    place = rng.choice(places)
    if place == "folder":
        return place, f"{folder}/", {}
    if place == "URL":
        return place, folder.as_uri() + "/", {}
    if place == "store":
        return place, "", {"store": LocalStore(folder)}
    objects = {str(path.relative_to(folder)): [path.read_bytes()] for path in folder.rglob("*") if path.is_file()}
    faults = [fault for fault in FAULTS if fault not in ("no length", "204", "304")]
    tells = rng.choice(["etag", "weak", "modified"])
    behaviour = Behaviour(rng.randrange(10**6), faults, share=rng.choice([0, 0.1]), tells=tells)
    store = HTTPStore(stack.enter_context(serving(objects, behaviour)), timeout=10)
    stack.callback(store.close)
    if place == "server":
        return place, "", {"store": store}
    cached = CachedStore(store, cache / "objects", rng.choice([1, 1000, 10**9]), memory_bytes=rng.choice([0, 10**6]))
    return place, "", {"store": cached}


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("kind", KINDS)
def test_the_records_are_those_of_plain_readers(kind: str, seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    folder, cache = tmp_path / "data", tmp_path / "cache"
    folder.mkdir()
    cache.mkdir()
    make, records = KINDS[kind](rng, folder, rng.randrange(1, 5))
    if not records:
        with pytest.raises(ValueError, match="must be"):
            make(f"{folder}/", cache=cache)
        return
    with ExitStack() as stack:
        # Web servers list nothing.
        places = _PLACES[:3] if kind == "files" else _PLACES
        place, prefix, options = open_place(rng, folder, cache, stack, places)
        again: Callable[[], Any] = lambda: make(prefix, cache=cache, **options)  # noqa: E731 - a program's step.
        source = again()
        compare(rng, source, records)
        kept = again()
        assert kept.fingerprint() == source.fingerprint()
        compare(rng, kept, records)
        if not isinstance(source, Files) and None not in records:
            compare_parts(rng, source, records)
        if place in ("folder", "store"):
            compare(rng, pickle.loads(pickle.dumps(source)), records)  # noqa: S301 - our own.
        if rng.random() < 0.3:
            with ThreadPoolExecutor(3) as pool:
                each = [pool.submit(compare, random.Random(seed + number), source, records) for number in range(3)]
            assert [one.result() for one in each] == [None] * 3
