"""The key of random numbers: a seed, an epoch, and the indices of images."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from spdl._check import check_int

if TYPE_CHECKING:
    from collections.abc import Iterable

_LARGEST = (1 << 64) - 1


class DrawKey(NamedTuple):
    """What random numbers depend on."""

    seed: int
    epoch: int
    indices: tuple[int, ...]


def draw_key(seed: int, epoch: int, indices: Iterable[int]) -> DrawKey:
    """Return the key of the random numbers of some images.

    Raises:
        TypeError: If one of these is no integer.
        ValueError: If one of these is negative or has more than 64 bits.
    """
    return DrawKey(_word("seed", seed), _word("epoch", epoch), tuple([_word("indices", index) for index in indices]))


def _word(name: str, value: object) -> int:
    if type(value) is int and 0 <= value <= _LARGEST:
        return value
    return check_int(name, value, least=0, most=_LARGEST)
