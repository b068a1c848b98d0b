"""Random programs against random servers: what a store gives is of one version, whole, or an error that says why."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, NamedTuple

import pytest
from tests.store.hostile_server import FAULTS, Behaviour, serving

from spdl.store import CachedStore, HTTPStore, StoreError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from spdl.store import Store

SIZES = (0, 1, 2, 100, 1000, 70_000, 300_000)
# What no answer tells: an object without a length may be cut, and the look at its size as well.
UNTOLD = {"no length"}


class World(NamedTuple):
    objects: dict[str, list[bytes]]
    behaviour: Behaviour


def make_world(seed: int, faults: Sequence[str]) -> World:
    chance = random.Random(seed)  # noqa: S311 - a script, no secret.
    objects = {}
    for number in range(chance.randint(1, 4)):
        size, longer = chance.choice(SIZES), chance.choice([0, 1])
        objects[f"{number}"] = [chance.randbytes(size + longer * k) for k in range(chance.choice([1, 1, 3]))]
    chosen = chance.sample(faults, chance.randint(1, 4))
    return World(
        objects,
        Behaviour(
            seed,
            chosen,
            share=chance.choice([0.1, 0.3, 0.6]),
            changes=chance.choice([0, 0, 0.1, 0.3]),
            tells=chance.choice(["etag", "weak", "modified"]),
            heads=chance.random() < 0.8,
        ),
    )


def read_at_random(store: Store, world: World, seed: int) -> int:
    """Read something a few times, and return how often there was an answer."""
    chance, answered = random.Random(seed), 0  # noqa: S311 - the same.
    for _ in range(6):
        path = chance.choice([*world.objects, "missing"])
        versions = world.objects.get(path, [])
        end = max(map(len, versions), default=5)
        starts = [chance.choice([0, end // 2, chance.randint(0, end)]) for _ in range(chance.randint(0, 5))]
        lengths = [chance.choice([0, 1, end - start, chance.randint(0, end - start)]) for start in starts]
        way = chance.choice(["ranges", "ranges", "whole", "whole", "size"])
        try:
            if way == "size":
                assert store.size(path) in map(len, versions)
            elif way == "whole":
                assert bytes(store.get(path)) in versions
            else:
                parts = [bytes(part) for part in store.get_ranges(path, starts, lengths)]
                assert any(
                    parts == [version[start : start + length] for start, length in zip(starts, lengths, strict=True)]
                    and all(map(len, parts)) == all(lengths)
                    for version in versions
                ), (path, starts, lengths)
            answered += 1
        except FileNotFoundError:
            assert path == "missing"
        except StoreError as error:
            assert path in str(error)  # noqa: PT017 - it may go well, too.
    return answered


@pytest.mark.parametrize("cached", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_nothing_wrong_comes_through(seed: int, cached: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a parameter.
    world = make_world(seed, [fault for fault in FAULTS if fault not in UNTOLD])
    with serving(world.objects, world.behaviour) as url:
        inner = HTTPStore(url, timeout=10)
        store: Store = inner
        if cached:
            store = CachedStore(inner, tmp_path, (1000, 10**6)[seed % 2], memory_bytes=1000)
        with ThreadPoolExecutor(4) as pool:
            answered = sum(pool.map(lambda number: read_at_random(store, world, 100 * seed + number), range(4)))
        inner.close()
    assert answered
