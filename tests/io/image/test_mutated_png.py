"""Damaged PNGs: Pillow's picture or an error, and an error for whatever the checksums show."""

import random
import zlib
from typing import Any

import numpy as np
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from tests.io.headers import png_chunk, with_chunk
from tests.io.image.mutated_files import MUTATIONS, Mutation, compare_with_pillow, open_with_ours, open_with_pillow
from tests.io.image_files import png
from tests.io.images import encode, make_image

from spdl.io import demux_config, load_image, load_image_batch, to_numpy


def originals() -> dict[str, bytes]:
    """Every kind of PNG that is in use."""
    image, rng = make_image(61, 43), np.random.default_rng(0)
    few = image.quantize(16)
    exif = Image.Exif()
    exif[0x010F] = "a camera"
    texts = PngInfo()
    texts.add_text("Title", "a text")
    texts.add_text("Long", "x" * 500, zip=True)
    texts.add_itxt("Other", "ü")
    gamma = png_chunk(b"gAMA", (45455).to_bytes(4, "big")) + png_chunk(b"cHRM", bytes(32))
    return {
        "RGB": encode(image, "PNG"),
        "RGBA": encode(image.convert("RGBA"), "PNG"),
        "gray": encode(image.convert("L"), "PNG"),
        "gray with alpha": encode(image.convert("LA"), "PNG"),
        "one bit": encode(image.convert("1"), "PNG"),
        "palette": encode(image.quantize(200), "PNG"),
        "small palette": encode(few, "PNG"),
        "16 bits": png(rng.integers(0, 65536, (20, 30, 3)), 16, 2),
        "interlaced": png(rng.integers(0, 256, (43, 61, 3)), 8, 2, interlaced=True),
        "animated": encode(image, "PNG", save_all=True, append_images=[make_image(61, 43, 1)]),
        "texts": encode(image, "PNG", pnginfo=texts, dpi=(72, 72)),
        "profile": encode(image, "PNG", icc_profile=bytes(range(256)) * 4),
        "EXIF": encode(image, "PNG", exif=exif),
        "gamma": png(rng.integers(0, 256, (43, 61, 3)), 8, 2, extra=gamma),
    }


ORIGINALS = originals()


def chunks(data: bytes) -> list[tuple[bytes, int, int]]:
    """The name of each chunk, where it begins and where it ends."""
    found, at = [], 8
    while at + 12 <= len(data):
        end = at + 12 + int.from_bytes(data[at : at + 4], "big")
        found.append((data[at + 4 : at + 8], at, end))
        at = end
    return found


def with_checksums(mutation: Mutation) -> Mutation:
    """Do damage that the checksums do not show."""

    def mutate(data: bytearray, at: int, rng: random.Random) -> None:
        mutation(data, at, rng)
        for _, begin, end in chunks(bytes(data)):
            if end <= len(data):
                data[end - 4 : end] = zlib.crc32(data[begin + 4 : end - 4]).to_bytes(4, "big")

    return mutate


@pytest.mark.parametrize("seed", [0, 1])
def test_damaged_files_are_pillows_or_an_error(seed: int) -> None:
    outcomes = compare_with_pillow(ORIGINALS, 200, seed)
    assert not outcomes.wrong
    assert outcomes.equal
    assert len(outcomes.both_refuse) > 100


def test_damage_with_right_checksums_gives_pillows_picture_or_an_error() -> None:
    mutations = tuple(map(with_checksums, MUTATIONS))
    names = ("texts", "profile", "EXIF", "gamma", "palette", "animated")
    outcomes = compare_with_pillow({name: ORIGINALS[name] for name in names}, 200, 3, mutations=mutations)
    assert not outcomes.wrong
    assert len(outcomes.equal) > 10


