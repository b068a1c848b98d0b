"""Which files are of interest, and of which format."""

import io
import zipfile

import pytest
from PIL import Image

from tests.conformance.formats import ARRAYS, IMAGES, format_of
from tests.io.images import encode, make_image


@pytest.mark.parametrize(
    ("pillow", "expected"),
    [
        ("JPEG", "JPEG"),
        ("PNG", "PNG"),
        ("GIF", "GIF"),
        ("BMP", "BMP"),
        ("TIFF", "TIFF"),
        ("WEBP", "WebP"),
        ("JPEG2000", "JPEG 2000"),
        ("QOI", "QOI"),
        ("PPM", "PNM"),
    ],
)
def test_what_a_file_begins_with_counts(pillow: str, expected: str) -> None:
    begin = encode(make_image(9, 7), pillow)[:64]
    assert format_of("image.jpg", begin) == expected
    assert format_of("image.PNG", begin) == expected
    assert format_of("image.tga", begin) == expected
    assert format_of("image.txt", begin) is None
    assert format_of("image", begin) is None


@pytest.mark.parametrize("brand", [b"avif", b"avis"])
def test_avif_is_known_by_any_of_its_brands(brand: bytes) -> None:
    assert format_of("a.jpg", b"\0\0\0\x20ftyp" + brand + bytes(8)) == "AVIF"
    assert format_of("a.jpg", b"\0\0\0\x20ftypmif1" + bytes(4) + b"miaf" + brand) == "AVIF"
    assert format_of("a.avif", b"\0\0\0\x20ftypisom" + bytes(4) + b"iso2") == "AVIF"  # By its name.


@pytest.mark.parametrize("brand", [b"heic", b"heix", b"hevc", b"mif1", b"msf1"])
def test_heic_is_known_by_its_first_brand(brand: bytes) -> None:
    assert format_of("a.jpg", b"\0\0\0\x18ftyp" + brand + bytes(4) + b"mif1miaf") == "HEIC"
    assert format_of("a.mp4", b"\0\0\0\x18ftyp" + brand) is None
    assert format_of("a.hif", b"\0\0\0\x18ftypisom") == "HEIC"  # By its name.


def test_a_file_that_begins_like_nothing_has_the_format_of_its_name() -> None:
    assert format_of("broken.tif", bytes(64)) == "TIFF"
    assert format_of("broken.Jpg", b"") == "JPEG"
    assert format_of("sound.wav", b"RIFF1234WAVEfmt ") == "wav"
    assert format_of("array.npy", b"\x93NUMPY\x01\0") == "npy"


def test_archives_have_the_format_of_their_name() -> None:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("a.txt", "a")
    begin = archive.getvalue()[:64]
    assert format_of("a.npz", begin) == "npz"
    assert format_of("a.zip", begin) == "zip"
    for name in ("a.tar", "a.tar.gz", "a.tgz", "a.b.tar.zst"):
        assert format_of(name, b"\x1f\x8b") == "tar"
    assert format_of("a.gz", b"\x1f\x8b") is None


def test_every_row_can_be_reached() -> None:
    names = "jpg png gif bmp tif webp avif heic jp2 qoi ppm tga"
    assert [format_of(f"a.{name}", b"") for name in names.split()] == list(IMAGES)
    assert [format_of(f"a.{name}", b"") for name in ARRAYS] == list(ARRAYS)


def test_pillow_can_name_the_other_images() -> None:
    # Pillow is their oracle.
    Image.init()
    for suffix in ("tga", "pcx", "psd", "ico", "sgi", "dds", "xbm", "xpm", "ras", "icns", "fli"):
        assert f".{suffix}" in Image.EXTENSION
        assert format_of(f"a.{suffix}", b"") == "other images"
