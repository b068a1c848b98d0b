"""Files whose own tables lead to other packets than they say. What is read is what the file has there."""

from __future__ import annotations

import pickle
import random
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.io.av import oracle
from tests.io.av.edited import with_pause
from tests.io.av.encoded import encode
from tests.io.av.ffmpeg import need_encoder
from tests.io.av.sources import Pictures, Sound
from tests.io.av.video_windows import WholeVideo

from spdl.io import VideoReader, load_audio, load_video, to_numpy

if TYPE_CHECKING:
    from pathlib import Path

_FRAGMENTS = ("-movflags", "frag_keyframe+empty_moov+default_base_moof+global_sidx")
_UNITS_OF_SECOND = 12800


@pytest.mark.parametrize("first", [1, 3])
@pytest.mark.parametrize("pause", [0.05, 0.4, 1])
def test_fragments_are_where_they_are_and_not_where_the_segment_index_says(
    tmp_path: Path, first: int, pause: float
) -> None:
    plain, path = tmp_path / "plain.mp4", tmp_path / "paused.mp4"
    options = ["-c:v", need_encoder("libx264"), "-g", 12, "-bf", 2, "-sc_threshold", 0, *_FRAGMENTS]
    encode(plain, options, pictures=Pictures(count=72))
    path.write_bytes(with_pause(plain.read_bytes(), first, round(pause * _UNITS_OF_SECOND)))
    whole = WholeVideo(path)
    assert np.array_equal(whole.pictures, to_numpy(load_video(plain)))
    assert whole.times == pytest.approx([float(time or 0) for time in oracle.frame_times(path)], abs=1e-6)
    frames = random.Random(1).sample(range(72), 24)
    for reader in (VideoReader(path), pickle.loads(pickle.dumps(whole.reader))):
        for frame in frames:
            assert np.array_equal(to_numpy(reader.read_frames([frame]))[0], whole.pictures[frame]), frame
    for frame in frames[:8]:
        reader = VideoReader(path, index=whole.reader.index)
        assert np.array_equal(to_numpy(reader.read_at([whole.times[frame]]))[0], whole.pictures[frame]), frame
    whole.check_reader()
    whole.check_windows(random.Random(2), 6)


def test_sound_in_fragments_is_where_it_is_and_not_where_the_segment_index_says(tmp_path: Path) -> None:
    plain, path = tmp_path / "plain.mp4", tmp_path / "paused.mp4"
    options = ["-c:a", need_encoder("alac"), *_FRAGMENTS, "-frag_duration", 200_000]
    encode(plain, options, sounds=[Sound(16000, 1, 3.0)])
    path.write_bytes(with_pause(plain.read_bytes(), 3, 16000))
    whole = to_numpy(load_audio(plain))
    # The fourth fragment begins with the first packet after 0.6 s.
    begin = 3 * -(-3200 // 4096) * 4096
    for start, stop in ((begin, begin + 2000), (begin + 9000, begin + 12000)):
        window = (1 + start / 16000, 1 + stop / 16000)
        assert np.array_equal(to_numpy(load_audio(path, timestamp=window)), whole[:, start:stop])


def _swapped(data: bytes, one: int, other: int) -> bytes:
    """Return an AVI file whose index has the places of two chunks swapped."""
    changed = bytearray(data)
    entries = data.rindex(b"idx1") + 8
    places = [slice(entries + 16 * k + 8, entries + 16 * k + 12) for k in (one, other)]
    changed[places[0]], changed[places[1]] = data[places[1]], data[places[0]]
    return bytes(changed)


@pytest.mark.parametrize(("one", "other"), [(5, 20), (1, 9), (12, 13)])
def test_an_index_of_avi_that_leads_astray_changes_no_frame(tmp_path: Path, one: int, other: int) -> None:
    plain, path = tmp_path / "plain.avi", tmp_path / "swapped.avi"
    encode(plain, ["-c:v", "mjpeg", "-pix_fmt", "yuvj420p"], pictures=Pictures(count=30))
    path.write_bytes(_swapped(plain.read_bytes(), one, other))
    pictures = to_numpy(load_video(plain))
    reader = VideoReader(path)
    for frame in (one, other, 25, one, 3, other):
        assert np.array_equal(to_numpy(reader.read_frames([frame]))[0], pictures[frame]), frame
        again = VideoReader(path, index=reader.index)
        assert np.array_equal(to_numpy(again.read_frames([frame]))[0], pictures[frame]), frame


def test_the_index_of_another_file_is_refused(tmp_path: Path) -> None:
    files = [tmp_path / "one.mkv", tmp_path / "other.mkv"]
    for number, path in enumerate(files):
        options = ["-c:v", need_encoder("libx264"), "-g", 12]
        encode(path, options, pictures=Pictures(count=36, first=20 * number))
    reader = VideoReader(files[1], index=VideoReader(files[0]).index)
    with pytest.raises(RuntimeError, match=r"other\.mkv: the file has other packets.*Open it without an index"):
        reader.read_frames([30])
