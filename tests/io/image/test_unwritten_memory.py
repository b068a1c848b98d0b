"""Files for which FFmpeg would show memory that nobody has written: they are refused."""

import lzma
import os
import pickle
import struct
import subprocess
import sys
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.io.image.test_formats import load
from tests.io.image_files import tiff
from tests.io.images import encode, make_image
from tests.io.tiff_files import LEVELS, PALETTE, PIXELS, RGB, SAMPLES, Entries, deflated, packed, planes, stored

from spdl.io import decode_config

FFMPEG = decode_config(backend="ffmpeg")
PHOTO = np.asarray(make_image(45, 31))
ENTRY = 12
TYPES, VALUES = (0, 1, 2, 3, 4, 8, 11), (0, 1, 2, 3, 5, 16, 100, 256, 65535)


def entry_at(data: bytes, tag: int) -> int:
    """Return where an entry of the first directory is."""
    order = "<" if data[:2] == b"II" else ">"
    (start,) = struct.unpack_from(order + "I", data, 4)
    (count,) = struct.unpack_from(order + "H", data, start)
    places = range(start + 2, start + 2 + ENTRY * count, ENTRY)
    return next(at for at in places if struct.unpack_from(order + "H", data, at) == (tag,))


def changed(data: bytes, at: int, kind: str, value: int) -> bytes:
    """Return a TIFF with another number at a place."""
    number = struct.pack(("<" if data[:2] == b"II" else ">") + kind, value)
    return data[:at] + number + data[at + len(number) :]


def retyped(data: bytes, tag: int, kind: int) -> bytes:
    return changed(data, entry_at(data, tag) + 2, "H", kind)


def with_palette(bits: int, entry: Any, order: str = "<") -> bytes:
    levels = LEVELS[..., np.newaxis] >> (8 - bits)
    return stored(packed(levels, bits), {258: (3, [bits]), 262: (3, [3]), 320: entry}, order=order)


def colors(bits: int) -> list[int]:
    return [257 * level for level in np.random.default_rng(bits).integers(0, 256, 3 << bits).tolist()]


SOUND = with_palette(8, PALETTE)
COLOR_MAPS = {
    "missing": with_palette(8, None),
    "of no type": retyped(SOUND, 320, 0),
    "of bytes": retyped(SOUND, 320, 1),
    "of signed numbers": retyped(SOUND, 320, 8),
    "of 32 bits": with_palette(8, (4, colors(8))),
    "too few": with_palette(8, (3, colors(8)[:-1])),
    "too many": with_palette(8, (3, [*colors(8), 1])),
    "those of fewer bits": with_palette(4, (3, colors(2))),
    "beyond the end": changed(SOUND, entry_at(SOUND, 320) + 8, "I", len(SOUND) - 100),
    "far outside": changed(SOUND, entry_at(SOUND, 320) + 8, "I", 0xFFFFFFFF),
}


@pytest.mark.parametrize("kind", COLOR_MAPS)
def test_ffmpeg_takes_no_damaged_color_map(kind: str) -> None:
    message = r"cannot decode the TIFF: .* \(the directory's entry 320\) is missing or damaged: \d+ numbers of 16 bits"
    with pytest.raises(RuntimeError, match=message):
        load(COLOR_MAPS[kind], decode_config=FFMPEG)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_ffmpeg_takes_a_sound_color_map(bits: int, order: str) -> None:
    table = np.array(colors(bits)).reshape(3, -1).T // 257
    data = with_palette(bits, (3, colors(bits)), order)
    np.testing.assert_array_equal(load(data, decode_config=FFMPEG), table[LEVELS >> (8 - bits)])


def short(size: int, changes: Entries | None = None) -> bytes:
    return deflated([zlib.compress(LEVELS.tobytes()[:size])], changes)


