"""What format a file has, by its first bytes, or by its name if those say nothing."""

from __future__ import annotations

import re
from pathlib import PurePath

IMAGES = ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WebP", "AVIF", "HEIC", "JPEG 2000", "QOI", "PNM", "other images")
"""The rows of images. The last one holds formats that the documentation does not list, such as TGA."""

ARRAYS = ("npy", "npz", "wav", "tar", "zip")
"""The rows of arrays and archives."""

_SIGNATURES: tuple[tuple[str, bytes], ...] = (
    ("JPEG", rb"\xff\xd8\xff"),
    ("PNG", rb"\x89PNG\r\n\x1a\n"),
    ("GIF", rb"GIF8[79]a"),
    ("BMP", rb"BM"),
    ("TIFF", rb"(?s)II[*+]\0|MM\0[*+]"),
    ("WebP", rb"(?s)RIFF....WEBP"),
    ("AVIF", rb"(?s)....ftyp(?:avi[fs]|.{4}(?:.{4})*?avi[fs])"),
    ("HEIC", rb"(?s)....ftyp(?:he[iv][cxms]|mif1|msf1)"),
    ("JPEG 2000", rb"\0\0\0\x0cjP  |\xff\x4f\xff\x51"),
    ("QOI", rb"qoif"),
    ("PNM", rb"P[1-7]\s"),
    ("npy", rb"\x93NUMPY"),
    ("wav", rb"(?s)(?:RIFF|RIFX|RF64|BW64)....WAVE"),
    ("zip", rb"PK\x03\x04|PK\x05\x06"),
)
_SIGNATURE_BYTES = 64

_EXTENSIONS = {
    "JPEG": "jpg jpeg jpe jfif mpo",
    "PNG": "png apng",
    "GIF": "gif",
    "BMP": "bmp",
    "TIFF": "tif tiff",
    "WebP": "webp",
    "AVIF": "avif avifs",
    "HEIC": "heic heics heif heifs hif",
    "JPEG 2000": "jp2 j2k jpc jpx j2c jpf",
    "QOI": "qoi",
    "PNM": "ppm pgm pbm pnm pam",
    "other images": "dib tga pcx psd ico cur sgi bw rgb dds xbm xpm ras icns fli flc im msp pfm",
    "npy": "npy",
    "npz": "npz",
    "wav": "wav wave",
    "tar": "tar tgz tar.gz tar.bz2 tar.xz tar.zst tbz tbz2 txz",
    "zip": "zip",
}
_BY_EXTENSION = {extension: name for name, extensions in _EXTENSIONS.items() for extension in extensions.split()}

# Formats whose files are taken by their names alone: what they begin with also begins other files.
_ONLY_BY_NAME = ("npz", "tar", "other images")


def format_of(name: str, begin: bytes) -> str | None:
    """Return the format of a file with this name and these first bytes, or None if it is of no interest.

    What a file begins with counts. A file that begins like none of the formats has that of its name, since a damaged
    file is of interest too. Only npz, tar and the other images go by the name first.
    """
    by_name = _by_name(name)
    if by_name in _ONLY_BY_NAME:
        by_content = _by_content(begin)
        return by_content if by_name == "other images" and by_content in IMAGES else by_name
    if by_name is None:
        return None
    return _by_content(begin) or by_name


def _by_name(name: str) -> str | None:
    suffixes = [suffix.lower().removeprefix(".") for suffix in PurePath(name).suffixes]
    return _BY_EXTENSION.get(".".join(suffixes[-2:])) or _BY_EXTENSION.get(suffixes[-1] if suffixes else "")


def _by_content(begin: bytes) -> str | None:
    start = begin[:_SIGNATURE_BYTES]
    return next((name for name, signature in _SIGNATURES if re.match(signature, start)), None)
