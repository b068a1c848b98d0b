"""Writes the inputs that fuzzing of images begins with into the folder that is named.

A file of each kind that Pillow can write, as small as can be, and by hand what it cannot: EXIF data in all its places,
YCCK, odd subsampling, interlaced PNG, run lengths in BMP.
"""

from __future__ import annotations

import struct
import sys
import zlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tests.io.avif_files import avif, box, cut_out, full_box, grid, picture
from tests.io.heif_files import Samples, colr, heif, hevc
from tests.io.image_files import png
from tests.io.images import encode, make_image
from tests.io.jpeg2000_files import code_of, jp2, palette
from tests.io.jpeg_files import ARITHMETIC, flat_jpeg, lossless_jpeg

PHOTO = make_image(24, 18)
ALPHA = Image.merge("RGBA", (*PHOTO.split(), make_image(24, 18, 1).getchannel(0)))
PALETTE = PHOTO.quantize(7)
BILEVEL = PHOTO.convert("1")


def _exif(orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif.tobytes()


XMP = b'<rdf:Description tiff:Orientation="6"/>'


def _profile() -> bytes:
    """Return EXIF data as ImageMagick writes them into a PNG."""
    return b"Raw profile type exif\0\nexif\n      %d\n%s\n" % (len(_exif(5)), _exif(5).hex().encode())


def _segment(marker: int, content: bytes) -> bytes:
    return struct.pack(">BBH", 0xFF, marker, len(content) + 2) + content


def _behind_start(jpeg: bytes, segment: bytes) -> bytes:
    return jpeg[:2] + segment + jpeg[2:]


def _jpegs() -> dict[str, bytes]:
    def jpeg(image: Image.Image = PHOTO, **options: Any) -> bytes:
        # Tables of its own are shorter, but the standard's are in most files.
        return encode(image, "JPEG", **{"quality": 60, "optimize": True, **options})

    plain = jpeg()
    intel = b"Exif\0\0II*\0\x08\0\0\0" + struct.pack("<HHHIHHI", 1, 0x0112, 3, 1, 5, 0, 0)
    cmyk = jpeg(PHOTO.convert("CMYK"))
    adobe = cmyk.index(b"Adobe")
    return {
        "420": plain,
        "444": jpeg(subsampling="4:4:4"),
        "422": jpeg(subsampling="4:2:2"),
        "411": jpeg(subsampling="4:1:1"),
        "440": plain.replace(b"\0\x22\0", b"\0\x12\0", 1).replace(b"\1\x22\0", b"\1\x12\0", 1),
        "standard": jpeg(optimize=False, quality=85),
        "gray": jpeg(PHOTO.convert("L")),
        "cmyk": cmyk,
        "ycck": cmyk[: adobe + 11] + b"\2" + cmyk[adobe + 12 :],
        "rgb": jpeg(keep_rgb=True),
        "progressive": jpeg(progressive=True),
        "restarts": jpeg(restart_marker_blocks=1),
        "progressive-gray": jpeg(PHOTO.convert("L"), progressive=True, restart_marker_rows=1),
        "exif": jpeg(exif=_exif(6)),
        "xmp": jpeg(xmp=XMP),
        "exif-intel": _behind_start(plain, _segment(0xE1, intel)),
        "icc": jpeg(icc_profile=bytes(200)),
        "comment": _behind_start(plain, _segment(0xFE, b"a comment")),
        "large": encode(make_image(64, 80), "JPEG", quality=10),
        "lossless": lossless_jpeg(np.asarray(PHOTO.resize((12, 9)))),
        "lossless-16": lossless_jpeg(np.arange(99).reshape(9, 11, 1) * 661, 16, predictor=4),
        "lossless-cmyk": lossless_jpeg(np.asarray(PHOTO.resize((12, 9)).convert("CMYK")), predictor=7),
        "12-bits": flat_jpeg(np.arange(6).reshape(2, 3) * 800),
        "arithmetic": ARITHMETIC,
    }


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _png(color: int, depth: int, lines: bytes, width: int, height: int, *, interlaced: bool = False) -> bytes:
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, int(interlaced))
    return (
        b"\x89PNG\r\n\x1a\n"
        + _chunk(b"IHDR", header)
        + _chunk(b"eXIf", _exif(8)[6:])
        + _chunk(b"IDAT", zlib.compress(lines))
        + _chunk(b"IEND", b"")
    )


def _interlaced(width: int, height: int) -> bytes:
    pixels = np.asarray(make_image(width, height))
    lines = b""
    for x, y, right, down in (
        (0, 0, 8, 8),
        (4, 0, 8, 8),
        (0, 4, 4, 8),
        (2, 0, 4, 4),
        (0, 2, 2, 4),
        (1, 0, 2, 2),
        (0, 1, 1, 2),
    ):
        lines += b"".join(b"\1" + row.tobytes() for row in pixels[y::down, x::right] if row.size)
    return _png(2, 8, lines, width, height, interlaced=True)


