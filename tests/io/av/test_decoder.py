"""Decoder: the size of the pieces that it gives, and what is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.io.av import oracle

from spdl.io import (
    AudioFrames,
    AudioPackets,
    Decoder,
    Demuxer,
    VideoFrames,
    convert_frames,
    demux_audio,
    demux_video,
    to_numpy,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def joined(pieces: list[Any], axis: int = 0) -> np.ndarray[Any, Any]:
    return np.concatenate([to_numpy(convert_frames(piece)) for piece in pieces], axis)


@pytest.mark.parametrize("name", ["s16.wav", "flac.flac", "aac.m4a", "opus.ogg", "mp3.mp3"])
def test_all_sound_of_the_packets_is_one_piece(clip: Callable[[str], Path], name: str) -> None:
    packets = demux_audio(clip(name))
    decoder = Decoder(packets.codec)
    pieces = list(decoder.streaming_decode_packets(packets))
    assert list(map(type, pieces)) == [AudioFrames]
    left = list(decoder.flush())
    assert len(left) <= 1
    expected = oracle.samples(clip(name))
    found = joined([*pieces, *left], axis=1).T
    assert found.shape == expected.shape
    # Decoders with losses round otherwise in other releases.
    np.testing.assert_allclose(found, expected, atol=1e-3)


@pytest.mark.parametrize("name", ["h264.mp4", "mpeg4.mp4", "ffv1.mkv"])
def test_all_pictures_of_the_packets_are_one_piece(clip: Callable[[str], Path], name: str) -> None:
    packets = demux_video(clip(name))
    decoder = Decoder(packets.codec, filter_desc=None)
    pieces = list(decoder.streaming_decode_packets(packets))
    assert list(map(type, pieces)) == [VideoFrames]
    left = list(decoder.flush())
    assert len(left) <= 1
    assert sum(map(len, [*pieces, *left])) == len(oracle.frame_hashes(clip(name)))


def test_each_part_of_a_stream_is_one_piece(clip: Callable[[str], Path]) -> None:
    with Demuxer(clip("flac.flac")) as demuxer:
        decoder = Decoder(demuxer.audio_codec)
        counts = [
            [len(piece) for piece in decoder.streaming_decode_packets(packets)]
            for packets in demuxer.streaming_demux(demuxer.audio_stream_index, num_packets=3)
            if isinstance(packets, AudioPackets)
        ]
    assert set(map(len, counts)) == {1}
    assert sum(count for (count,) in counts) == len(oracle.samples(clip("flac.flac")))


def test_a_size_of_pieces_holds_until_another_is_set(clip: Callable[[str], Path]) -> None:
    packets = demux_video(clip("ffv1.mkv"))
    decoder = Decoder(packets.codec)
    for size, expected in ((20, [20, 20, 10]), (0, [50]), (7, [7] * 7 + [1])):
        decoder.set_buffer_size(size)
        pieces = list(decoder.streaming_decode_packets(packets.clone()))
        pieces += decoder.flush()
        assert [len(piece) for piece in pieces] == expected


def test_what_came_before_damage_is_not_lost(clip: Callable[[str], Path]) -> None:
    path = clip("h264.mp4")
    data = bytearray(path.read_bytes())
    stored = oracle.packets(path)
    last = stored[-1].size
    end = data.rindex(b"moov") - 4
    data[end - last + 5 : end] = b"\xa5" * (last - 5)  # Damage the packet that is decoded last.
    packets = demux_video(bytes(data))
    decoder = Decoder(packets.codec, filter_desc=None)
    found = []
    with pytest.raises(RuntimeError, match="cannot decode"):
        found += [*decoder.streaming_decode_packets(packets), *decoder.flush()]
    found += decoder.flush()
    assert sum(map(len, found)) >= len(stored) - 1