NAMED = deflated([PIXELS], {269: (3, [1])})
SHORT = {
    "nothing": (short(0), "strip 1 of 1 is damaged, or ends early"),
    "a byte less": (short(5999), "strip 1 of 1 is damaged, or ends early"),
    "cut": (deflated([PIXELS[:-500]]), "strip 1 of 1 is damaged, or ends early"),
    "no deflate": (deflated([bytes(500)]), "strip 1 of 1 is damaged, or ends early"),
    "the second": (deflated([zlib.compress(bytes(3000)), zlib.compress(bytes(2999))]), "strip 2 of 2 is damaged"),
    "outside": (deflated([PIXELS], {273: (4, [9999999])}), "strip 1 of 1 is damaged, or ends early"),
    "wider": (deflated([PIXELS], {256: (4, [101])}), "strip 1 of 1 is damaged, or ends early"),
    "fewer strips": (deflated([PIXELS], {278: (4, [30])}), "what its directory says of them is not enough"),
    "not in order": (changed(NAMED, entry_at(NAMED, 269), "H", 999), "is not enough for FFmpeg"),
    "colours side by side": (
        deflated(
            [zlib.compress(bytes(100 * 60 * 2))], {258: (3, [8] * 3), 262: (3, [6]), 277: (3, [3]), 530: (3, [2, 1])}
        ),
        "strip 1 of 1 is damaged, or ends early",
    ),
    "LZMA": (tiff(PHOTO, compression=34925, compress=lzma.compress), "compressed with LZMA"),
}


@pytest.mark.parametrize("kind", SHORT)
def test_ffmpeg_takes_no_strips_that_end_early(kind: str) -> None:
    data, message = SHORT[kind]
    with pytest.raises(RuntimeError, match=f"cannot decode the TIFF: its .*{message}"):
        load(data, decode_config=FFMPEG)


def test_ffmpeg_takes_whole_strips() -> None:
    for cut in (0, 1, 4):  # The checksum may be missing.
        data = deflated([PIXELS[: len(PIXELS) - cut]])
        np.testing.assert_array_equal(load(data, decode_config=FFMPEG)[..., 0], LEVELS)
    more = deflated(
        [zlib.compress(LEVELS[:40].tobytes() + bytes(99)), zlib.compress(LEVELS[40:].tobytes())], {278: (4, [40])}
    )
    np.testing.assert_array_equal(load(more, decode_config=FFMPEG)[..., 0], LEVELS)
    for data in (
        deflated([zlib.compress(SAMPLES[..., :3].tobytes())], {**RGB, 258: (3, [8] * 3), 277: (3, [3])}),
        planes(SAMPLES[..., :3], RGB),
    ):
        np.testing.assert_array_equal(load(data, decode_config=FFMPEG), SAMPLES[..., :3])


def test_ffmpeg_takes_no_avif_whose_picture_is_nowhere() -> None:
    data = encode(make_image(45, 31), "AVIF")
    assert load(data, decode_config=FFMPEG).shape == (31, 45, 3)
    item = data.index(b"pitm") + 8
    with pytest.raises(RuntimeError, match="the file does not say where its picture is"):
        load(data[:item] + b"\0\x63" + data[item + 2 :], decode_config=FFMPEG)


PROGRAM = """
import hashlib, pickle, sys
from spdl.io import decode_config, demux_config, load_image, to_numpy

configs = [decode_config(backend="ffmpeg", max_pixels=1 << 20), decode_config(max_pixels=1 << 20)]
answers = {}
for name, (data, demuxer) in pickle.load(sys.stdin.buffer).items():
    format = demux_config(demuxer) if demuxer else None
    for config in configs[: 1 if demuxer else 2]:
        try:
            picture = to_numpy(load_image(data, decode_config=config, demux_config=format))
            answer = f"{picture.shape} {hashlib.sha256(picture).hexdigest()}"
        except RuntimeError as error:
            answer = str(error)
        answers[name, config.backend] = answer
pickle.dump(answers, sys.stdout.buffer)
"""


