"""JPEGs of rare kinds, which Pillow cannot write, put together by hand as ITU-T T.81 says."""

import base64
import struct

import numpy as np

from tests.io.headers import jpeg_segment
from tests.io.image_files import AnyArray

# One image of 24x20 pixels, written by libjpeg-turbo 2.1: as YCbCr with arithmetic coding, quality 85, 4:2:0.
ARITHMETIC = base64.b64decode(
    "/9j/4AAQSkZJRgABAQAAAQABAAD/2wBDAAUDBAQEAwUEBAQFBQUGBwwIBwcHBw8LCwkMEQ8SEhEPERETFhwXExQaFRERGCEYGh0dHx8fExciJCIeJB"
    "weHx7/2wBDAQUFBQcGBw4ICA4eFBEUHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh4eHh7/yQARCAAUABgD"
    "ASIAAhEBAxEB/8wACgAQEAUBEBEF/9oADAMBAAIRAxEAPwD/AJDcwrsiT4cCx1HHCshPq+r0xGI3DcETBCroAG30l6xhXJdKbVPnEzZGfXQe8RPLz2"
    "GqnIA+LqQ7Mo3PuBDgav58l7ofrqWh2giG6l8TN7lTx7ctVijQWJ6bOaqJ27ghDq/OctGqhQ84FlwEP+gMC5kL3wqFVlfcuETyZPFfSTMmmBa2tn4Y"
    "/wDg9kF1KZtdSrvwrSgvexsuGB1Y9OjNWS39nYNjp+HQ5hhDEGiLQdNYUxOqdCe/AlJ94YVD72du9XWocqyQeat+DjFsFVgE1m2EQpFxq8msjECCku"
    "F25HAGNKkAEB4Bx5pzFk8+187/AMoGl6NyaE+6RyO1Pr/dMqb9xX0a3OfDrwx8CsXszjsnsY/gZg1gokgFQ5/88MGHueb93rPzclottAKA79+GIthY"
    "GCvzHMxj+8G1+W9iGSL3qI0faim2X+oYBnbtZNxeHobqgC7Xj/v/2Q=="
)


def lossless_jpeg(samples: AnyArray, bits: int = 8, predictor: int = 1) -> bytes:
    """Make a lossless JPEG of samples (H, W, C) below ``2**bits``, gray, RGB or CMYK, by a predictor from 1 to 7."""
    height, width, channels = samples.shape
    names = b"\1" if channels == 1 else b"RGB" if channels == 3 else b"CMYK"
    values = samples.astype(int)
    words: list[tuple[int, int]] = []
    for y, x, channel in np.ndindex(height, width, channels):
        plane = values[..., channel]
        difference = (int(plane[y, x]) - _prediction(plane, y, x, bits, predictor)) & 0xFFFF
        difference -= 0x10000 if difference > 0x8000 else 0
        words += _coded(difference)
    frame = struct.pack(">BHHB", bits, height, width, channels) + b"".join(bytes((name, 0x11, 0)) for name in names)
    scan = bytes((channels, *(byte for name in names for byte in (name, 0)), predictor, 0, 0))
    return _jpeg(0xC3, frame, [_table(17)], scan, words)


def flat_jpeg(levels: AnyArray, bits: int = 12) -> bytes:
    """Make a lossy gray JPEG, of 8 or 12 bits, whose blocks of 8x8 pixels have one of the levels (H, W) each."""
    words: list[tuple[int, int]] = []
    before = 0
    for level in levels.ravel().tolist():
        coefficient = 8 * (level - (1 << (bits - 1)))
        words += [*_coded(coefficient - before), (0, 1)]
        before = coefficient
    frame = struct.pack(">BHHB", bits, 8 * levels.shape[0], 8 * levels.shape[1], 1) + b"\1\x11\0"
    # Of the other coefficients, there is only the code for their end.
    end = jpeg_segment(0xC4, bytes((0x10, 1, *[0] * 15, 0)))
    quantization = jpeg_segment(0xDB, b"\0" + bytes([1] * 64))
    return _jpeg(0xC1, frame, [quantization, _table(16), end], bytes((1, 1, 0, 0, 63, 0)), words)


def _table(count: int) -> bytes:
    """Make codes of 5 bits for so many lengths of differences."""
    return jpeg_segment(0xC4, bytes((0, *[0] * 4, count, *[0] * 11, *range(count))))


def _prediction(plane: AnyArray, y: int, x: int, bits: int, predictor: int) -> int:
    if y == 0:
        return int(plane[0, x - 1]) if x > 0 else 1 << (bits - 1)
    above = int(plane[y - 1, x])
    if x == 0:
        return above
    left, corner = int(plane[y, x - 1]), int(plane[y - 1, x - 1])
    return (
        left,
        above,
        corner,
        left + above - corner,
        left + (above - corner >> 1),
        above + (left - corner >> 1),
        left + above >> 1,
    )[predictor - 1]


def _coded(difference: int) -> list[tuple[int, int]]:
    """Return bits as numbers and how many they are: the code of the difference's length, and the difference."""
    length = abs(difference).bit_length()
    code = (length, 5)
    if length in (0, 16):
        return [code]
    return [code, (difference if difference > 0 else difference + (1 << length) - 1, length)]


def _jpeg(marker: int, frame: bytes, tables: list[bytes], scan: bytes, words: list[tuple[int, int]]) -> bytes:
    bits = "".join(f"{value:0{count}b}" for value, count in words)
    bits += "1" * (-len(bits) % 8)
    content = int(bits, 2).to_bytes(len(bits) // 8, "big").replace(b"\xff", b"\xff\0")
    header = b"".join([*tables, jpeg_segment(marker, frame), jpeg_segment(0xDA, scan)])
    return b"\xff\xd8" + header + content + b"\xff\xd9"
