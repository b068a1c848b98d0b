"""Windows of videos whose containers tell little of times, begin anew, or hold a picture only."""

from __future__ import annotations

import io
import random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.io.av import oracle
from tests.io.av.encoded import copied, encode
from tests.io.av.ffmpeg import need_encoder, run_ffmpeg
from tests.io.av.sources import Pictures, Sound
from tests.io.av.video_windows import WholeVideo

from spdl.io import Demuxer, VideoReader, get_video_filter_desc, load_video, to_numpy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_DROPPED = ("-vf", "select=not(between(n\\,20\\,30))", "-fps_mode", "vfr")


@pytest.mark.parametrize(
    "options",
    [
        ("mpeg4", "-bf", 2, "-g", 12),
        ("libx264", "-bf", 2, "-g", 12),
        ("libxvid", "-bf", 2, "-g", 24),
        ("mpeg4", "-bf", 2, "-g", 12, "-vtag", "XVID"),
    ],
)
@pytest.mark.parametrize("dropped", [(), _DROPPED])
def test_frames_of_avi_have_the_times_of_their_packets_in_order(
    tmp_path: Path, options: tuple[object, ...], dropped: tuple[object, ...]
) -> None:
    path = tmp_path / "odd.avi"
    encode(path, ["-c:v", need_encoder(str(options[0])), *options[1:], *dropped], pictures=Pictures())
    whole = WholeVideo(path)
    decoded = sorted(float(it.dts) for it in oracle.packets(path) if it.size and it.dts is not None)
    assert whole.times == pytest.approx(decoded, abs=1e-6)
    whole.check_reader()
    whole.check_pieces(4)
    whole.check_windows(random.Random(1), 12)


@pytest.mark.parametrize("encoder", ["mpeg4", "libx264", "mpeg2video"])
@pytest.mark.parametrize("reordered", [0, 2])
def test_packets_of_a_program_stream_that_tell_nothing_have_frames(
    tmp_path: Path, encoder: str, reordered: int
) -> None:
    """Of several frames in a piece of the container, only the first says when it is shown."""
    path = tmp_path / "odd.mpg"
    options = ("-bf", reordered, "-g", 12, "-b:v", "100k")
    encode(path, ["-c:v", need_encoder(encoder), *options], pictures=Pictures(count=50))
    whole = WholeVideo(path)
    assert len(whole.pictures) == 50
    whole.check_reader()
    whole.check_windows(random.Random(1), 12)


_PARTS: dict[str, tuple[object, ...]] = {
    "ts": ("libx264", "-bf", 2, "-g", 12),
    "mpg": ("mpeg2video", "-bf", 2, "-g", 12),
    "flv": ("libx264", "-bf", 2, "-g", 12),
    "mkv": ("libx264", "-bf", 2, "-g", 12),
    "webm": ("libvpx", "-g", 12, "-deadline", "realtime"),
}


@pytest.mark.parametrize("suffix", sorted(_PARTS))
@pytest.mark.parametrize("late", [0, 0.7])
def test_the_second_part_follows_the_first(tmp_path: Path, suffix: str, late: float) -> None:
    parts, times = [], []
    for first, count in ((0, 30), (40, 25)):
        path = tmp_path / f"part{first}.{suffix}"
        encoder, *options = _PARTS[suffix]
        if late and not first:
            # The clock of the second begins within the first.
            options = [*options, "-output_ts_offset", late]
        encode(path, ["-c:v", need_encoder(str(encoder)), *options], pictures=Pictures(count=count, first=first))
        parts.append(path)
        times.append([float(time or 0) for time in oracle.frame_times(path)])
    joined = tmp_path / f"joined.{suffix}"
    joined.write_bytes(b"".join(it.read_bytes() for it in parts))
    whole = WholeVideo(joined)
    assert np.array_equal(whole.pictures, np.concatenate([to_numpy(load_video(it)) for it in parts]))
    end = times[0][0] + 30 / 25
    expected = [times[0][0] + k / 25 for k in range(30)] + [end + k / 25 for k in range(25)]
    assert whole.times == pytest.approx(expected, abs=2e-3)
    assert whole.reader.index.joined
    keys = [VideoReader(it).key_frames for it in parts]
    assert whole.reader.key_frames == [*keys[0], *(30 + key for key in keys[1])]
    whole.check_reader()
    whole.check_pieces(7)
    whole.check_windows(random.Random(2), 12)