def damaged_tiffs() -> Iterator[tuple[str, bytes]]:
    ycc: Entries = {258: (3, [8] * 3), 262: (3, [6]), 277: (3, [3]), 530: (3, [2, 2])}
    originals = {
        "gray": deflated([PIXELS]),
        "strips": deflated(
            [zlib.compress(LEVELS[:40].tobytes()), zlib.compress(LEVELS[40:].tobytes())], {278: (4, [40])}
        ),
        "1 bit": deflated([zlib.compress(packed(LEVELS[..., np.newaxis] >> 7, 1))], {258: (3, [1])}),
        "palette": deflated([PIXELS], {262: (3, [3]), 320: PALETTE}),
        "RGB": deflated([zlib.compress(SAMPLES[..., :3].tobytes())], {**RGB, 258: (3, [8] * 3), 277: (3, [3])}),
        "planes": planes(SAMPLES[..., :3].astype(np.uint16), RGB, ">"),
        "YCbCr": deflated([zlib.compress(SAMPLES.tobytes()[:9000])], ycc),
        "no compression": stored(SAMPLES[..., :3], RGB),
        "a palette": with_palette(4, (3, colors(4))),
        "LZW": encode(make_image(45, 31), "TIFF", compression="tiff_lzw"),
        "LZMA": tiff(PHOTO, compression=34925, compress=lzma.compress),
        "tiles": tiff(PHOTO, tile=(16, 16), compression=8, compress=zlib.compress),
    }
    for name, data in originals.items():
        (start,) = struct.unpack_from("<I" if data[:2] == b"II" else ">I", data, 4)
        for at in range(start + 2, start + 2 + ENTRY * data[start + (data[:2] == b"MM")], ENTRY):
            yield f"{name} {at} missing", changed(data, at, "H", 65000)
            for kind in TYPES:
                yield f"{name} {at} type {kind}", changed(data, at + 2, "H", kind)
            for count in (0, 1, 2, 1000):
                yield f"{name} {at} count {count}", changed(data, at + 4, "I", count)
            for value in VALUES:
                yield f"{name} {at} value {value}", changed(data, at + 8, "H", value)
            yield f"{name} {at} outside", changed(data, at + 8, "I", len(data))
        for size in range(8, len(data), max(1, len(data) // 9)):
            yield f"{name} cut {size}", data[:size]


def damaged_files() -> dict[str, tuple[bytes, str]]:
    files = {name: (data, "") for name, data in damaged_tiffs()}
    image = make_image(45, 31)
    few = image.quantize(16)
    originals = {
        "AVIF": (encode(image, "AVIF"), ""), "GIF": (encode(few, "GIF"), ""), "PNG": (encode(few, "PNG"), ""),
        "BMP": (encode(few, "BMP"), ""), "WebP": (encode(image, "WEBP"), ""), "JPEG": (encode(image, "JPEG"), ""),
        "PCX": (encode(few, "PCX"), "pcx_pipe"), "SGI": (encode(image, "SGI"), "sgi_pipe"),
        "TGA": (encode(few, "TGA", compression="tga_rle"), "image2pipe"),
        "XBM": (encode(image.convert("1"), "XBM"), "xbm_pipe"),
    }  # fmt: skip
    for name, (data, demuxer) in originals.items():
        for at in range(0, min(len(data), 130), 2):
            for byte in (0, 255):
                files[f"{name} {at} {byte}"] = (data[:at] + bytes([byte]) + data[at + 1 :], demuxer)
        for size in range(1, len(data), max(1, len(data) // 19)):
            files[f"{name} cut {size}"] = (data[:size], demuxer)
    return files


def test_pictures_and_errors_do_not_depend_on_what_memory_held() -> None:
    files = pickle.dumps(damaged_files())
    answers = []
    for filling in (0, 85, 170):
        # Without its caches, glibc fills all memory that it gives.
        glibc = {"MALLOC_PERTURB_": str(filling), "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **glibc}
        command = [sys.executable, "-c", PROGRAM]
        done = subprocess.run(command, input=files, capture_output=True, check=False, env=environment)
        assert done.returncode == 0, done.stderr.decode()
        answers.append(pickle.loads(done.stdout))  # noqa: S301 - our own.
    assert len(answers[0]) > 4000
    assert [name for name in answers[0] if len({each[name] for each in answers}) > 1] == []
