"""Videos that lack packets, as a network loses them: no frame that builds on a lost one comes without an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.io.av import oracle
from tests.io.av.encoded import encode
from tests.io.av.ffmpeg import FFmpegError, need_encoder, run_ffmpeg
from tests.io.av.sources import Pictures

from spdl.io import VideoReader, decode_config, load_video, load_video_batch, to_numpy

if TYPE_CHECKING:
    from pathlib import Path

_COUNT = 50
_CODECS: dict[str, tuple[object, ...]] = {
    "h264": ("libx264", "-g", 12, "-bf", 3),
    "h264_plain": ("libx264", "-g", 25, "-bf", 0),
    "h264_open": ("libx264", "-bf", 3, "-x264-params", "open-gop=1:keyint=12:b-pyramid=normal"),
    "h264_fields": ("libx264", "-g", 12, "-bf", 2, "-flags", "+ilme+ildct", "-x264-params", "interlaced=1"),
    "hevc": ("libx265", "-x265-params", "log-level=error:keyint=12:bframes=3:open-gop=1:pools=none:frame-threads=1"),
}


def _encoded(folder: Path, codec: str, suffix: str) -> Path:
    path = folder / f"whole.{suffix}"
    encoder, *options = _CODECS[codec]
    encode(path, ["-c:v", need_encoder(str(encoder)), *options], pictures=Pictures(count=_COUNT))
    return path


def _without(path: Path, packet: int) -> Path:
    lossy = path.with_name(f"lossy{path.suffix}")
    try:
        run_ffmpeg("-i", path, "-c", "copy", "-bsf:v", f"noise=drop=eq(n\\,{packet})", lossy)
    except FFmpegError as error:
        pytest.skip(f"the ffmpeg command does not drop packets: {error}")
    return lossy


@pytest.mark.parametrize("codec", sorted(_CODECS))
@pytest.mark.parametrize(
    ("packet", "suffix"), [(1, "mp4"), (5, "ts"), (13, "ts"), (14, "mp4"), (18, "mp4"), (30, "ts")]
)
def test_frames_are_right_or_errors(tmp_path: Path, codec: str, packet: int, suffix: str) -> None:
    whole = _encoded(tmp_path, codec, suffix)
    right = dict(
        zip([round(1000 * (it or 0)) for it in oracle.frame_times(whole)], oracle.pictures(whole), strict=True)
    )
    lossy = _without(whole, packet)
    if oracle.packets(whole)[packet].key:
        pytest.skip("a key frame")
    reader = VideoReader(lossy)
    count = len(reader)
    assert count == _COUNT - 1
    messages = []
    shift = reader.timestamps[0] - min(right) / 1000 if packet else 0
    for frame, time in enumerate(reader.timestamps):
        try:
            found = to_numpy(reader[frame])[0]
        except RuntimeError as error:
            messages.append(str(error))
            continue
        assert oracle.are_same(found, right[round(1000 * (time - shift))]), frame
    assert [it for it in messages if "frames that it builds on are missing" not in it] == []
    # The next group of pictures is whole, and so is what precedes the loss.
    assert len(messages) < 26
    if messages:
        with pytest.raises(RuntimeError, match="frames that it builds on are missing"):
            load_video(lossy)
        with pytest.raises(RuntimeError, match="frames that it builds on are missing"):
            load_video_batch([lossy], num_frames=_COUNT, width=48, height=32)
        keep = decode_config(decoder_options={"err_detect": "ignore_err"})
        assert len(load_video(lossy, decode_config=keep)) == count


@pytest.mark.parametrize("codec", ["h264", "h264_plain", "hevc"])
def test_a_loss_is_noticed(tmp_path: Path, codec: str) -> None:
    whole = _encoded(tmp_path, codec, "mp4")
    shown: Any = [packet.pts for packet in oracle.packets(whole)]
    # The second picture that is decoded and shown later than all before is one that others build on.
    reference = next(i for i in range(1, _COUNT) if shown[i] > max(shown[:i]))
    lossy = _without(whole, reference)
    with pytest.raises(RuntimeError, match=r"at 0\.\d+ s: .*frames that it builds on are missing"):
        load_video(lossy)


@pytest.mark.parametrize("codec", sorted(_CODECS))
def test_whole_videos_lack_nothing(tmp_path: Path, codec: str) -> None:
    whole = _encoded(tmp_path, codec, "mp4")
    assert oracle.are_same(to_numpy(load_video(whole)), oracle.pictures(whole))