@pytest.mark.parametrize(("suffix", "encoder"), [("mp3", "libmp3lame"), ("m4a", "aac"), ("flac", "flac")])
def test_an_attached_picture_has_one_time(tmp_path: Path, suffix: str, encoder: str) -> None:
    sound, cover, path = tmp_path / f"sound.{suffix}", tmp_path / "cover.jpg", tmp_path / f"covered.{suffix}"
    encode(sound, ["-c:a", need_encoder(encoder)], sounds=[Sound(44100)])
    still = ["-c:v", "mjpeg", "-pix_fmt", "yuvj420p", "-frames:v", 1, "-update", 1]
    encode(cover, still, pictures=Pictures(count=1))
    tags = ["-disposition:v", "attached_pic"]
    run_ffmpeg("-i", sound, "-i", cover, "-map", 0, "-map", 1, "-c", "copy", *tags, path)
    whole = WholeVideo(path)
    assert len(whole.times) == 1
    whole.check_reader()
    whole.check_pieces(1)
    whole.check_windows(random.Random(3), 4)


def test_a_picture_that_an_edit_list_cuts_off_is_not_shown(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole.mov", tmp_path / "cut.mov"
    dropped = ["-vf", "select=not(eq(n\\,2))", "-fps_mode", "vfr"]
    encode(whole, ["-c:v", "mjpeg", "-pix_fmt", "yuvj420p", *dropped], pictures=Pictures(count=24))
    copied(cut, whole, before=("-ss", 0.3))
    shown = WholeVideo(cut)
    assert min(shown.times) == 0
    assert len(shown.times) == sum((it.pts or 0) >= 0 for it in oracle.packets(cut))
    shown.check_reader()
    shown.check_pieces(3)
    shown.check_windows(random.Random(4), 8)


class _Counted(io.BytesIO):
    count = 0

    def readinto(self, buffer: object) -> int:
        size = super().readinto(buffer)  # type: ignore[arg-type]
        self.count += size
        return size


@pytest.mark.parametrize("name", ["h264.mp4", "h264.mkv", "h264_faststart.mp4"])
def test_a_file_that_leads_to_a_window_is_not_read_through(
    clip: Callable[[str], Path], tmp_path: Path, name: str
) -> None:
    long = tmp_path / name
    copied(long, clip(name), before=("-stream_loop", 400))
    data = long.read_bytes()
    file = _Counted(data)
    demuxer = Demuxer(file)
    before = file.count
    frames = demuxer.demux_video((400, 401))
    assert len(frames) == 25
    assert file.count - before < len(data) / 10


@pytest.mark.parametrize("days", [1, 20])
def test_a_jump_of_times_is_not_filled_with_millions_of_frames(tmp_path: Path, days: int) -> None:
    """A few bytes of a file can say that the next frame is shown years later."""
    path = tmp_path / "jump.mkv"
    later = f"setpts=PTS+if(gte(N\\,5)\\,{days * 86400}\\,0)/TB"
    options = ["-vf", later, "-fps_mode", "passthrough", "-c:v", need_encoder("libx264"), "-bf", 0]
    encode(path, options, pictures=Pictures(count=10))
    assert len(VideoReader(path)) == 10
    assert to_numpy(load_video(path)).shape[0] == 10
    with pytest.raises(RuntimeError, match=rf"jump by {days * 86400}\.\d+ s after 0\.16.*repeats of a frame"):
        load_video(path, filter_desc=get_video_filter_desc(frame_rate=25))
    # So many frames are wanted that the last ones repeat the one before the jump.
    for side in (None, 16):
        wanted = get_video_filter_desc(frame_rate=25, num_frames=300, scale_width=side, scale_height=side)
        frames = to_numpy(load_video(path, filter_desc=wanted))
        assert frames.shape[0] == 300
        assert np.array_equal(frames[-1], frames[5])
    # One frame in a thousand seconds fills little.
    assert to_numpy(load_video(path, filter_desc="fps=1/1000,format=pix_fmts=rgb24")).shape[0] == days * 86400 // 1000
