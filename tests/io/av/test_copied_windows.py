"""Videos that were copied without encoding from a container that has no times, or lost their beginning or their end.

What the new container says of times is not the order shown then. Windows are that part of the whole even so.
"""

from __future__ import annotations

import io
import random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.io.av import oracle
from tests.io.av.encoded import copied, encode
from tests.io.av.ffmpeg import need_encoder, run_ffprobe
from tests.io.av.sources import Pictures, read_number
from tests.io.av.video_windows import WholeVideo

from spdl.io import Demuxer, VideoReader, demux_config, demux_video, load_video, load_video_batch, to_numpy

if TYPE_CHECKING:
    from pathlib import Path

_H264 = ("libx264", "-g", 9, "-bf", 2)
_XVID = ("libxvid", "-g", 9, "-bf", 2, "-q:v", 4)
_MPEG2 = ("mpeg2video", "-g", 9, "-bf", 2, "-q:v", 4)


def _made(path: Path, options: tuple[object, ...], pictures: Pictures | None = None) -> Path:
    encoder, *others = options
    encode(path, ["-c:v", need_encoder(str(encoder)), *others], pictures=pictures or Pictures(count=40))
    return path


@pytest.mark.parametrize(
    ("options", "first", "then"),
    [
        (_H264, "h264", "mp4"),
        (_H264, "avi", "mov"),
        (_H264, "mpg", "mp4"),
        (_H264, "mpg", "mov"),
        (_XVID, "avi", "mp4"),
        (_MPEG2, "m2v", "mp4"),
        (_MPEG2, "mpg", "mov"),
        (("libx265", "-x265-params", "log-level=error:keyint=9:bframes=2"), "hevc", "mp4"),
    ],
)
def test_frames_whose_times_are_those_of_decoding(
    tmp_path: Path, options: tuple[object, ...], first: str, then: str
) -> None:
    path = tmp_path / f"copied.{then}"
    copied(path, _made(tmp_path / f"source.{first}", options))
    whole = WholeVideo(path)
    assert [read_number(it) for it in whole.pictures] == [read_number(it) for it in oracle.pictures(path)]
    assert whole.times == sorted(whole.times)
    assert not whole.reader.index.timed
    whole.check_reader()
    whole.check_pieces(4, timed=False)
    whole.check_windows(random.Random(1), 12)


@pytest.mark.parametrize(
    ("options", "suffix"),
    [
        (_H264, "h264"),
        (_H264, "avi"),
        (_H264, "mpg"),
        (_XVID, "avi"),
        (("mpeg4", "-g", 9, "-bf", 2, "-q:v", 4), "avi"),
        (_MPEG2, "m2v"),
        (("libx265", "-x265-params", "log-level=error:keyint=9:bframes=3:open-gop=1"), "hevc"),
    ],
)
def test_key_frames_are_counted_in_the_order_shown(tmp_path: Path, options: tuple[object, ...], suffix: str) -> None:
    path = _made(tmp_path / f"untold.{suffix}", options)
    command = ("-select_streams", "v", "-show_entries", "frame=key_frame,pict_type", "-of", "csv=p=0", path)
    shown = [line.split(",") for line in run_ffprobe(*command).decode().split()]
    reader = VideoReader(path)
    assert not reader.index.timed
    assert len(reader) == len(shown)
    # The decoder marks those of MPEG-4 in an odd place where two pictures are in one packet.
    keys = [k for k, (key, kind, *_) in enumerate(shown) if key == "1" and kind == "I"]
    assert reader.key_frames == keys
    assert len(keys) > 3
    again = VideoReader(path, index=reader.index)
    assert again.key_frames == keys


@pytest.mark.parametrize(
    ("options", "suffix"),
    [
        (("mpeg4", "-g", 9, "-q:v", 4), "mp4"),
        (("mpeg4", "-g", 9, "-bf", 2, "-q:v", 4), "mkv"),
        (("mpeg4", "-g", 9, "-bf", 2, "-q:v", 4), "mov"),
        (("mpeg4", "-g", 9, "-bf", 2, "-q:v", 4), "avi"),
        (("msmpeg4", "-g", 9, "-q:v", 4), "avi"),
        (("wmv2", "-g", 9, "-q:v", 4), "avi"),
        (("flv", "-g", 9, "-q:v", 4), "flv"),
        (("h263p", "-g", 9, "-q:v", 4), "mkv"),
        (("libx265", "-x265-params", "log-level=error:keyint=9:bframes=2"), "mp4"),
    ],
)
@pytest.mark.parametrize("lost", [1, 5])
def test_a_video_that_begins_without_a_key_frame(
    tmp_path: Path, options: tuple[object, ...], suffix: str, lost: int
) -> None:
    path = tmp_path / f"lost.{suffix}"
    source = _made(tmp_path / "source.mkv", options)
    copied(path, source, "-bsf:v", f"noise=drop=lt(n\\,{lost})")
    whole = WholeVideo(path)
    whole.check_reader()
    whole.check_windows(random.Random(1), 8)
    # From the second key frame on all is as it was.
    kept = to_numpy(load_video(source))[18:]
    assert np.array_equal(whole.pictures[-len(kept) :], kept)


