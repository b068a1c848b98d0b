"""Sound of so many channels that their names make a long text."""

from __future__ import annotations

import pickle
import struct

import numpy as np
import pytest

from spdl.io import decode_packets, demux_audio, get_abuffer_desc, load_audio, to_numpy


def _wave(channels: int, mask: int) -> bytes:
    samples = np.arange(100 * channels, dtype="<i2").tobytes()
    guid = bytes.fromhex("0100000000001000800000aa00389b71")
    rate, block = 8000, 2 * channels
    form = struct.pack("<HHIIHHHHI", 0xFFFE, channels, rate, rate * block, block, 16, 22, 16, mask) + guid
    body = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(samples)) + samples
    return b"RIFF" + struct.pack("<I", len(body)) + body


@pytest.mark.parametrize(
    ("channels", "mask"), [(2, 3), (18, (1 << 18) - 1), (29, (1 << 29) - 1), (31, 0x7FFFFFFF), (24, 0x7FFFFF80)]
)
def test_the_names_are_whole(channels: int, mask: int) -> None:
    packets = demux_audio(_wave(channels, mask))
    text = packets.codec.channel_layout
    assert packets.codec.num_channels == channels
    if channels > 2:
        assert text.startswith(f"{channels} channels (")
        assert text.endswith(")")
        assert text.count("+") == channels - 1
    copy = pickle.loads(pickle.dumps(packets))
    assert copy.codec.channel_layout == text
    frames = decode_packets(copy)
    assert frames.channel_layout == text
    assert get_abuffer_desc(frames).endswith(f":channel_layout={text}")
    assert to_numpy(load_audio(_wave(channels, mask))).shape == (channels, 100)
