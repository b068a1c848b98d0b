"""Files that say of AAC that it is HE-AAC, whose decoders give twice the samples.

FFmpeg has no encoder for HE-AAC, so the configuration of the decoder is rewritten: a decoder that is told of spectral
band replication doubles the rate, whether or not packets bring what to fill the upper band with.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_RATES = [96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000]
_LOW_COMPLEXITY, _SPECTRAL_BANDS, _PARAMETRIC_STEREO = 2, 5, 29
# The boxes of an MP4 file that lead to the decoder's configuration, with the bytes that each holds before others.
_WAY = [(b"moov", 0), (b"trak", 0), (b"mdia", 0), (b"minf", 0), (b"stbl", 0), (b"stsd", 8), (b"mp4a", 28)]


def configuration(rate: int, channels: int, *, stereo: bool) -> bytes:
    """Return an AudioSpecificConfig (ISO/IEC 14496-3, 1.6.2.1) of HE-AAC over AAC of this rate."""
    kind = _PARAMETRIC_STEREO if stereo else _SPECTRAL_BANDS
    fields = [(kind, 5), (_RATES.index(rate), 4), (channels, 4), (_RATES.index(2 * rate), 4), (_LOW_COMPLEXITY, 5)]
    bits = "".join(f"{value:0{width}b}" for value, width in [*fields, (0, 3)])
    bits += "0" * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8, "big")


def as_he_aac(path: Path, rate: int, channels: int, *, stereo: bool = False) -> bytes:
    """Return an MP4 file of AAC, whose index stands at its end, with the configuration of HE-AAC."""
    data = bytearray(path.read_bytes())
    config = configuration(rate, channels, stereo=stereo)
    starts, at = [], 0
    for name, fixed in _WAY:
        at = _box(data, at, name)
        starts.append(at)
        at += 8 + fixed
    esds = _box(data, at, b"esds")
    # Each descriptor has a tag, and a length in four bytes.
    tag = data.index(b"\x05\x80\x80\x80", esds)
    old = data[tag + 4]
    data[tag + 4] = len(config)
    data[tag + 5 : tag + 5 + old] = config
    grown = len(config) - old
    for descriptor in (b"\x03\x80\x80\x80", b"\x04\x80\x80\x80"):
        data[data.index(descriptor, esds) + 4] += grown
    for start in [*starts, esds]:
        struct.pack_into(">I", data, start, struct.unpack_from(">I", data, start)[0] + grown)
    return bytes(data)


def _box(data: bytearray, at: int, name: bytes) -> int:
    """Return where the next box of this name begins, from the beginning of another one on."""
    while data[at + 4 : at + 8] != name:
        size = struct.unpack_from(">I", data, at)[0]
        if size < 8:
            raise ValueError(f"there is no box {name!r}")
        at += size
    return at