@pytest.mark.parametrize("kind", ORIGINALS)
def test_every_checksum_up_to_the_pixels_counts(kind: str) -> None:
    data = ORIGINALS[kind]
    names = [name for name, _, _ in chunks(data)]
    for name, _, end in chunks(data)[: names.index(b"IDAT") + 1]:
        damaged = data[: end - 4] + bytes([data[end - 4] ^ 1]) + data[end - 3 :]
        if name != b"IDAT":  # Pillow does not look at these.
            assert open_with_pillow(damaged) is None
        reason = f"cannot decode the PNG: the data is damaged: the checksum of a chunk {name.decode()} is wrong"
        for filters in ("format=pix_fmts=rgb24", "format=pix_fmts=rgba", None):
            with pytest.raises(RuntimeError, match=reason):
                load_image(damaged, filter_desc=filters)
        with pytest.raises(RuntimeError, match="cannot decode the image as png"):
            load_image(damaged, demux_config=demux_config(format="png_pipe"))
        with pytest.raises(RuntimeError, match=reason):
            load_image_batch([damaged], width=8, height=8)


def profile(content: bytes, name: bytes = b"a profile", method: int = 0) -> bytes:
    return name + b"\0" + bytes([method]) + content


GOOD = zlib.compress(bytes(range(256)) * 4)
PROFILES = {
    "sound": profile(GOOD),
    "no zlib stream": profile(b"nothing of that kind"),
    "a wrong check": profile(GOOD[:-1] + bytes([GOOD[-1] ^ 1])),
    "cut": profile(GOOD[:-9]),
    "empty": profile(b""),
    "more behind it": profile(GOOD + b"more"),
    "a long name": profile(GOOD, b"n" * 100),
    "no name": profile(GOOD, b""),
}


@pytest.mark.parametrize("kind", PROFILES)
@pytest.mark.parametrize("count", [1, 2])
def test_a_broken_colour_profile_does_not_matter(kind: str, count: int) -> None:
    data = ORIGINALS["RGB"]
    for _ in range(count):
        data = with_chunk(data, b"iCCP", PROFILES[kind])
    picture = open_with_pillow(data)
    assert picture is not None
    np.testing.assert_array_equal(to_numpy(load_image(data)), picture)
    np.testing.assert_array_equal(to_numpy(load_image(data, filter_desc="format=pix_fmts=rgb24")), picture)


def test_a_colour_profile_of_an_unknown_method_is_an_error() -> None:
    data = with_chunk(ORIGINALS["RGB"], b"iCCP", profile(GOOD, method=3))
    assert open_with_pillow(data) is None
    with pytest.raises(RuntimeError, match="its colour profile is compressed by the unknown method 3"):
        load_image(data)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda data: with_chunk(data, b"t\x00Xt", b"a text"), "a chunk has no name of four letters"),
        (lambda data: data[:19], "the data is truncated: it ends within a chunk IHDR"),
        (lambda data: data[:300], "the data is truncated: it ends within a chunk IDAT"),
        (lambda data: with_header(data, 11, 1), "its pixels are filtered by the unknown method 1"),
    ],
)
def test_other_damage_is_named(change: Any, reason: str) -> None:
    data = change(ORIGINALS["RGB"])
    assert open_with_pillow(data) is None
    with pytest.raises(RuntimeError, match=f"cannot decode the PNG: .*{reason}"):
        load_image(data)


def with_header(data: bytes, at: int, value: int) -> bytes:
    content = bytearray(data[16:29])
    content[at] = value
    return data[:8] + png_chunk(b"IHDR", bytes(content)) + data[33:]


def test_damage_behind_the_pixels_does_not_matter() -> None:
    data = ORIGINALS["RGB"]
    whole, end = open_with_pillow(data), data.index(b"IEND") - 4
    text = png_chunk(b"tEXt", b"Title\0a text")
    for changed in (data + b"more", data[:-1] + b"\0", data[:end] + text[:-1] + b"\0" + data[end:]):
        np.testing.assert_array_equal(open_with_pillow(changed), whole)
        np.testing.assert_array_equal(open_with_ours(changed), whole)