def _pngs() -> dict[str, bytes]:
    small = encode(PHOTO.convert("L").resize((12, 9)), "PNG")
    deep = np.arange(9 * 7 * 3, dtype=">u2").reshape(7, 9, 3) * 347
    return {
        "rgb": encode(PHOTO.resize((12, 9)), "PNG", exif=_exif(3)),
        "xmp": small[:33] + _chunk(b"iTXt", b"XML:com.adobe.xmp\0\1\0\0\0" + zlib.compress(XMP)) + small[33:],
        "profile": small[:33] + _chunk(b"tEXt", _profile()) + small[33:],
        "rgba": encode(ALPHA.resize((12, 9)), "PNG"),
        "gray": encode(PHOTO.convert("L"), "PNG"),
        "gray-alpha": encode(PHOTO.convert("L").convert("LA").resize((12, 9)), "PNG"),
        "bilevel": encode(BILEVEL, "PNG"),
        "palette": encode(PALETTE, "PNG", transparency=3),
        "gray16": encode(Image.fromarray(deep[..., 0].astype("<u2")), "PNG"),
        "rgb16": _png(2, 16, b"".join(b"\2" + row.tobytes() for row in deep), 9, 7),
        "interlaced": _interlaced(11, 9),
        "interlaced-gray": png(deep[..., :1] % 4, 2, 0, interlaced=True, extra=_chunk(b"tRNS", b"\0\2")),
        "interlaced-palette": png(
            deep[..., :1] % 16,
            4,
            3,
            interlaced=True,
            extra=_chunk(b"PLTE", bytes(range(48))) + _chunk(b"tRNS", b"\1\2"),
        ),
        "interlaced-16": png(deep, 16, 2, interlaced=True, extra=_chunk(b"tRNS", bytes(6))),
        "animated": encode(PALETTE, "PNG", save_all=True, append_images=[PALETTE.rotate(90)]),
    }


def _run_length_bmp() -> bytes:
    rows = (b"\x08\x01\x00\x04\x01\x02\x03\x04\x00\x00" * 4) + b"\x00\x02\x01\x01\x0b\x02\x00\x01"
    colors = b"".join(struct.pack("<BBBB", 60 * i, 20 * i, 9 * i, 0) for i in range(4))
    header = struct.pack("<IiiHHIIiiII", 40, 12, 6, 1, 8, 1, len(rows), 0, 0, 4, 0)
    offset = 14 + len(header) + len(colors)
    return struct.pack("<2sIHHI", b"BM", offset + len(rows), 0, 0, offset) + header + colors + rows


def _masked_bmp() -> bytes:
    header = struct.pack("<IiiHHIIiiII", 56, 5, -3, 1, 32, 3, 0, 0, 0, 0, 0)
    masks = struct.pack("<4I", 0xFF, 0xFF00, 0xFF0000, 0xFF000000)
    return struct.pack("<2sIHHI", b"BM", 70 + 60, 0, 0, 70) + header + masks + bytes(range(60))


def _qoi() -> bytes:
    chunks = b"\xfe\x10\x20\x30\xff\x40\x50\x60\x70\x35\x6a\x9b\x42\xc4\xfe\x01\x02\x03\x1b\x55\xcd"
    return b"qoif" + struct.pack(">IIBB", 7, 4, 4, 0) + chunks + bytes(7) + b"\1"


