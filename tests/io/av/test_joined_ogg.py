"""Ogg files that were put one behind the other: one video, or a refusal before anything is decoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.io.av import oracle
from tests.io.av.encoded import video
from tests.io.av.sources import Pictures

from spdl.io import VideoReader, demux_video, load_video, load_video_batch, to_numpy

if TYPE_CHECKING:
    from pathlib import Path

_VP8 = ("libvpx", "-deadline", "realtime", "-cpu-used", 8, "-g", 8)


def _parts(folder: Path, encoder: str, *options: object) -> list[Path]:
    paths = []
    for number, count in enumerate((20, 13)):
        paths.append(folder / f"part{number}.ogg")
        video(encoder, *options, pictures=Pictures(64, 48, count, first=40 * number)).make(paths[-1])
    return paths


@pytest.mark.parametrize("order", [(0, 1), (1, 0), (0, 0)])
def test_vp8_is_read_through(tmp_path: Path, order: tuple[int, int]) -> None:
    parts = [_parts(tmp_path, *_VP8)[number] for number in order]
    joined = tmp_path / "joined.ogg"
    joined.write_bytes(b"".join(part.read_bytes() for part in parts))
    whole = to_numpy(load_video(joined))
    assert oracle.are_same(whole, np.concatenate([oracle.pictures(part) for part in parts]))
    reader = VideoReader(joined)
    assert reader.index.joined
    assert np.array_equal(to_numpy(reader.read()), whole)
    times = reader.timestamps
    for begin, end in ((0, 3), (15, 25), (22, 30), (5, 6), (len(parts) + 20, 29)):
        window = times[begin] - 0.01, times[end] - 0.01
        assert np.array_equal(to_numpy(load_video(joined, timestamp=window)), whole[begin:end])


def test_theora_is_refused(tmp_path: Path) -> None:
    joined = tmp_path / "joined.ogg"
    joined.write_bytes(b"".join(part.read_bytes() for part in _parts(tmp_path, "libtheora", "-g", 8)))
    refused = pytest.raises(RuntimeError, match=r"joined.ogg: another Ogg file with Theora begins.*split the file")
    for read in (load_video, VideoReader, demux_video):
        with refused:
            read(joined)
    with refused:
        load_video(joined, timestamp=(0.1, 0.3))
    with pytest.raises(RuntimeError, match="another Ogg file with Theora begins"):
        load_video_batch([joined], num_frames=4, width=64, height=48)
