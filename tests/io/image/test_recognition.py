"""How files are recognised: by their first bytes, and never as something else that FFmpeg happens to read."""

import io
import struct
import wave
import zlib

import numpy as np
import pytest
from tests.io.images import encode, make_image

from spdl.io import demux_config, demux_image, encode_config, encode_image, load_image, to_numpy

READ = "JPEG, PNG, GIF, BMP, TIFF, WebP, AVIF, HEIF, JPEG 2000, QOI, PBM, PGM and PPM are read"
IMAGE = make_image(31, 22)


def psd() -> bytes:
    """Make a document of 3 planes without layers."""
    header = b"8BPS\0\1" + bytes(6) + struct.pack(">HIIHH", 3, 22, 31, 8, 3)
    return header + bytes(12) + b"\0\0" + np.asarray(IMAGE).transpose(2, 0, 1).tobytes()


def pfm() -> bytes:
    return b"PF\n31 22\n-1.0\n" + (np.asarray(IMAGE)[::-1] / 255).astype("<f4").tobytes()


def pam() -> bytes:
    return b"P7\nWIDTH 31\nHEIGHT 22\nDEPTH 3\nMAXVAL 255\nTUPLTYPE RGB\nENDHDR\n" + IMAGE.tobytes()


def sound() -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(8000)
        writer.writeframes(bytes(16000))
    return file.getvalue()


def box(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", 8 + len(content)) + name + content


def icns() -> bytes:
    """Make an icon of one size. Pillow would write ten of them, up to 1,024 x 1,024."""
    png = encode(IMAGE.resize((32, 32)), "PNG")
    return struct.pack(">4sI4sI", b"icns", 16 + len(png), b"icp5", 8 + len(png)) + png


OTHERS = {
    "psd": (psd(), "it seems to be a document of Photoshop"),
    "ico": (encode(IMAGE, "ICO"), r"it seems to be an icon \(ICO\)"),
    "icns": (icns(), r"it seems to be an icon \(ICNS\)"),
    "dds": (encode(IMAGE, "DDS"), "it seems to be a DirectDraw surface"),
    "blp": (encode(IMAGE.quantize(16), "BLP"), r"it seems to be a texture \(BLP\)"),
    "xbm": (encode(IMAGE.convert("1"), "XBM"), "it seems to be an X bitmap"),
    "pfm": (pfm(), r"it seems to be a map of floats \(PFM\)"),
    "pam": (pam(), "it seems to be a PAM"),
    "pcx": (encode(IMAGE, "PCX"), "it seems to be a PCX"),
    "sgi": (encode(IMAGE, "SGI"), "it seems to be an SGI image"),
    "tga": (encode(IMAGE, "TGA"), r'it begins with "\\x00\\x00\\x02.*", as no known image does'),
    "mp4": (
        box(b"ftyp", b"isom\0\0\2\0isomiso2avc1mp41") + box(b"mdat", bytes(50)),
        r"it seems to be a video \(MP4 or QuickTime\)",
    ),
    "sound": (sound(), 'it begins with "RIFF.*WAVE", as no known image does'),
    "text": (b"<html>404</html>\n" * 50, 'it begins with "<html>404</h", as no known image does'),
    "a playlist": (b"#EXTM3U\n#EXTINF:1,\nfile:///dev/null\n", 'it begins with "#EXTM3U.*", as no known image does'),
    "letters beyond ASCII": ("Grüße".encode(), r'it begins with "Gr\\xc3\\xbc\\xc3\\x9fe", as no known image does'),
    "compressed text": (zlib.compress(b"a"), r'it begins with "x\\x9cK.*", as no known image does'),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_what_is_no_known_image_is_named(kind: str) -> None:
    # FFmpeg may read it all the same, but often to other pixels than Pillow's.
    data, reason = OTHERS[kind]
    message = f"cannot read the image: {reason}; {READ}. Convert it to one of these, or name a demuxer of FFmpeg's"
    with pytest.raises(RuntimeError, match=message):
        load_image(data)
    with pytest.raises(RuntimeError, match=message):
        demux_image(data)


def test_another_format_is_read_where_its_demuxer_is_named() -> None:
    pixels = to_numpy(load_image(pam(), demux_config=demux_config(format="pam_pipe")))
    np.testing.assert_array_equal(pixels, np.asarray(IMAGE))


@pytest.mark.parametrize(
    ("width", "height", "slopes"), [(95, 240, (0.51, 1.49, 0.71, 0.17)), (69, 103, (0.95, 1.84, 0.5, 0.45))]
)
def test_a_dark_and_transparent_bmp_is_no_music(width: int, height: int, slopes: tuple[float, ...]) -> None:
    # libopenmpt takes the zeros that it begins with, its last rows, for the header of a module.
    rows = np.arange(height)[::-1, None, None] * np.array(slopes)
    pixels = np.broadcast_to(np.clip(rows, 0, 255).astype(np.uint8), (height, width, 4))
    file = io.BytesIO()
    encode_image(file, np.ascontiguousarray(pixels), pix_fmt="rgba", encode_config=encode_config(format="bmp"))
    np.testing.assert_array_equal(to_numpy(load_image(file.getvalue())), pixels[..., :3])
