"""Damaged files of any image format, made from a seed, and a comparison with what Pillow makes of them.

Whoever reads a damaged file has two right answers: an error, or the picture that Pillow gives. Anything else is a wrong
picture without a word.
"""

import io
import random
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest
from PIL import Image
from PIL.TiffImagePlugin import TiffImageFile
from tests.io.images import Array

from spdl.io import decode_config, load_image, to_numpy

MAX_PIXELS = 1 << 20
"""Damage may turn a small image into a large one, which both readers then refuse: this is about damage."""

PHOTOMETRIC = 262

Mutation = Callable[[bytearray, int, random.Random], None]
"""Damages the data at about the given place."""


def flip_bits(data: bytearray, at: int, rng: random.Random) -> None:
    data[at] ^= 1 << rng.randrange(8)
    for _ in range(rng.choice((0, 0, 2, 20))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def overwrite(data: bytearray, at: int, rng: random.Random) -> None:
    size = min(rng.choice((1, 1, 2, 4, 100)), len(data) - at)
    data[at : at + size] = rng.choice((rng.randbytes(size), bytes(size), b"\xff" * size))


def remove(data: bytearray, at: int, rng: random.Random) -> None:
    del data[at : at + rng.choice((1, 2, 4, 60, 512))]


def insert(data: bytearray, at: int, rng: random.Random) -> None:
    data[at:at] = rng.randbytes(rng.choice((1, 2, 4, 60, 512)))


def repeat(data: bytearray, at: int, rng: random.Random) -> None:
    """Put a part of the file in a second time, here or elsewhere."""
    part = data[at : at + rng.choice((1, 4, 60, 512))]
    to = rng.choice((at, rng.randrange(len(data))))
    data[to:to] = part


def move(data: bytearray, at: int, rng: random.Random) -> None:
    part = data[at : at + rng.choice((1, 4, 60, 512))]
    del data[at : at + len(part)]
    to = rng.randrange(len(data) + 1)
    data[to:to] = part


def blank(data: bytearray, at: int, rng: random.Random) -> None:
    """Lose a sector of the disk."""
    size = min(rng.choice((64, 512)), len(data) - at)
    data[at : at + size] = bytes(size)


def truncate(data: bytearray, at: int, rng: random.Random) -> None:
    del data[rng.choice((at, at, len(data) - 1 - rng.randrange(min(16, len(data))))) :]


MUTATIONS: tuple[Mutation, ...] = (
    flip_bits,
    flip_bits,
    flip_bits,
    overwrite,
    overwrite,
    remove,
    insert,
    repeat,
    move,
    blank,
    truncate,
)


def mutate(original: bytes, rng: random.Random, mutations: tuple[Mutation, ...] = MUTATIONS) -> bytes:
    """Damage a file, in its first bytes as often as anywhere: that is where headers are."""
    data = bytearray(original)
    most = rng.choice((len(data), len(data), min(len(data), 64), min(len(data), 700)))
    rng.choice(mutations)(data, rng.randrange(most), rng)
    return bytes(data)


def mutated_files(
    originals: Mapping[str, bytes], count: int, seed: int, mutations: tuple[Mutation, ...] = MUTATIONS
) -> Iterator[tuple[str, bytes]]:
    """Yield damaged copies of the originals in turns, each with a name that tells them apart."""
    rng = random.Random(seed)  # noqa: S311 - damage, not cryptography.
    names = sorted(originals)
    for index in range(count):
        name = names[index % len(names)]
        yield f"{name} {index}", mutate(originals[name], rng, mutations)


def open_with_pillow(data: bytes) -> Array | None:
    """Return Pillow's picture as 8-bit RGB; nothing if Pillow refuses it."""
    try:
        with warnings.catch_warnings(action="ignore"), Image.open(io.BytesIO(data)) as image:
            if image.width * image.height > MAX_PIXELS:
                return None
            if image.mode.startswith("I;16"):
                image.load()
                # Pillow shows 16-bit gray with all its bits, of which the upper half is kept here, and 0 as black.
                levels = np.asarray(image) ^ (0xFFFF if white_is_zero(image) else 0)
                return np.repeat((levels >> 8).astype(np.uint8)[..., np.newaxis], 3, axis=2)
            return np.asarray(image.convert("RGB"))
    except Exception:  # noqa: BLE001 - it raises errors of all kinds.
        return None


def white_is_zero(image: Image.Image) -> bool:
    """Return whether a picture is a TIFF whose 0 is white, as it is where nothing is said."""
    return isinstance(image, TiffImageFile) and image.tag_v2.get(PHOTOMETRIC, 0) == 0


def open_with_ours(data: bytes) -> Array | None:
    """Return our picture as 8-bit RGB; nothing if it is refused."""
    try:
        picture: Array = to_numpy(load_image(data, decode_config=decode_config(max_pixels=MAX_PIXELS)))
    except RuntimeError as error:
        assert str(error)  # noqa: PT017 - either outcome is right.
        return None
    return picture


@dataclass
class Comparison:
    """The outcomes of damaged files, by the names of the files."""

    equal: list[str] = field(default_factory=list)
    """Both readers give the same picture."""

    both_refuse: list[str] = field(default_factory=list)

    only_pillow_reads: list[str] = field(default_factory=list)

    only_we_read: list[str] = field(default_factory=list)

    different: list[str] = field(default_factory=list)
    """Both read them, but our picture is not Pillow's."""

    undamaged: list[str] = field(default_factory=list)
    """Of `equal`, those whose picture is the original's: the damage hit something else, or nothing."""

    @property
    def wrong(self) -> list[str]:
        """Where we give a picture that is not Pillow's."""
        return self.only_we_read + self.different


def compare_with_pillow(
    originals: Mapping[str, bytes],
    count: int = 200,
    seed: int = 0,
    *,
    mutations: tuple[Mutation, ...] = MUTATIONS,
    ours: Callable[[bytes], Array | None] = open_with_ours,
    most: float = 0,
) -> Comparison:
    """Compare the two readers on damaged copies of the originals.

    Args:
        originals: Sound files by name.
        count: How many damaged copies to make, of the originals in turns.
        seed: Chooses the damage.
        mutations: The kinds of damage to choose from.
        ours: Reads a file: the picture as RGB, or nothing if it is refused.
        most: The largest mean difference in levels at which two pictures are equal; 0 means the same pixels.
    """
    pictures = {name: open_with_pillow(data) for name, data in originals.items()}
    result = Comparison()
    for name, data in mutated_files(originals, count, seed, mutations):
        expected, actual = open_with_pillow(data), ours(data)
        if expected is None:
            (result.both_refuse if actual is None else result.only_we_read).append(name)
        elif actual is None:
            result.only_pillow_reads.append(name)
        elif same(actual, expected, most):
            result.equal.append(name)
            original = pictures[name.rpartition(" ")[0]]
            if original is not None and same(actual, original, most):
                result.undamaged.append(name)
        else:
            result.different.append(name)
    return result


def same(actual: Array, expected: Array, most: float = 0) -> bool:
    """Return whether two pictures differ by `most` levels on average at most."""
    if actual.shape != expected.shape:
        return False
    return np.array_equal(actual, expected) or float(np.abs(actual.astype(int) - expected).mean()) <= most


def assert_cuts_are_refused(data: bytes, message: str, *, first: int, step: int) -> None:
    """Check that a file that ends early is an error, at some sizes from `first` on, and just before its end."""
    for size in [*range(first, len(data), step), len(data) - 2, len(data) - 1]:
        with pytest.raises(RuntimeError, match=message):
            load_image(data[:size])
