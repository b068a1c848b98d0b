"""Small files that would take much work or memory: they are refused, or take no more than the picture needs.

What is refused for its size alone is tested in test_headers.py.
"""

import resource
import struct
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.io.headers import PHOTO, jpeg_segment, png_chunk, with_chunk
from tests.io.image_files import tiff_file
from tests.io.images import encode, make_image
from tests.io.processes import passes

from spdl.io import decode_config, demux_config, load_image, load_image_batch, to_numpy

PNG = encode(PHOTO, "PNG")
MEGABYTE = 1 << 20
FFMPEG = decode_config(backend="ffmpeg")


def zeros(megabytes: int) -> bytes:
    """As many as that, deflated to a thousandth."""
    deflate = zlib.compressobj(9, wbits=-15)
    # After a full flush the same comes once more.
    piece = deflate.compress(bytes(MEGABYTE)) + deflate.flush(zlib.Z_FULL_FLUSH)
    # For zeros, the first sum stays 1, and the second counts them.
    checksum = (megabytes * MEGABYTE % 65_521) << 16 | 1
    data = b"\x78\xda" + piece * megabytes + deflate.flush() + struct.pack(">I", checksum)
    assert megabytes > 1 or zlib.decompress(data) == bytes(MEGABYTE)
    return data


def box(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", 8 + len(content)) + kind + content


def compressed_movie_header(megabytes: int) -> bytes:
    header = box(b"dcom", b"zlib") + box(b"cmvd", struct.pack(">I", megabytes * MEGABYTE) + zeros(megabytes))
    return box(b"ftyp", b"avif\0\0\0\0avifmif1") + box(b"moov", box(b"cmov", header)) + box(b"mdat", b"abc")


def within_memory(megabytes: int, work: Callable[[], None]) -> None:
    used = int(Path("/proc/self/statm").read_text("utf-8").split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + megabytes * MEGABYTE, resource.RLIM_INFINITY))
    work()


def inflate_metadata() -> None:
    bomb, half = zeros(200), zeros(40)
    zeros(1)  # Its own check.
    load_image(PNG)
    load_image(PNG, decode_config=FFMPEG)

    def work() -> None:
        for kind, content in ((b"zTXt", b"Comment\0\0" + bomb), (b"iCCP", b"name\0\0" + bomb)):
            with pytest.raises(RuntimeError, match=r"compressed texts and profiles inflate to more than the 64 MB"):
                load_image(with_chunk(PNG, kind, content), decode_config=FFMPEG)
            # They are not inflated at all.
            assert load_image(with_chunk(PNG, kind, content)).backends == ("libdeflate",)
        # Each is allowed, both are not.
        one = with_chunk(PNG, b"zTXt", b"Comment\0\0" + half)
        assert load_image(one, decode_config=FFMPEG).shape == (40, 50, 3)
        with pytest.raises(RuntimeError, match=r"its chunk zTXt of \d+ bytes is one too many"):
            load_image(with_chunk(one, b"zTXt", b"Comment\0\0" + half), decode_config=FFMPEG)
        with pytest.raises(RuntimeError, match=r"compressed header is said to inflate to 200 MB; 64 MB are accepted"):
            load_image(compressed_movie_header(200), demux_config=demux_config(format="mov"))

    within_memory(160, work)


def test_texts_profiles_and_headers_do_not_inflate_without_end() -> None:
    passes(inflate_metadata)


def test_an_animated_png_is_looked_through_too() -> None:
    animated = encode(PHOTO, "PNG", save_all=True, append_images=[make_image(50, 40, 1)])
    control = animated.index(b"acTL") - 4
    bomb = png_chunk(b"zTXt", b"Comment\0\0" + zeros(100))
    with pytest.raises(RuntimeError, match="compressed texts and profiles inflate"):
        load_image(animated[:control] + bomb + animated[control:], decode_config=FFMPEG)


def test_profiles_that_are_large_but_sound_are_taken() -> None:
    # Two megabytes that cannot be compressed: nothing can be told from the size of the chunk.
    noise = np.random.default_rng(0).integers(0, 256, 2 * MEGABYTE, np.uint8).tobytes()
    data = with_chunk(PNG, b"iCCP", b"name\0\0" + zlib.compress(noise, 1))
    np.testing.assert_array_equal(to_numpy(load_image(data, filter_desc="format=pix_fmts=rgb24")), np.asarray(PHOTO))


