"""Videos that were cut off: readers have the frames before the cut, all of them right, and say what is missing."""

from __future__ import annotations

import logging
import pickle
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.io.av.encoded import encode
from tests.io.av.ffmpeg import need_encoder
from tests.io.av.sources import Pictures

from spdl.io import VideoReader, load_video, load_video_batch, to_numpy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_NAMES = [
    "h264.mkv",
    "h264.ts",
    "h264_faststart.mp4",
    "h264_fragmented.mp4",
    "h264_open_gop.mp4",
    "hevc.mkv",
    "vp9.webm",
    "ffv1.mkv",
    "mpeg2.ts",
    "mpeg4.avi",
    "rawvideo.avi",
]


@pytest.mark.parametrize("name", _NAMES)
def test_a_reader_has_the_frames_before_the_cut(clip: Callable[[str], Path], name: str) -> None:
    data = clip(name).read_bytes()
    whole = to_numpy(VideoReader(data).read())
    counts, warned = [], 0
    for share in (0.3, 0.47, 0.5, 0.611, 0.75, 0.83, 0.9, 0.97, 0.999):
        part = data[: int(len(data) * share)]
        try:
            reader = VideoReader(part)
        except RuntimeError:
            # Nothing of the pictures, or of what tells where they are, is before the cut.
            assert share < 0.5 or name == "h264_open_gop.mp4"
            continue
        warned += reader.damage is not None
        counts.append(len(reader))
        if name.endswith(".ts") and reader.damage is None:
            # Nothing tells that a packet of MPEG-TS goes on, but the decoder does.
            found = to_numpy(reader.read_frames(range(len(reader) - 4)))
        else:
            found = to_numpy(reader.read())
        assert np.array_equal(found, whole[: len(found)])
        for frame in (0, len(found) - 1, len(found) // 2):
            assert np.array_equal(to_numpy(reader.read_frames([frame]))[0], whole[frame])
    # Where the next picture is cut, those that it could have come before are left out.
    assert all(longer >= shorter - 2 for shorter, longer in pairwise(counts))
    if name != "h264_open_gop.mp4":
        assert len(counts) >= 6
        assert counts[-1] >= len(whole) * 0.8
        # A cut between two pieces of the file need not show.
        assert warned >= 1 or name in ("mpeg4.avi", "rawvideo.avi", "mpeg2.ts")


@pytest.mark.parametrize("name", ["h264.mkv", "h264.ts", "h264_faststart.mp4", "mpeg4.avi", "rawvideo.avi"])
def test_the_damage_is_told(
    clip: Callable[[str], Path], tmp_path: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    data = clip(name).read_bytes()
    path = tmp_path / name
    path.write_bytes(data[: len(data) * 3 // 5 // 188 * 188 + 100])
    with caplog.at_level(logging.WARNING, "spdl.io"):
        reader = VideoReader(path)
    assert reader.damage is not None
    assert "it ends in the middle" in reader.damage
    (record,) = [it for it in caplog.records if it.name == "spdl.io"]
    assert record.getMessage() == (f"{path}: {reader.damage}. A VideoReader reads the {len(reader)} frames before.")
    caplog.clear()
    again = pickle.loads(pickle.dumps(reader))
    assert (again.damage, len(again)) == (reader.damage, len(reader))
    assert np.array_equal(to_numpy(again.read()), to_numpy(reader.read()))
    with pytest.raises(IndexError):
        reader.read_frames([len(reader)])
    assert not caplog.records
    assert VideoReader(clip("h264.mkv")).damage is None


def test_loading_the_whole_is_still_an_error(clip: Callable[[str], Path]) -> None:
    with pytest.raises(RuntimeError, match="it ends in the middle"):
        load_video(clip("cut.mkv"))


@pytest.mark.parametrize(
    ("arguments", "fails"),
    [
        ({"num_frames": 10}, ""),
        ({"num_frames": 10, "step": 2}, ""),
        ({"num_frames": 50}, "it ends in the middle"),
        ({"num_frames": 4, "sampling": "spread"}, "it ends in the middle"),
        ({"num_frames": 4, "sampling": "spread", "timestamps": [(0, "0.5")]}, ""),
        ({"num_frames": 50, "timestamps": [(0, "0.5")]}, ""),
        ({"num_frames": 50, "timestamps": [(0, "1.9")]}, "it ends in the middle"),
        ({"num_frames": 8, "fps": 12.5}, ""),
        ({"num_frames": 30, "fps": 12.5}, "it ends in the middle"),
    ],
)
def test_a_clip_before_the_cut_is_that_of_the_whole(
    clip: Callable[[str], Path], arguments: dict[str, Any], fails: str
) -> None:
    data = clip("h264.mkv").read_bytes()
    keywords = {"width": 48, "height": 32, **arguments}
    cut = data[: len(data) * 3 // 5]
    if fails:
        with pytest.raises(RuntimeError, match=fails):
            load_video_batch([cut], **keywords)
        return
    expected = load_video_batch([data], **keywords)
    found = load_video_batch([cut], **keywords)
    assert found.lengths == expected.lengths
    assert np.array_equal(to_numpy(found.clips), to_numpy(expected.clips))


def test_a_stream_without_times_names_the_moment_that_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "raw.hevc"
    encode(
        path,
        [
            "-c:v",
            need_encoder("libx265"),
            "-preset",
            "ultrafast",
            "-x265-params",
            "keyint=12:bframes=3:open-gop=1:log-level=none",
        ],
        pictures=Pictures(),
    )
    data = path.read_bytes()
    found = 0
    for cut in range(len(data) // 10, len(data), len(data) // 60):
        try:
            reader = VideoReader(data[:cut])
            frames = len(reader)
        except RuntimeError:
            continue
        try:
            reader[frames - 1]
        except RuntimeError as error:
            words = re.search(
                r"announce a frame (\d+) at (\S+) s", str(error)
            )  # The message says it, or there is none.
            if words:
                found += 1
                assert float(words[2]) == int(words[1]) / 25
                assert int(words[1]) < frames
    assert found > 0
