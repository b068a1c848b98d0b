"""Clips of many videos in one array: as a reader of each gives them, padded, masked, and with failures told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from spdl.io import VideoReader, cpu_storage, load_video_batch, random_clips, to_numpy, uniform_clips

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

STARTS = [2360, 7103, 7353, 7741]
NAMES = ["h264.mp4", "vp9.webm", "h264.ts", "h264_one_picture.mp4"]


@pytest.mark.parametrize("num_threads", [1, 3])
@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_clips_are_those_of_readers(clip: Callable[[str], Path], num_threads: int, layout: Any) -> None:
    paths = [clip(name) for name in NAMES]
    keywords: Any = {"width": 24, "height": 16, "layout": layout, "dtype": "float32", "mode": "crop"}
    srcs = [paths[0], paths[1].read_bytes(), *paths[2:]]
    batch = load_video_batch(srcs, num_frames=9, step=2, num_threads=num_threads, **keywords)
    clips = to_numpy(batch.clips)
    for i, path in enumerate(paths):
        reader = VideoReader(path, **keywords)
        expected = to_numpy(reader.read_frames(range(0, min(len(reader), 18), 2)))
        assert batch.lengths[i] == len(expected)
        assert np.array_equal(clips[i, : len(expected)], expected)
        assert not clips[i, len(expected) :].any()
        assert batch.mask[i].tolist() == [True] * len(expected) + [False] * (9 - len(expected))


def test_windows_rates_and_spread_frames(clip: Callable[[str], Path]) -> None:
    path = clip("h264.mp4")
    reader = VideoReader(path, width=16, height=16)
    times = reader.timestamps

    def load(**keywords: Any) -> Any:
        batch = load_video_batch([path], width=16, height=16, **keywords)
        return to_numpy(batch.clips)[0, : batch.lengths[0]]

    assert np.array_equal(load(num_frames=4, timestamps=[(times[7], times[10])]), to_numpy(reader[7:10]))
    assert np.array_equal(load(num_frames=5, fps=10), to_numpy(reader.read_at([i / 10 for i in range(5)])))
    count = len(times)
    spread = [(2 * i + 1) * count // 10 for i in range(5)]
    assert np.array_equal(load(num_frames=5, sampling="spread"), to_numpy(reader.read_frames(spread)))
    doubled = load(num_frames=count * 2, fps=50)
    assert np.array_equal(doubled[::2], to_numpy(reader.read()))
    assert np.array_equal(doubled[1::2], doubled[::2])


def test_failures_are_raised_skipped_or_zeros(clip: Callable[[str], Path]) -> None:
    path = clip("h264.mp4")
    srcs = [path, b"no video", path, "/nowhere.mp4"]
    keywords: Any = {"num_frames": 3, "width": 16, "height": 16}
    with pytest.raises(
        RuntimeError, match=r"(?s)2 of 4 videos.*srcs\[1\], 8 bytes: .*srcs\[3\], /nowhere.mp4: .*No such"
    ):
        load_video_batch(srcs, **keywords)
    skipped = load_video_batch(srcs, on_error="skip", **keywords)
    zeros = load_video_batch(srcs, on_error="zero", **keywords)
    expected = to_numpy(load_video_batch([path], **keywords).clips)[0]
    assert skipped.lengths == [3, 3]
    assert all(np.array_equal(each, expected) for each in to_numpy(skipped.clips))
    assert zeros.lengths == [3, 0, 3, 0]
    assert [it.any() for it in to_numpy(zeros.clips)] == [True, False, True, False]
    for batch in (skipped, zeros):
        assert [(it.index, it.source) for it in batch.clips.failures] == [(1, b"no video"), (3, "/nowhere.mp4")]
    with pytest.raises(RuntimeError, match="2 of 2 videos"):
        load_video_batch(srcs[1::2], on_error="skip", **keywords)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_places_are_kept_if_all_videos_fail(clip: Callable[[str], Path], layout: Any) -> None:
    path = clip("h264.mp4")
    keywords: Any = {"num_frames": 3, "width": 16, "height": 12, "layout": layout, "dtype": "float32", "mean": [1] * 3}
    # No picture is shown there.
    windows = [None, None, (1000, 1001)]
    alike = load_video_batch([path] * 3, **keywords)
    memory = np.full(alike.clips.shape, 7, np.float32)
    batch = load_video_batch(
        [b"no video", "/nowhere.mp4", path], on_error="zero", timestamps=windows, storage=memory, **keywords
    )
    assert (batch.clips.shape, batch.lengths, batch.mask.any()) == (alike.clips.shape, [0, 0, 0], False)
    assert not memory.any()
    assert [failure.index for failure in batch.clips.failures] == [0, 1, 2]
    assert "within the window" in batch.clips.failures[2].reason


def test_into_the_callers_memory(clip: Callable[[str], Path]) -> None:
    path = clip("h264.mp4")
    keywords: Any = {"num_frames": 3, "width": 16, "height": 16}
    expected = to_numpy(load_video_batch([path, path], **keywords).clips)
    memory = np.full((2, 3, 16, 16, 3), 7, np.uint8)
    load_video_batch([path, path], storage=memory, **keywords)
    assert np.array_equal(memory, expected)
    storage = cpu_storage(memory.nbytes, pin_memory=False)
    assert np.array_equal(to_numpy(load_video_batch([path, path], storage=storage, **keywords).clips), expected)


@pytest.mark.parametrize(
    "wrong",
    [
        {"num_frames": 0},
        {"width": None},
        {"fps": 0},
        {"fps": float("nan")},
        {"step": 0},
        {"timestamps": [(0, 1), (0, 1)]},
        {"timestamps": 3},
        {"sampling": "all"},
        {"on_error": "partial"},
        {"pix_fmt": "yuv420p"},
    ],
)
def test_wrong_arguments(clip: Callable[[str], Path], wrong: dict[str, Any]) -> None:
    keywords: dict[str, Any] = {"num_frames": 3, "width": 16, "height": 16, **wrong}
    with pytest.raises((TypeError, ValueError), match=f"`{next(iter(wrong))}` must be"):
        load_video_batch([clip("h264.mp4")], **keywords)


@pytest.mark.parametrize("length", [1, 5, 16, 100, 1001])
@pytest.mark.parametrize("step", [1, 2, 1.5, 29.97 / 8])
def test_samplers_stay_within_the_video(length: int, step: float) -> None:
    for clips in (
        uniform_clips(length, num_clips=5, num_frames=8, step=step),
        random_clips(length, num_clips=5, num_frames=8, step=step, seed=1, epoch=2, index=3),
    ):
        assert [len(each) for each in clips] == [8] * 5
        assert all(0 <= frame < length for each in clips for frame in each)
        assert all(each == sorted(each) for each in clips)
        if (8 - 1) * step <= length - 1:
            for each in clips:
                assert all(abs(frame - each[0] - i * step) < 1 for i, frame in enumerate(each))


def test_random_clips_depend_on_the_key_alone() -> None:
    def draw(**key: int) -> list[list[int]]:
        return random_clips(10_000, num_clips=4, num_frames=8, **{"seed": 1, "epoch": 0, "index": 5, **key})

    assert draw() == draw()
    assert draw() == [list(range(start, start + 8)) for start in STARTS]
    assert len({str(draw(**key)) for key in ({}, {"seed": 2}, {"epoch": 1}, {"index": 6})}) == 4
    starts = [it[0] for index in range(500) for it in draw(index=index)]
    counts, _ = np.histogram(starts, bins=10, range=(0, 10_000))
    assert counts.min() > 140  # 200 each on average.
