"""Edit lists of MP4: several parts of a track that are shown one after the other, and frames that are cut off."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.io.av import oracle
from tests.io.av.edited import with_edits
from tests.io.av.encoded import copied, encode
from tests.io.av.ffmpeg import need_encoder
from tests.io.av.sources import Pictures, Sound
from tests.io.av.video_windows import WholeVideo

from spdl.io import (
    AudioReader,
    VideoReader,
    decode_packets,
    demux_audio,
    demux_config,
    demux_video,
    load_audio,
    load_audio_batch,
    load_video,
    load_video_batch,
    to_numpy,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_X264 = ("libx264", "-g", 12, "-bf", 2, "-sc_threshold", 0)
_MPEG4 = ("mpeg4", "-g", 12, "-bf", 2)


@pytest.mark.parametrize(
    ("options", "edits"),
    [
        (_X264, [(500, 1024), (500, 16384)]),
        (_X264, [(300, -1), (500, 7168), (500, 3000)]),
        (_X264, [(400, 1024), (400, 10240), (400, 5120)]),
        (_MPEG4, [(500, 0), (500, 12800)]),
        (_MPEG4, [(500, 12800), (500, 512)]),
        (("libvpx-vp9", "-g", 12), [(500, 0), (500, 9000)]),
    ],
)
def test_parts_of_a_video_have_the_clock_that_ffmpeg_shows_them_by(
    tmp_path: Path, options: tuple[object, ...], edits: list[tuple[int, int]]
) -> None:
    plain, path = tmp_path / "plain.mp4", tmp_path / "edited.mp4"
    encode(plain, ["-c:v", need_encoder(str(options[0])), *options[1:]], pictures=Pictures(count=50))
    path.write_bytes(with_edits(plain.read_bytes(), edits))
    whole = WholeVideo(path)
    assert np.array_equal(_flat(to_numpy(load_video(path, filter_desc=None))), oracle.pictures(path, pix_fmt="yuv420p"))
    assert whole.times == pytest.approx(sorted(float(it or 0) for it in oracle.frame_times(path)), abs=1e-6)
    assert not whole.reader.index.joined
    whole.check_reader()
    whole.check_pieces(5, timed=False)
    whole.check_windows(random.Random(1), 10)


def _flat(pictures: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return pictures.reshape(len(pictures), -1)


@pytest.mark.parametrize(
    ("suffix", "encoder", "edits"),
    [
        ("m4a", "aac", [(500, 1024), (500, 30000)]),
        ("mov", "pcm_s16le", [(500, 22050), (500, 0)]),
        ("m4a", "alac", [(500, -1), (300, 0), (300, 30000)]),
        ("mov", "pcm_s16le", [(500, 0), (500, -1)]),
    ],
)
def test_windows_of_sound_in_several_parts_are_refused(
    tmp_path: Path, suffix: str, encoder: str, edits: list[tuple[int, int]]
) -> None:
    plain, path = tmp_path / f"plain.{suffix}", tmp_path / f"edited.{suffix}"
    encode(plain, ["-c:a", need_encoder(encoder)], sounds=[Sound(44100, 1, 2.0)])
    path.write_bytes(with_edits(plain.read_bytes(), edits))
    assert to_numpy(load_audio(path)).shape[1] == oracle.samples(path).shape[0]
    calls: list[Callable[[], object]] = [
        lambda: load_audio(path, timestamp=(0.3, 0.8)),
        lambda: demux_audio(path, timestamp=(0.3, 0.8)),
        lambda: load_audio_batch([path], sample_rate=44100, timestamps=[(0.3, 0.8)]),
        lambda: AudioReader(path).num_samples,
        lambda: AudioReader(path).read(0.3, 0.8),
    ]
    for call in calls:
        with pytest.raises(Exception, match=r"edited.*edit list shows 2 parts.*without a window.*ignore_editlist"):
            call()
    stored = AudioReader(path, demux_config=demux_config(format_options={"ignore_editlist": "1"}))
    assert to_numpy(stored.read(0.3, 0.8)).shape[1] == 22050


@pytest.mark.parametrize("edits", [[(1000, 1024)], [(500, -1), (1000, 1024)]])
def test_one_part_of_a_sound_has_windows(tmp_path: Path, edits: list[tuple[int, int]]) -> None:
    plain, path = tmp_path / "plain.m4a", tmp_path / "edited.m4a"
    encode(plain, ["-c:a", need_encoder("aac"), "-aac_pns", 0], sounds=[Sound(44100, 1, 2.0)])
    path.write_bytes(with_edits(plain.read_bytes(), edits))
    whole = to_numpy(load_audio(path))
    reader = AudioReader(path)
    start = round(reader.start_time * 44100)
    window = (0.7, 1.2)
    first, last = (round(it * 44100) - start for it in window)
    assert np.array_equal(to_numpy(load_audio(path, timestamp=window)), whole[:, first:last])


def test_windows_of_joined_fragments_of_sound_are_refused(tmp_path: Path) -> None:
    part, path = tmp_path / "part.mp4", tmp_path / "joined.mp4"
    fragments = ["-movflags", "frag_keyframe+empty_moov", "-frag_duration", 300_000]
    encode(part, ["-c:a", need_encoder("aac"), *fragments], sounds=[Sound(44100, 1, 1.0)])
    path.write_bytes(part.read_bytes() * 2)
    assert to_numpy(load_audio(path)).shape[1] == oracle.samples(path).shape[0]
    for call in (lambda: AudioReader(path).num_samples, lambda: load_audio(path, timestamp=(0.3, 0.8))):
        with pytest.raises(Exception, match=r"joined.*several files of fragments.*without a window.*split the file"):
            call()
    assert AudioReader(part).num_samples == to_numpy(load_audio(part)).shape[1]


@pytest.mark.parametrize("encoder", ["libaom-av1", "libx264", "libvpx-vp9"])
def test_frames_that_an_edit_list_cuts_off_are_nowhere(tmp_path: Path, encoder: str) -> None:
    plain, path = tmp_path / "plain.mp4", tmp_path / "cut.mp4"
    speeds: dict[str, list[object]] = {"libaom-av1": ["-cpu-used", 8], "libvpx-vp9": ["-deadline", "realtime"]}
    encode(plain, ["-c:v", need_encoder(encoder), "-g", 20, *speeds.get(encoder, [])], pictures=Pictures(count=40))
    copied(path, plain, before=("-ss", 1.1))
    # FFmpeg's command shows those of AV1, before time 0.
    expected = [float(it.pts or 0) for it in oracle.packets(path) if (it.pts or 0) >= 0]
    pictures = to_numpy(load_video(path, filter_desc=None))
    shown = oracle.pictures(path, pix_fmt="yuv420p")
    assert np.array_equal(_flat(pictures), shown[-len(expected) :] if encoder == "libaom-av1" else shown)
    whole = WholeVideo(path)
    assert whole.times == pytest.approx(sorted(expected), abs=1e-6)
    assert len(decode_packets(demux_video(path))) == len(demux_video(path)) == len(VideoReader(path)) == len(expected)
    assert len(to_numpy(load_video(path, timestamp=(-10, 10)))) == len(expected)
    batch = load_video_batch([path], num_frames=60, width=32, height=32)
    assert list(batch.lengths) == [len(expected)]
    whole.check_reader()
    whole.check_pieces(3)
    whole.check_windows(random.Random(3), 4)
