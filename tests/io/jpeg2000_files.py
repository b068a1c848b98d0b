"""JPEG 2000 files: the boxes of those that Pillow writes, put together in other ways."""

import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.io.av.ffmpeg import need_encoder, run_ffmpeg

SIGNATURE = b"\0\0\0\x0cjP  \r\n\x87\n" + b"\0\0\0\x14ftypjp2 \0\0\0\0jp2 "
ENUMERATED = {"CMYK": 12, "CIELab": 14, "sRGB": 16, "gray": 17, "sYCC": 18, "e-sYCC": 24}


def box(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I4s", 8 + len(content), name) + content


def colours(space: str | bytes) -> bytes:
    """Make the box of a space that has a number, or of a profile."""
    if isinstance(space, bytes):
        return box(b"colr", b"\2\0\0" + space)
    return box(b"colr", b"\1\0\0" + struct.pack(">I", ENUMERATED[space]))


def palette(entries: npt.NDArray[np.uint8]) -> bytes:
    """Make the boxes of a palette of 8 bits, a row for each colour."""
    count, channels = entries.shape
    content = struct.pack(">HB", count, channels) + b"\7" * channels + entries.tobytes()
    return box(b"pclr", content) + box(b"cmap", b"".join(struct.pack(">HBB", 0, 1, i) for i in range(channels)))


def jp2(code: bytes, space: str | bytes | None, *boxes: bytes) -> bytes:
    """Put a code into boxes. Its own header tells the size and the number of channels."""
    right, bottom, left, top = struct.unpack_from(">4I", code, 8)
    (channels,) = struct.unpack_from(">H", code, 40)
    depths = {code[42 + 3 * i] for i in range(channels)}
    depth = depths.pop() if len(depths) == 1 else 255
    header = box(b"ihdr", struct.pack(">IIHBBBB", bottom - top, right - left, channels, depth, 7, 0, 0))
    if space is not None:
        header += colours(space)
    return SIGNATURE + box(b"jp2h", header + b"".join(boxes)) + box(b"jp2c", code)


def code_of(file: bytes) -> bytes:
    """Return the code of such a file."""
    return file[file.index(b"\xff\x4f\xff\x51") :]


def coded_planes(planes: bytes, size: tuple[int, int], pix_fmt: str, folder: Path) -> bytes:
    """Encode planes without loss by the ffmpeg command; returns the code."""
    need_encoder("jpeg2000")
    (folder / "planes").write_bytes(planes)
    width, height = size
    run_ffmpeg(
        "-f", "rawvideo", "-pix_fmt", pix_fmt, "-s", f"{width}x{height}", "-i", folder / "planes",
        "-c:v", "jpeg2000", "-pred", "dwt53", "-frames:v", "1", "-f", "image2", "-update", "1", folder / "a.jp2",
    )  # fmt: skip
    return code_of((folder / "a.jp2").read_bytes())
