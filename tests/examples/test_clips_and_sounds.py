"""The programs on clips and sounds load what they made, and hold a part of it out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")

import audio_keywords  # noqa: E402 - they need torch.
import video_classification  # noqa: E402
from _program.made_media import MOTIONS, WORDS, make_sounds, make_videos  # noqa: E402
from spdl.io import load_audio, load_video, to_torch  # noqa: E402
from spdl.source import AudioFolder, VideoFolder  # noqa: E402

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.timeout(180)


def test_made_videos_move_as_their_folder_says(tmp_path: Path) -> None:
    make_videos(tmp_path / "videos", 2)
    videos = VideoFolder(tmp_path / "videos")
    assert videos.classes == sorted(MOTIONS)
    assert len(videos) == 8
    for sample in videos:
        frames = to_torch(load_video(sample.path)).float().mean(-1)
        assert 50 <= len(frames) < 100
        bright = (frames[:10] > 170).float()
        # The square wraps around, so its place is an angle; a step is at most a tenth of the way around.
        angles = torch.arange(64) * 2 * torch.pi / 64
        for axis, sign in ((1, 1), (2, 0)):
            line = bright.sum(axis)
            place = torch.atan2((line * angles.sin()).sum(1), (line * angles.cos()).sum(1))
            step = torch.remainder(place.diff() + torch.pi, 2 * torch.pi) - torch.pi
            expected = MOTIONS[videos.classes[sample.label]][0 if axis == 1 else 1]
            assert torch.sign(step.mean() if step.abs().mean() > 0.05 else torch.tensor(0.0)) == expected, sign


def test_made_sounds_are_as_long_and_loud_as_said(tmp_path: Path) -> None:
    make_sounds(tmp_path / "sounds", 3)
    sounds = AudioFolder(tmp_path / "sounds")
    assert sounds.classes == sorted(WORDS)
    for sample in sounds:
        samples = to_torch(load_audio(sample.path))
        assert 16000 <= samples.shape[1] <= 32000
        assert 0.1 < samples.abs().max() < 0.9


@pytest.mark.parametrize("program", [video_classification, audio_keywords], ids=lambda it: str(it.__name__))
def test_loaders_vary_what_they_train_on_and_not_what_they_test(program: Any, tmp_path: Path) -> None:
    source: Any
    if program is video_classification:
        make_videos(tmp_path / "media", 3)
        source = VideoFolder(tmp_path / "media")
    else:
        make_sounds(tmp_path / "media", 3)
        source = AudioFolder(tmp_path / "media")
    training, testing = (program.make_loader(list(source), train=train, batch_size=5) for train in (True, False))
    first, second = list(training), list(training)
    assert [len(labels) for _, labels in first] == [5, 5]
    assert not torch.equal(first[0][0], second[0][0])
    assert program.make_model(4)(first[0][0]).shape == (5, 4)
    one, two = list(testing), list(testing)
    assert [len(labels) for _, labels in one] == [5, 5, 2]
    assert all(torch.equal(a[0], b[0]) and torch.equal(a[1], b[1]) for a, b in zip(one, two, strict=True))
    assert torch.cat([labels for _, labels in one]).tolist() == [sample.label for sample in source]
