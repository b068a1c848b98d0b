"""Nothing is read outside the given bytes, and nothing is written outside the given array.

Each test works in a process of its own, which a byte too far would end. Bytes are read in place, so the tests cover
the reads of libjpeg-turbo and FFmpeg too, and every vector that runs over the end of a row.
"""

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from spdl.io import decode_packets, demux_image, load_image, load_image_batch, to_numpy
from tests.io.guarded import Guarded
from tests.io.images import encode, make_image, make_jpeg
from tests.io.inside import instruction_sets, knows_instruction_set
from tests.io.processes import in_a_process, passes, say

IMAGE = make_image(61, 43)
SAMPLES = {
    "baseline": make_jpeg(61, 43),
    "progressive": make_jpeg(61, 43, progressive=True),
    "restarts": make_jpeg(61, 43, restart_marker_blocks=2),
    "gray": encode(IMAGE.convert("L"), "JPEG"),
    "cmyk": encode(IMAGE.convert("CMYK"), "JPEG"),
    "exif": make_jpeg(61, 43, exif=b"Exif\0\0MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0"),
    "png": encode(IMAGE, "PNG"),
    "gif": encode(IMAGE.quantize(32), "GIF"),
    "bmp": encode(IMAGE, "BMP"),
    "tiff": encode(IMAGE, "TIFF", compression="tiff_lzw"),
    "webp": encode(IMAGE, "WEBP"),
    "lossless webp": encode(IMAGE, "WEBP", lossless=True),
    "avif": encode(IMAGE, "AVIF"),
}


def attempt(load: Callable[[], Any]) -> None:
    try:
        load()
    except RuntimeError as error:
        assert str(error)  # noqa: PT017 - either outcome is right.


def read(place: Callable[[bytes], memoryview], data: bytes) -> None:
    """Along every path there is from bytes to pixels."""
    content = place(data)
    keywords: dict[str, Any] = {"width": 17, "height": 9, "mode": "crop", "on_error": "partial"}
    attempt(lambda: load_image_batch([content], **keywords))
    attempt(lambda: load_image_batch([content], crop=[(20, 11, 60, 42)], exact=False, **keywords))
    attempt(lambda: load_image(content, filter_desc="hflip,format=pix_fmts=rgb24"))
    attempt(lambda: decode_packets(demux_image(content), filter_desc=None))


def read_whole_and_truncated() -> None:
    for name, data in SAMPLES.items():
        memory = Guarded(len(data))
        # At the beginning there are headers, whose lengths lead astray.
        for size in [*range(1, min(len(data), 500), 9), *range(500, len(data), 211), len(data)]:
            say(f"{name} of {size} bytes")
            read(memory.at_the_end, data[:size])
            read(memory.at_the_start, data[:size])


def read_damaged() -> None:
    for name, sound in SAMPLES.items():
        memory = Guarded(len(sound))
        rng = random.Random(name)  # noqa: S311 - damage, not cryptography.
        for index in range(30):
            say(f"{name}, damaged in the way {index}")
            data = bytearray(sound)
            for _ in range(rng.choice((1, 5, 20))):
                data[rng.randrange(len(data))] = rng.randrange(256)
            read(memory.at_the_end, bytes(data))


def write_all_forms() -> None:
    """Every layout and type into memory that ends with the array's last byte, with every instruction set."""
    png, jpeg = SAMPLES["png"], SAMPLES["baseline"]
    for kernels in instruction_sets():
        assert knows_instruction_set(kernels)
        for width, height in ((1, 1), (7, 5), (33, 17), (61, 43), (90, 64)):
            for dtype in ("uint8", "float16", "float32"):
                for layout in ("NHWC", "NCHW"):
                    for pix_fmt in ("rgb24", "gray"):
                        shape = (2, height, width, 3 if pix_fmt == "rgb24" else 1)
                        if layout == "NCHW":
                            shape = (shape[0], shape[3], shape[1], shape[2])
                        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
                        memory = Guarded(size).at_the_end(bytes(size))
                        batch = load_image_batch(
                            [jpeg, png],
                            width=width,
                            height=height,
                            pix_fmt=pix_fmt,
                            mode="stretch",
                            dtype=dtype,
                            layout=layout,
                            storage=np.frombuffer(memory, dtype).reshape(shape),
                        )
                        assert to_numpy(batch).any()


def read_too_far() -> None:
    """This is what a failure of the other tests would look like."""
    memory = Guarded(10).at_the_end(b"0123456789")
    np.lib.stride_tricks.as_strided(np.frombuffer(memory, np.uint8), (11,), (1,)).sum()


def test_nothing_is_read_outside_of_the_bytes() -> None:
    passes(read_whole_and_truncated)


def test_nothing_is_read_outside_of_damaged_bytes() -> None:
    passes(read_damaged)


def test_nothing_is_written_outside_of_the_array() -> None:
    passes(write_all_forms)


def test_a_byte_too_far_ends_a_process() -> None:
    # Under a sanitizer it is reported, and the process ends in another way.
    assert in_a_process(read_too_far).returncode != 0