@pytest.mark.parametrize(
    ("options", "suffix"),
    [
        (("libvpx", "-g", 9, "-deadline", "realtime", "-b:v", "300k"), "ivf"),
        (("libvpx-vp9", "-g", 9, "-deadline", "realtime", "-b:v", "300k"), "ivf"),
        (("libvpx", "-g", 9, "-deadline", "realtime", "-b:v", "300k"), "nut"),
        (("mjpeg", "-q:v", 4, "-pix_fmt", "yuvj420p"), "nut"),
        (("libvpx", "-g", 9, "-deadline", "realtime", "-b:v", "300k", "-write_index", 0), "nut"),
        (("mpeg4", "-g", 9, "-q:v", 4, "-write_index", 0), "nut"),
        (("rawvideo", "-write_index", 0), "nut"),
        (("mjpeg", "-q:v", 4, "-pix_fmt", "yuvj420p"), "mjpeg"),
    ],
)
@pytest.mark.parametrize("cut", [1, 40])
def test_a_cut_within_the_last_packet_is_told(
    tmp_path: Path, options: tuple[object, ...], suffix: str, cut: int
) -> None:
    path = _made(tmp_path / f"whole.{suffix}", options)
    whole = to_numpy(load_video(path))
    data = path.read_bytes()
    last = run_ffprobe("-show_entries", "packet=pos,size", "-of", "csv=p=0", path).decode().split()[-1]
    size, place = (int(it) for it in last.split(",")[:2])
    # NUT may keep the bytes in its header that many packets begin with.
    part = data[: min(place + size, len(data)) - cut]
    assert len(whole) == 40
    with pytest.raises(RuntimeError, match="ends in the middle of a packet"):
        load_video(part)
    with pytest.raises(RuntimeError, match="ends in the middle of a packet"):
        load_video(part, timestamp=(1.2, 3))
    reader = VideoReader(part)
    assert "in the middle of a packet" in str(reader.damage)
    assert np.array_equal(to_numpy(reader.read()), whole[: len(reader)])
    assert len(reader) == 39
    assert np.array_equal(to_numpy(load_video(part, timestamp=(0.4, 0.8))), whole[10:20])
    batch = load_video_batch([part], num_frames=50, width=96, height=64, timestamps=[(0.4, 0.8)])
    assert batch.lengths == [10]
    with pytest.raises(RuntimeError, match="err_detect"):
        demux_video(part)
    kept = demux_video(part, demux_config=demux_config(format_options={"err_detect": "ignore_err"}))
    assert len(kept) == 40


def test_pictures_without_the_mark_at_their_end_are_not_held_back(tmp_path: Path) -> None:
    pictures = _made(tmp_path / "whole.mjpeg", ("mjpeg", "-q:v", 4, "-pix_fmt", "yuvj420p")).read_bytes()
    first, *others = pictures.removesuffix(b"\xff\xd9").split(b"\xff\xd9\xff\xd8")
    # FFmpeg decodes them even so.
    file = io.BytesIO(first + b"\xff\xd9\xff\xd8" + b"\xff\xd8".join(others * 90))
    with Demuxer(file) as demuxer:
        packets = next(demuxer.streaming_demux(demuxer.video_stream_index, num_packets=5))
        assert len(packets) == 5
        assert file.tell() < len(file.getvalue()) / 2


def test_a_video_that_has_no_key_frame_is_told(tmp_path: Path) -> None:
    source = _made(tmp_path / "source.mkv", ("mpeg4", "-g", 100, "-bf", 2, "-q:v", 4), Pictures(count=20))
    path = tmp_path / "lost.mp4"
    copied(path, source, "-bsf:v", "noise=drop=lt(n\\,2)")
    with pytest.raises(RuntimeError, match=r"lost.mp4: .*does not begin with a key frame, and none follows"):
        load_video(path)
    with pytest.raises(RuntimeError, match="does not begin with a key frame"):
        load_video(path, timestamp=(0.2, 0.4))
    with pytest.raises(RuntimeError, match="does not begin with a key frame"):
        VideoReader(path).read()
