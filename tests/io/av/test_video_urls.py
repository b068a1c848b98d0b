"""A video behind a URL: the same frames as of the file, and of MP4 only what is wanted is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.io.av import encoded, ffmpeg, sources
from tests.io.av.encoded import video
from tests.io.av.media import clip
from tests.io.av.sources import Pictures
from tests.io.av.video_clips import VIDEO_CLIPS
from tests.io.file_server import serving
from tests.io.kept import CACHE, digest, files_of, kept

from spdl.io import VideoReader, to_numpy

if TYPE_CHECKING:
    from pathlib import Path

CLIPS = [
    name for name in VIDEO_CLIPS if name.endswith((".mp4", ".mov", ".mkv", ".ts")) and not name.startswith("ffv1_")
]


def _facts(reader: VideoReader) -> dict[str, Any]:
    index = reader.index
    return {
        "count": len(reader),
        "fps": reader.fps,
        "duration": reader.duration,
        "times": list(reader.timestamps),
        "keys": list(reader.key_frames),
        "index": index,
        "damage": reader.damage,
    }


@pytest.mark.parametrize("name", CLIPS)
def test_the_same_as_the_file(name: str) -> None:
    path = clip(name)
    with serving(path.parent) as server:
        local, remote = VideoReader(path), VideoReader(f"{server.url}/{path.name}")
        expected, found = _facts(local), _facts(remote)
        assert found.pop("index") == expected.pop("index")
        assert found == expected
        last = len(local) - 1
        for wanted in ([last, 0, last // 2], [*range(len(local))], [1 if last else 0]):
            assert np.array_equal(to_numpy(remote.read_frames(wanted)), to_numpy(local.read_frames(wanted)))
        del local, remote


@pytest.fixture(scope="module")
def large() -> Path:
    """Return a video of noise, which is large, with its index at the end, as encoders write it."""
    noise = ("-vf", "scale=320:240,noise=alls=90:allf=t", "-g", 25, "-bf", 2, "-b:v", "6M")
    made = video("libx264", *noise, pictures=Pictures(count=250))
    made_by = digest(ffmpeg.version(), noise, *files_of(encoded, sources))
    return kept(CACHE / "test-clips" / made_by / "large.mp4", made.make)


@pytest.mark.parametrize("place", ["begin", "middle", "end"])
def test_only_what_is_wanted_of_a_large_mp4_is_read(large: Path, place: str) -> None:
    size = large.stat().st_size
    assert size > 3 << 20
    with serving(large.parent) as server:
        reader = VideoReader(f"{server.url}/{large.name}")
        assert len(reader) == 250
        # The header, what is behind it, and the index at the end.
        assert server.sent < size / 5
        assert len(server.gets) <= 5
        before = server.sent
        first = {"begin": 0, "middle": 125, "end": 240}[place]
        frames = to_numpy(reader.read_frames(range(first, first + 5)))
        assert server.sent - before < size / 2.5
        assert np.array_equal(frames, to_numpy(VideoReader(large).read_frames(range(first, first + 5))))
        del reader
