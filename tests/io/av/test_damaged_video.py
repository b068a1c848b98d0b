"""Videos that are cut off, damaged, empty or something else: errors that say what, never a wrong picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.io.av import oracle
from tests.io.av.encoded import encode
from tests.io.av.sources import Pictures

from spdl.io import (
    VideoReader,
    decode_config,
    decode_packets,
    demux_video,
    get_video_filter_desc,
    load_audio,
    load_video,
    load_video_batch,
    to_numpy,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOADERS: dict[str, Callable[[Any], object]] = {
    "load_video": load_video,
    "load_audio": load_audio,
    "VideoReader": VideoReader,
    "load_video_batch": lambda src: load_video_batch([src], num_frames=2, width=8, height=8),
}

# Not every FFmpeg knows these lists.
_REFUSED = r"Invalid data|it is a list \(\w+\) that names other files or addresses, which are never opened"


@pytest.mark.parametrize("load", LOADERS.values(), ids=LOADERS)
@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"", "there are no bytes in it"),
        (b"hello" * 100, "Invalid data found"),
        (bytes(5000), "Invalid data found"),
        (
            b"#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n",
            "Invalid data|never opened",
        ),
        (b"ffconcat version 1.0\nfile /etc/passwd\n", "Invalid data|never opened"),
    ],
    ids=["empty", "text", "zeros", "playlist", "concat"],
)
def test_what_is_no_video(load: Callable[[Any], object], data: bytes, told: str) -> None:
    with pytest.raises(RuntimeError, match=rf"{len(data)} bytes: .*({told})"):
        load(data)


@pytest.mark.parametrize("load", LOADERS.values(), ids=LOADERS)
def test_a_file_that_is_not_there(load: Callable[[Any], object], tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"nowhere\.mp4: cannot open the file: No such file"):
        load(tmp_path / "nowhere.mp4")
    with pytest.raises(RuntimeError, match="it is a directory"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["cut.mp4", "cut.mkv", "cut.ts", "damaged.mkv", "damaged.ts"])
def test_damage_is_an_error(clip: Callable[[str], Path], name: str) -> None:
    path = clip(name)
    assert oracle.errors(path)
    with pytest.raises(RuntimeError, match=rf"{name}: cannot (read|decode)"):
        load_video(path)


def test_damage_is_kept_if_asked_for(clip: Callable[[str], Path]) -> None:
    path = clip("damaged.ts")
    with pytest.raises(RuntimeError, match=r"video stream 0 \(h264\) at \d+\.\d+ s: .*err_detect"):
        load_video(path)
    kept = load_video(path, decode_config=decode_config(decoder_options={"err_detect": "ignore_err"}))
    assert kept.shape[0] > 40


@pytest.mark.parametrize("container", ["mp4", "mkv", "ts", "webm"])
def test_no_frame_of_a_file_that_was_cut_off_is_wrong(clip: Callable[[str], Path], container: str) -> None:
    name = {"mp4": "h264_faststart.mp4", "webm": "vp9.webm"}.get(container, f"h264.{container}")
    data = clip(name).read_bytes()
    whole = to_numpy(load_video(data))
    errors = 0
    for share in range(1, 20):
        try:
            part = to_numpy(load_video(data[: len(data) * share // 20]))
        except RuntimeError:
            errors += 1
        else:
            # A cut between two pieces of the file need not show.
            assert np.array_equal(part, whole[: len(part)])
    assert errors >= 18


def test_sound_without_pictures_and_pictures_without_sound(clip: Callable[[str], Path]) -> None:
    with pytest.raises(RuntimeError, match="there is no video stream in it"):
        VideoReader(clip("s16.wav"))
    with pytest.raises(RuntimeError, match="there is no audio stream in it"):
        load_audio(clip("h264.mp4"))


def test_a_size_that_changes_is_scaled_or_an_error(clip: Callable[[str], Path]) -> None:
    path = clip("resolution_change.ts")
    with pytest.raises(RuntimeError, match="frames of one array must have one form"):
        load_video(path)
    desc = get_video_filter_desc(scale_width=32, scale_height=32)
    count = len(oracle.frame_times(path))
    assert load_video(path, filter_desc=desc).shape == (count, 32, 32, 3)
    with pytest.raises(RuntimeError, match="change their size in mid-stream"):
        VideoReader(path).read()
    assert VideoReader(path, width=32, height=32).read().shape == (count, 32, 32, 3)


def test_a_size_beyond_the_limit_is_refused(clip: Callable[[str], Path]) -> None:
    with pytest.raises(RuntimeError, match="its size of 96x64 is outside what is accepted"):
        load_video(clip("h264.mp4"), decode_config=decode_config(max_pixels=1000))


@pytest.mark.parametrize(
    ("filters", "told"),
    [("nosuch=1", "there is no filter 'nosuch'"), ("scale=w=-5:h=abc", "scale"), ("format=pix_fmts=nosuch", "nosuch")],
)
def test_wrong_filters(clip: Callable[[str], Path], filters: str, told: str) -> None:
    with pytest.raises(RuntimeError, match=rf"h264.mp4: cannot apply the filter description .*{told}"):
        load_video(clip("h264.mp4"), filter_desc=filters)


def test_packets_are_consumed_even_if_decoding_fails(clip: Callable[[str], Path]) -> None:
    packets = demux_video(clip("damaged.ts"))
    with pytest.raises(RuntimeError, match="damaged"):
        decode_packets(packets)
    with pytest.raises(TypeError, match="these VideoPackets were consumed"):
        decode_packets(packets)
    assert "consumed" in repr(packets)


@pytest.mark.parametrize("suffix", ["avi", "mov", "mkv", "mjpeg"])
def test_a_damaged_jpeg_is_no_picture_of_the_memory_before(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"whole.{suffix}"
    encode(path, ["-c:v", "mjpeg", "-q:v", 2, "-pix_fmt", "yuvj420p"], pictures=Pictures(count=8))
    whole, data = to_numpy(load_video(path)), bytearray(path.read_bytes())
    scan = -1
    for _ in range(4):
        scan = data.index(b"\xff\xda", scan + 1)
    end = data.index(b"\xff\xd9", scan)
    data[(scan + end) // 2 : (scan + end) // 2 + 64] = b"\xfe" * 64
    with pytest.raises(RuntimeError, match="cannot decode the video stream 0"):
        load_video(bytes(data))
    for order in ([3, 2, 5], [7, 3], [3]):
        reader = VideoReader(bytes(data))
        for frame in order:
            if frame == 3:
                with pytest.raises(RuntimeError, match="cannot decode the video stream 0"):
                    reader[frame]
            else:
                assert np.array_equal(to_numpy(reader[frame])[0], whole[frame])
