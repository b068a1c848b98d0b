"""Videos with a palette, which QuickTime and AVI keep once for all frames: it holds wherever decoding begins.

The oracle is the ffmpeg command, which decodes from the beginning.
"""

from __future__ import annotations

import io
import pickle
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.io.av.ffmpeg import need_decoder, need_encoder, run_ffmpeg

from spdl.io import (
    Demuxer,
    VideoReader,
    convert_frames,
    decode_packets,
    demux_video,
    load_video,
    load_video_batch,
    sample_decode_video,
    to_numpy,
)

if TYPE_CHECKING:
    from pathlib import Path

_FRAMES, _RATE, _WIDTH, _HEIGHT = 20, 25, 64, 36
_PALETTE = ",split[a][b];[a]palettegen[c];[b][c]paletteuse"
_FRAGMENTS = ("-movflags", "frag_every_frame+empty_moov+delay_moov")
_CLIPS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "raw.mov": ("rawvideo", "pal8", ()),
    "raw.avi": ("rawvideo", "pal8", ()),
    "fragments.mov": ("rawvideo", "pal8", _FRAGMENTS),
    "gray.mov": ("qtrle", "gray", ("-g", "5")),
    "smc.mov": ("smc", "pal8", ("-g", "5")),
}


@pytest.mark.parametrize("name", _CLIPS)
def test_a_palette_holds_in_every_window(name: str, tmp_path: Path) -> None:
    codec, pix_fmt, options = _CLIPS[name]
    path = tmp_path / name
    pictures = f"testsrc2=size={_WIDTH}x{_HEIGHT}:rate={_RATE}:duration={_FRAMES / _RATE}" + (
        _PALETTE if pix_fmt == "pal8" else ""
    )
    need_encoder(codec)
    run_ffmpeg(
        *("-f", "lavfi", "-i", pictures, "-frames:v", _FRAMES, "-c:v", codec, "-pix_fmt", pix_fmt, *options, path)
    )
    plain = run_ffmpeg("-i", path, "-pix_fmt", "rgb24", "-f", "rawvideo", "-")
    expected = np.frombuffer(plain, np.uint8).reshape(_FRAMES, _HEIGHT, _WIDTH, 3)
    need_decoder(path)
    np.testing.assert_array_equal(to_numpy(load_video(path)), expected)
    index = VideoReader(path).index
    data = path.read_bytes()
    for frame in (7, 16, 3, _FRAMES - 1):
        window = (frame - 0.5) / _RATE, (frame + 1.5) / _RATE
        part = expected[frame : frame + 2]
        np.testing.assert_array_equal(to_numpy(load_video(path, timestamp=window)), part)
        np.testing.assert_array_equal(to_numpy(load_video(io.BytesIO(data), timestamp=window)), part)
        sent = pickle.loads(pickle.dumps(demux_video(path, timestamp=window)))
        np.testing.assert_array_equal(to_numpy(convert_frames(decode_packets(sent))), part)
        np.testing.assert_array_equal(to_numpy(VideoReader(path, index=index).read_frames([frame]))[0], part[0])
        chosen = to_numpy(convert_frames(sample_decode_video(demux_video(path), [frame])))
        np.testing.assert_array_equal(chosen[0], part[0])
        batch = load_video_batch([path], num_frames=2, width=_WIDTH, height=_HEIGHT, timestamps=[window])
        np.testing.assert_array_equal(to_numpy(batch.clips)[0, : len(part)], part)
    with Demuxer(path) as demuxer:  # One file for windows that go back.
        for frame in (12, 4):
            packets = demuxer.demux_video(((frame - 0.5) / _RATE, (frame + 0.5) / _RATE))
            np.testing.assert_array_equal(to_numpy(convert_frames(decode_packets(packets)))[0], expected[frame])
