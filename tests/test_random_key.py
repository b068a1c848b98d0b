"""Random keys of items, compared with a splitmix64 in numpy and with what chance would give."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spdl.pipeline import ItemContext

INTS = st.one_of(st.integers(), st.integers(-3, 3), st.integers(-(2**70), 2**70), st.sampled_from([2**64, -(2**64)]))
TRIPLES = st.tuples(INTS, INTS, INTS)


def random_key(seed: int, epoch: int, index: int) -> int:
    """Return the key that an op is given for an item."""
    return ItemContext(epoch, 0, index).key(seed)


def _finalise(bits: np.uint64) -> np.uint64:
    with np.errstate(over="ignore"):
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return np.uint64(bits ^ (bits >> np.uint64(31)))


def _limbs(value: int) -> list[int]:
    """Return what stands for an int: itself, or the number of its limbs with its sign and then the limbs."""
    if 0 <= value < 2**64:
        return [value]
    limbs = []
    rest = abs(value)
    while rest:
        limbs.append(rest % 2**64)
        rest //= 2**64
    return [-(2 * len(limbs) + (value < 0)), *limbs]


def _expected(*numbers: int) -> int:
    offset = np.uint64(0x9E3779B97F4A7C15)
    state = np.uint64(0)
    with np.errstate(over="ignore"):
        for number in numbers:
            for limb in _limbs(number):
                if limb < 0:
                    state = _finalise(state ^ _finalise(offset + np.uint64(-limb)) ^ offset)
                else:
                    state = _finalise(state ^ _finalise(np.uint64(limb) + offset))
    return int(state)


@given(TRIPLES)
def test_keys_are_those_of_splitmix64(triple: tuple[int, int, int]) -> None:
    assert random_key(*triple) == _expected(*triple)


def test_keys_never_change() -> None:
    """Seeds of augmentations are written into papers and checkpoints: these numbers stay as they are."""
    assert random_key(0, 0, 0) == 0x79933B9DF3D7C2C7
    assert random_key(1, 2, 3) == _expected(1, 2, 3)
    assert random_key(2**200, 5, 2**70) == 0xA88C062A34842AFB


@given(TRIPLES, TRIPLES)
def test_different_numbers_have_different_keys(one: tuple[int, int, int], other: tuple[int, int, int]) -> None:
    assert (random_key(*one) == random_key(*other)) == (one == other)


def test_no_two_small_numbers_share_a_key() -> None:
    small = range(-8, 40)
    keys = {random_key(*triple) for triple in itertools.product(small, repeat=3)}
    assert len(keys) == len(small) ** 3


@pytest.mark.parametrize("place", range(3))
def test_each_bit_of_the_input_changes_half_of_the_key(place: int) -> None:
    counts = np.zeros((64, 64))
    samples = 200
    for sample in range(samples):
        triple = [sample, 3 * sample, 5 * sample]
        key = random_key(*triple)
        for bit in range(64):
            changed = list(triple)
            changed[place] ^= 1 << bit
            difference = key ^ random_key(*changed)
            counts[bit] += [difference >> position & 1 for position in range(64)]
    # 4,096 counts, each binomial: six standard deviations are exceeded by chance once in 100,000 runs.
    assert abs(counts - samples / 2).max() < 6 * math.sqrt(samples / 4)


def test_bytes_are_equally_frequent_in_every_direction() -> None:
    for vary in range(3):
        keys = [random_key(*(number if place == vary else 7 for place in range(3))) for number in range(20_000)]
        values = np.array(keys, dtype="<u8").view(np.uint8).reshape(-1, 8)
        for column in values.T:
            counts = np.bincount(column, minlength=256)
            expected = len(column) / 256
            chi2 = float(((counts - expected) ** 2 / expected).sum())
            assert 150 < chi2 < 380  # 255 degrees of freedom; 24 columns exceed this once in 100,000 runs.


def test_a_step_of_the_seed_is_not_one_of_the_epoch() -> None:
    streams = {
        (seed, epoch): [random_key(seed, epoch, index) for index in range(200)]
        for seed in range(5)
        for epoch in range(5)
    }
    for one, other in itertools.combinations(streams, 2):
        assert not set(streams[one]) & set(streams[other])
        agreeing = sum((a ^ b).bit_count() for a, b in zip(streams[one], streams[other], strict=True))
        assert abs(agreeing - 6400) < 6 * math.sqrt(12_800 / 4)


def test_integers_of_numpy_are_integers() -> None:
    assert random_key(np.int64(1), np.uint8(2), np.int32(3)) == random_key(1, 2, 3)  # type: ignore[arg-type]
    assert random_key(np.int64(-1), 0, 0) == random_key(-1, 0, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [1.0, "1", None, np.ones(2)])
def test_what_is_no_int_is_refused(wrong: Any) -> None:
    for place in range(3):
        numbers = [1, 2, 3]
        numbers[place] = wrong
        with pytest.raises(TypeError):
            random_key(*numbers)
