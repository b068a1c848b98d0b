"""Images that say of themselves what is not so."""

import struct
import zlib
from collections.abc import Iterator

from PIL import Image

from tests.io.images import encode, make_image, make_jpeg

PHOTO = make_image(50, 40)
ALPHA = Image.merge("RGBA", (*PHOTO.split(), PHOTO.getchannel(0)))
START_OF_SCAN = 0xDA


def jpeg_segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """The marker of each segment in front of the first scan, where it begins and where it ends."""
    at = 2
    while data[at + 1] != START_OF_SCAN:
        end = at + 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        yield data[at + 1], at, end
        at = end


def scan_start(data: bytes) -> int:
    """Where the pixels of a JPEG's first scan begin."""
    start = data.index(b"\xff\xda")
    return start + 2 + int.from_bytes(data[start + 2 : start + 4], "big")


def jpeg_segment(marker: int, content: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(content) + 2) + content


def with_segment(data: bytes, marker: int, content: bytes) -> bytes:
    """Put a segment behind the start of a JPEG."""
    return data[:2] + jpeg_segment(marker, content) + data[2:]


def without_segments(data: bytes, marker: int) -> bytes:
    for found, begin, end in reversed(list(jpeg_segments(data))):
        if found == marker:
            data = data[:begin] + data[end:]
    return data


def frame_header(data: bytes) -> tuple[int, int]:
    """Where the segment of a JPEG that holds its size begins and ends."""
    return next((begin, end) for marker, begin, end in jpeg_segments(data) if marker in (0xC0, 0xC1, 0xC2))


def sized_jpeg(data: bytes, width: int, height: int) -> bytes:
    begin, _ = frame_header(data)
    return data[: begin + 5] + struct.pack(">HH", height, width) + data[begin + 9 :]


def png_chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def with_chunk(data: bytes, kind: bytes, content: bytes) -> bytes:
    """Put a chunk behind the header of a PNG."""
    return data[:33] + png_chunk(kind, content) + data[33:]


def sized_png(data: bytes, width: int, height: int) -> bytes:
    return data[:8] + png_chunk(b"IHDR", struct.pack(">II", width, height) + data[24:29]) + data[33:]


def sized_gif(data: bytes, width: int, height: int) -> bytes:
    """Both the screen and the first picture on it."""
    size = struct.pack("<HH", width, height)
    picture = data.index(b"\x2c\0\0\0\0")
    return data[:6] + size + data[10 : picture + 5] + size + data[picture + 9 :]


def sized_bmp(data: bytes, width: int, height: int) -> bytes:
    return data[:18] + struct.pack("<ii", width, height) + data[26:]


def sized_tiff(data: bytes, width: int, height: int) -> bytes:
    changed = bytearray(data)
    directory = int.from_bytes(data[4:8], "little")
    for index in range(int.from_bytes(data[directory : directory + 2], "little")):
        entry = directory + 2 + 12 * index
        tag = int.from_bytes(data[entry : entry + 2], "little")
        if tag in (256, 257):
            struct.pack_into("<HHII", changed, entry, tag, 4, 1, width if tag == 256 else height)
    return bytes(changed)


def sized_webp(data: bytes, width: int, height: int) -> bytes:
    """The canvas, of a file that has one."""
    canvas = data.index(b"VP8X") + 12
    return data[:canvas] + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little") + data[canvas + 6 :]


def sized(width: int, height: int) -> dict[str, bytes]:
    """An image of each format that says it has this size."""
    return {
        "JPEG": sized_jpeg(make_jpeg(50, 40), width, height),
        "progressive JPEG": sized_jpeg(make_jpeg(50, 40, progressive=True), width, height),
        "gray JPEG": sized_jpeg(encode(PHOTO.convert("L"), "JPEG"), width, height),
        "CMYK JPEG": sized_jpeg(encode(PHOTO.convert("CMYK"), "JPEG"), width, height),
        "PNG": sized_png(encode(PHOTO, "PNG"), width, height),
        "GIF": sized_gif(encode(PHOTO.quantize(32), "GIF"), width, height),
        "BMP": sized_bmp(encode(PHOTO, "BMP"), width, height),
        "TIFF": sized_tiff(encode(PHOTO, "TIFF"), width, height),
        "WebP": sized_webp(encode(ALPHA, "WEBP"), width, height),
        "animated WebP": sized_webp(encode(PHOTO, "WEBP", save_all=True, append_images=[ALPHA]), width, height),
    }