def _others() -> dict[str, bytes]:
    small = PHOTO.resize((12, 9))
    return {
        "plain.gif": encode(PALETTE, "GIF", interlace=0),
        "interlaced.gif": encode(PALETTE, "GIF", interlace=1, transparency=2),
        "animated.gif": encode(PALETTE, "GIF", save_all=True, append_images=[PALETTE.rotate(90)], loop=0),
        "rgb.bmp": encode(small, "BMP"),
        "gray.bmp": encode(small.convert("L").quantize(4), "BMP"),
        "bilevel.bmp": encode(BILEVEL, "BMP"),
        "runs.bmp": _run_length_bmp(),
        "masks.bmp": _masked_bmp(),
        "plain.qoi": _qoi(),
        "text.ppm": b"P3 2 2 # levels\n999\n" + b"0 500 999 " * 4,
        "deep.pgm": b"P5 4 3 1000 " + bytes(range(24)),
        "raw.tiff": encode(small, "TIFF", tiffinfo={0x0112: 7}),
        "lzw.tiff": encode(PHOTO, "TIFF", compression="tiff_lzw"),
        "deflate.tiff": encode(PALETTE, "TIFF", compression="tiff_adobe_deflate"),
        "packbits.tiff": encode(BILEVEL, "TIFF", compression="packbits"),
        "fax.tiff": encode(BILEVEL, "TIFF", compression="group4"),
        "deep.tiff": encode(Image.fromarray(np.arange(99, dtype=np.uint16).reshape(9, 11)), "TIFF"),
        "motorola.tiff": encode(Image.fromarray(np.arange(99, dtype=">u2").reshape(9, 11)), "TIFF"),
        "pages.tiff": encode(BILEVEL, "TIFF", save_all=True, append_images=[BILEVEL]),
        "big.tiff": encode(small, "TIFF", compression="tiff_lzw", tiffinfo={317: 2}, big_tiff=True),
        "jpeg.tiff": encode(small, "TIFF", compression="jpeg"),
        "zstd.tiff": encode(ALPHA, "TIFF", compression="zstd"),
        "cmyk.tiff": encode(small.convert("CMYK"), "TIFF", compression="tiff_adobe_deflate"),
        "ycbcr.tiff": encode(small.convert("YCbCr"), "TIFF", compression="packbits"),
        "float.tiff": encode(small.convert("F"), "TIFF", compression="tiff_lzw"),
        "lossy.webp": encode(PHOTO, "WEBP", quality=40, exif=_exif(6)),
        "lossless.webp": encode(PALETTE.convert("RGB"), "WEBP", lossless=True),
        "xmp.webp": encode(PALETTE.convert("RGB").resize((12, 9)), "WEBP", lossless=True, xmp=XMP),
        "alpha.webp": encode(ALPHA, "WEBP", quality=40),
        "animated.webp": encode(PHOTO, "WEBP", save_all=True, append_images=[PHOTO.rotate(90)], quality=10),
        "plain.avif": encode(PHOTO, "AVIF", quality=40),
        "gray.avif": encode(small.convert("L"), "AVIF", range="limited"),
        "alpha.avif": encode(ALPHA, "AVIF", quality=40),
        "sequence.avif": encode(ALPHA, "AVIF", save_all=True, append_images=[ALPHA.rotate(180)], quality=10),
        "tiles.avif": avif(grid([picture(make_image(64, 64), quality=10)] * 2, 2, (100, 40)), inside=True),
        "cut.avif": avif([cut_out(picture(PHOTO, quality=40), 10, 1, 12, 1, -1, 1, 0, 1)], pitm_last=True),
        "xmp.avif": encode(PHOTO, "AVIF", quality=40, xmp=XMP, exif=_exif(6)),
        "plain.ppm": encode(small, "PPM"),
        "plain.pgm": encode(small.convert("L"), "PPM"),
        "plain.tga": encode(PALETTE, "TGA", compression="tga_rle"),
    }


def _jpeg2000s() -> dict[str, bytes]:
    small = PHOTO.resize((12, 9))
    indices = Image.fromarray(np.arange(48, dtype=np.uint8).reshape(6, 8) % 5)
    entries = np.arange(20, dtype=np.uint8).reshape(5, 4) * 12
    return {
        "plain.jp2": encode(small, "JPEG2000"),
        "alpha.jp2": encode(ALPHA.convert("LA").resize((12, 9)), "JPEG2000", irreversible=True),
        "ycc.jp2": encode(small.convert("YCbCr"), "JPEG2000", num_resolutions=2),
        "palette.jp2": jp2(code_of(encode(indices, "JPEG2000")), "sRGB", palette(entries)),
        "tiles.j2k": encode(
            PHOTO.resize((40, 30)), "JPEG2000", tile_size=(32, 32), no_jp2=True, quality_layers=[60, 30]
        ),
    }


def _heifs() -> dict[str, bytes]:
    """Return files of items in HEVC, which the ffmpeg command encodes."""
    full, turn = colr(6, full=True), box(b"irot", b"\1")
    flat = Samples((np.full((64, 64), 90, np.uint8), *[np.full((32, 32), 160, np.uint8)] * 2))
    covers = Samples((np.full((64, 64), 200, np.uint8),), "gray")
    auxiliary = full_box(b"auxC", b"urn:mpeg:hevc:2015:auxid:1\0")
    whole, *tiles = grid([hevc(flat, full)] * 2, 2, (100, 50))
    return {
        "plain.heic": heif(hevc(flat, box(b"clap", struct.pack(">8i", 60, 1, 50, 1, 0, 1, 0, 1)), turn)),
        "alpha.heic": heif(hevc(flat, full), replace(hevc(covers, auxiliary), links=((b"auxl", 1),))),
        "tiles.heic": heif(replace(whole, properties=(full, turn)), *tiles),
    }


def corpus() -> dict[str, bytes]:
    """Return the inputs by the names of their files."""
    inputs = {f"{name}.jpg": data for name, data in _jpegs().items()}
    inputs |= {f"{name}.png": data for name, data in _pngs().items()}
    return inputs | _others() | _jpeg2000s() | _heifs()


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in corpus().items():
        (folder / name).write_bytes(data)