def test_of_an_animation_of_many_pictures_only_the_first_is_decoded() -> None:
    first, second = PHOTO.quantize(8), make_image(50, 40, 1).quantize(8)
    two = encode(first, "GIF", save_all=True, append_images=[second])
    # The graphic control extension of the second one, and all behind it but the trailer.
    again = two[two.rindex(b"\x21\xf9\x04") : -1]
    many = two[:-1] + again * 20_000 + b";"
    started = time.process_time()
    np.testing.assert_array_equal(to_numpy(load_image(many)), to_numpy(load_image(two)))
    # All would take half a minute.
    assert time.process_time() - started < 5


def scans(width: int, height: int, count: int) -> bytes:
    """A progressive JPEG whose scans say in a few bytes each that there is nothing in them."""
    table = jpeg_segment(0xDB, b"\0" + bytes([1] * 64))
    frame = jpeg_segment(0xC2, struct.pack(">BHHBBBB", 8, height, width, 1, 1, 0x11, 0))
    # One code of one bit each: a difference of 0, and the end of 2 ** 14 blocks and as many as 14 bits say.
    codes = jpeg_segment(0xC4, bytes((0x00, 1, *[0] * 15, 0x00))) + jpeg_segment(
        0xC4, bytes((0x10, 1, *[0] * 15, 0xE0))
    )
    blocks = -(-width // 8) * -(-height // 8)
    bits = ("0" + "1" * 14) * (blocks // (2**15 - 1) + 1)
    content = int(bits + "1" * (-len(bits) % 8), 2).to_bytes(-(-len(bits) // 8), "big").replace(b"\xff", b"\xff\0")
    first = jpeg_segment(0xDA, bytes((1, 1, 0x00, 0, 0, 0))) + bytes(-(-blocks // 8))
    scan = jpeg_segment(0xDA, bytes((1, 1, 0x00, 1, 63, 0))) + content
    return b"\xff\xd8" + table + frame + codes + first + scan * count + b"\xff\xd9"


@pytest.mark.parametrize(
    ("size", "allowed"),
    [pytest.param((64, 64), 500, id="small"), pytest.param((5000, 4001), 64, id="large")],
)
def test_scans_of_a_progressive_jpeg_are_limited(size: tuple[int, int], allowed: int) -> None:
    keywords: dict[str, Any] = {"width": 8, "height": 8, "mode": "stretch"}
    # The scan for the mean values is one more.
    assert (to_numpy(load_image_batch([scans(*size, allowed - 1)], **keywords)) == 128).all()
    with pytest.raises(RuntimeError, match=rf"it has more than {allowed} scans, too many for its size"):
        load_image_batch([scans(*size, allowed + 5000)], **keywords)


def test_a_picture_of_nothing_costs_no_more_than_its_pixels() -> None:
    # 16 megapixels in 50 kB: it is decoded, in the memory that one picture of that size takes.
    deflate = zlib.compressobj(9)
    row = bytes(1 + 3 * 4000)
    lines = b"".join(deflate.compress(row) for _ in range(4000)) + deflate.flush()
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", 4000, 4000, 8, 2, 0, 0, 0))
    data = PNG[:8] + header + png_chunk(b"IDAT", lines) + png_chunk(b"IEND", b"")
    assert len(data) < 60_000
    assert not to_numpy(load_image_batch([data], width=8, height=8)).any()


def claim_pixels() -> None:
    load_image(encode(PHOTO, "TIFF"))

    def work() -> None:
        sides = {256: [13_000], 257: [13_000], 258: [8] * 3, 262: [2], 273: [8], 277: [3], 278: [13_000], 279: [40]}
        for compression in (1, 5, 7, 8, 32773, 50000):
            entries = sorted((tag, 4, values) for tag, values in (sides | {259: [compression]}).items())
            for order in "<>":
                with pytest.raises(RuntimeError, match="its strips are missing, or end early: there are"):
                    load_image(tiff_file(entries, bytes(40), order))

    within_memory(64, work)


def test_no_room_is_made_for_pixels_that_are_not_there() -> None:
    passes(claim_pixels)
