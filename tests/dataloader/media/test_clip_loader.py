"""The loader of clips delivers what `load_video_batch` loads, from windows that depend on seed, epoch and index."""

from __future__ import annotations

import io
import shutil
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.io.av.ffmpeg import run_ffmpeg, run_ffprobe
from tests.io.av.media import clip
from tests.io.images import make_jpeg

from spdl.dataloader import ClipBatch, ClipLoader
from spdl.io import ImageOptions, LoadError, load_video_batch, random_flip, to_numpy
from spdl.pipeline import ItemContext  # noqa: TC001 - the loader looks it up.
from spdl.source import MediaList, MediaSample, VideoFolder
from spdl.testing import assert_resumes_exactly

SECONDS, FPS = 2.0, 25


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> VideoFolder:
    """Seven videos of 50 frames, 25 per second, in two classes; the fourth is damaged."""
    root = tmp_path_factory.mktemp("videos")
    for index in range(7):
        path = root / ("run" if index < 3 else "swim") / f"{index}.mp4"
        path.parent.mkdir(exist_ok=True)
        if index == 3:
            path.write_bytes(b"no video")
        else:
            shutil.copyfile(clip("h264.mp4"), path)
    return VideoFolder(root)


@pytest.fixture
def sound_videos(folder: VideoFolder) -> list[MediaSample]:
    return [sample for sample in folder if sample.index != 3]


def make(source: Any, batch_size: int = 2, **options: Any) -> ClipLoader:
    return ClipLoader(
        source, batch_size, **{"num_frames": 5, "size": 16, "fps": FPS, "output": "numpy", "num_threads": 2, **options}
    )


def contents(batches: Any) -> list[tuple[int, bytes]]:
    return [(int(index), it.tobytes()) for batch in batches for index, it in zip(batch.index, batch.clip, strict=True)]


def contents_of(batch: ClipBatch) -> list[tuple[int, bytes]]:
    return contents([batch])


def load(paths: list[str], windows: list[Any], **options: Any) -> Any:
    size: dict[str, Any] = {"num_frames": 5, "width": 16, "height": 16, "fps": FPS, "mode": "crop"}
    array: dict[str, Any] = {"interpolation": "bilinear", "layout": "NCHW", "dtype": "float32"}
    return load_video_batch(paths, timestamps=windows, **{**size, **array, **options})


def test_a_batch_unpacks_as_clips_and_labels_and_has_a_mask(sound_videos: list[MediaSample]) -> None:
    batches = list(make(sound_videos, output="torch", num_frames=60))
    assert [type(batch) for batch in batches] == [ClipBatch] * 3
    for batch in batches:
        clips, labels = batch
        assert (clips.shape, clips.dtype, labels.dtype) == ((2, 60, 3, 16, 16), torch.float32, torch.int64)
        assert batch.length.tolist() == [50, 50]
        assert batch.mask.sum(1).tolist() == [50, 50]
        assert not clips[~batch.mask].any()
        assert batch.mask[:, :50].all()
    assert [label for _, labels in batches for label in labels.tolist()] == [0, 0, 0, 1, 1, 1]
    assert batches[0].path == [sample.path for sample in sound_videos[:2]]


@pytest.mark.parametrize(("sampling", "start"), [("start", 0.0), ("center", 0.9)])
def test_a_clip_lies_at_the_start_or_in_the_middle(
    sound_videos: list[MediaSample], sampling: str, start: float
) -> None:
    (batch,) = make(sound_videos, 6, sampling=sampling)
    np.testing.assert_allclose(batch.window, [[start, start + 0.2]] * 6)
    expected = load([sample.path for sample in sound_videos], [(start, start + 0.2)] * 6)
    assert (batch.clip == to_numpy(expected.clips)).all()


def test_spread_takes_pictures_all_over_the_window(sound_videos: list[MediaSample]) -> None:
    samples = MediaList([(sound_videos[0].path, window, 0) for window in (None, (0.5, 1.5))])
    (batch,) = make(samples, sampling="spread")
    expected = load([sound_videos[0].path] * 2, [None, (0.5, 1.5)], sampling="spread", fps=None)
    assert (batch.clip == to_numpy(expected.clips)).all()


def test_random_windows_depend_on_seed_epoch_and_index_alone(sound_videos: list[MediaSample]) -> None:
    samples = [*sound_videos] * 10
    windows = {}
    loader = make(samples, sampling="random", seed=3)
    options: dict[str, Any]
    for options in ({"batch_size": 7}, {"num_threads": 5}, {"shuffle": True}, {}):
        loader = make(samples, sampling="random", seed=3, **options)
        found = {int(index): tuple(it) for batch in loader for index, it in zip(batch.index, batch.window, strict=True)}
        windows[tuple(sorted(found.items()))] = found
    assert len(windows) == 1
    (first,) = windows.values()
    starts = np.array([begin for begin, _ in first.values()])
    assert len(set(starts)) == 60
    assert starts.min() >= 0
    assert starts.max() <= SECONDS - 0.2
    assert np.histogram(starts, bins=3, range=(0, 1.8))[0].min() > 8
    loader.set_epoch(1)
    assert first != {
        int(index): tuple(it) for batch in loader for index, it in zip(batch.index, batch.window, strict=True)
    }
    (batch,) = make(sound_videos, 6, sampling="random", seed=3)
    expected = load([sample.path for sample in sound_videos], [tuple(it) for it in batch.window])
    assert (batch.clip == to_numpy(expected.clips)).all()


def test_windows_of_the_source_bound_clips(sound_videos: list[MediaSample]) -> None:
    path = sound_videos[0].path
    samples = MediaList([(path, (0.4, 0.8), "a")] * 20 + [(path, (1.0, 1.12), "b")], classes=["a", "b"])
    batch = next(iter(make(samples, 21, sampling="random")))
    begins, ends = batch.window[:20].T
    assert (begins >= 0.4).all()
    assert (ends <= 0.8 + 1e-9).all()
    assert len(set(begins)) == 20
    np.testing.assert_allclose(batch.window[20], [1.0, 1.12])
    assert batch.length.tolist() == [5] * 20 + [3]
    assert batch.label.tolist() == [0] * 20 + [1]


@pytest.fixture(scope="module")
def longer_sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A video of 2 seconds with a sound of 5."""
    path = tmp_path_factory.mktemp("longer") / "sound.mp4"
    sound = ("-f", "lavfi", "-i", "sine=f=440:d=5:r=44100")
    run_ffmpeg("-y", "-i", clip("h264.mp4"), *sound, "-c:v", "copy", "-c:a", "aac", path)
    return path


@pytest.mark.parametrize("name", ["h264.ts", "offset.ts", "both.mkv", "longer"])
def test_clips_lie_where_the_stream_is(name: str, longer_sound: Path) -> None:
    path = str(longer_sound if name == "longer" else clip(name))
    begin, end = _stream(path)
    for sampling in ("start", "center", "random"):
        batch = next(iter(make([(path, 0)] * 12, 12, sampling=sampling)))
        assert (batch.length == 5).all()
        assert (batch.window[:, 0] >= begin - 1e-3).all()
        assert (batch.window[:, 1] <= end + 1e-3).all()
        if sampling == "start":
            assert (batch.clip[:1] == to_numpy(load([path], [None]).clips)).all()
        if sampling == "center":
            np.testing.assert_allclose(batch.window.mean(1), (begin + end) / 2, atol=1e-3)


@pytest.mark.parametrize("name", ["h264.ts", "offset.ts"])
def test_a_clip_at_the_start_of_a_window_begins_where_the_stream_does(name: str) -> None:
    path = str(clip(name))
    begin, _ = _stream(path)
    assert begin > 0.2
    windows = [(0, begin + 60), (begin - 0.1, begin + 60), (0, begin / 2)]
    samples = MediaList([(path, window, label) for label, window in enumerate(windows)])
    loader = make(samples, 3, sampling="start", on_error="skip")
    (batch,) = loader
    assert batch.label.tolist() == [0, 1]
    assert batch.length.tolist() == [5, 5]
    assert all((found == to_numpy(load([path], [None]).clips)[0]).all() for found in batch.clip)
    np.testing.assert_allclose(batch.window[:, 0], begin, atol=1e-3)
    assert [failure.index for failure in loader.failures] == [2]


def _stream(path: str) -> tuple[float, float]:
    """Return when the first frame of a video is shown, and the end of the last one, as ffprobe says."""
    shown = run_ffprobe("-select_streams", "v:0", "-show_entries", "frame=pts_time", "-of", "csv=p=0", path)
    moments = [float(line) for line in shown.replace(b",", b"").split()]
    return min(moments), max(moments) + (max(moments) - min(moments)) / (len(moments) - 1)


def test_a_window_is_bounded_by_the_end_of_the_video(sound_videos: list[MediaSample]) -> None:
    samples = MediaList([(sound_videos[0].path, (0.5, 30), 0)] * 20)
    for sampling in ("random", "center", "start"):
        (batch,) = make(samples, 20, sampling=sampling)
        assert (batch.length == 5).all()
        assert (batch.window[:, 0] >= 0.5).all()
        assert (batch.window[:, 1] <= SECONDS + 1e-9).all()


def test_clips_are_flipped_whole(sound_videos: list[MediaSample]) -> None:
    for layout, axis in (("NCHW", -1), ("NHWC", -2)):
        (plain,) = make(sound_videos, 6, layout=layout)
        (flipped,) = make(sound_videos, 6, layout=layout, flip=0.5, seed=1)
        flips = random_flip(range(6), seed=1, epoch=0)
        assert len(set(flips)) == 2
        for place, flip in enumerate(flips):
            expected = np.flip(plain.clip[place], axis) if flip else plain.clip[place]
            assert (flipped.clip[place] == expected).all()


@pytest.mark.parametrize("in_memory", [True, False])
@pytest.mark.parametrize("sampling", ["center", "spread"])
def test_a_tar_of_images_is_no_video(tmp_path: Path, sampling: str, in_memory: bool) -> None:  # noqa: FBT001
    path = tmp_path / "photos.tar"
    with tarfile.open(path, "w") as archive:
        for index in range(3):
            content = make_jpeg(40, 30, seed=index)
            member = tarfile.TarInfo(f"{index}.jpg")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    loader = make([(path.read_bytes() if in_memory else path, 0)], 1, sampling=sampling)
    with pytest.raises(LoadError, match=r"sample 0.*: it is a tar archive, not a video: `ImageLoader`"):
        next(iter(loader))


def test_damaged_videos_are_errors_left_out_or_replaced(folder: VideoFolder) -> None:
    with pytest.raises(LoadError, match=r"1 of 2 videos of a batch could not be loaded\n  sample 3, .*3\.mp4'"):
        list(make(folder, sampling="random"))
    batches = list(make(folder, on_error="skip", sampling="random"))
    assert [batch.index.tolist() for batch in batches] == [[0, 1], [2], [4, 5], [6]]
    assert [batch.label.tolist() for batch in batches] == [[0, 0], [0], [1, 1], [1]]
    assert all(len(batch.mask) == len(batch.window) == len(batch.clip) == len(batch.label) for batch in batches)
    loader = make(folder, on_error="refill", sampling="random")
    batches = list(loader)
    assert [len(batch.clip) for batch in batches] == [2, 2, 2, 1]
    (failure,) = loader.failures
    assert failure.index == 3
    assert batches[1].index.tolist() == [2, failure.replacement]
    expected = load([str(batches[1].path[1])], [tuple(batches[1].window[1])])
    assert (batches[1].clip[1] == to_numpy(expected.clips)[0]).all()


def test_any_two_cuts_lose_nothing(sound_videos: list[MediaSample]) -> None:
    def make_loader(batch_size: int, rank: int, world_size: int) -> ClipLoader:
        place = {"rank": rank, "world_size": world_size}
        return make(sound_videos, batch_size, shuffle=True, sampling="random", num_frames=2, num_threads=1, **place)

    assert_resumes_exactly(make_loader, world=(1, 2), batch=(1, 3), items=contents_of)


def test_transforms_and_options(sound_videos: list[MediaSample]) -> None:
    def halve(clip: Any, context: ItemContext) -> Any:
        return clip[:: 2 if context.index % 2 else 1][:3]

    options = ImageOptions(12, 10, "stretch", layout="NHWC", exact=False)
    batch = next(iter(make(sound_videos, size=None, options=options, transform=halve)))
    assert batch.clip.shape == (2, 3, 10, 12, 3)
    assert batch.clip.dtype == np.uint8


MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.mark.parametrize("output", ["numpy", "torch"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("num_frames", [5, 60])
def test_a_transform_gets_bytes_and_mean_and_std_follow(
    sound_videos: list[MediaSample], num_frames: int, layout: Any, output: Any
) -> None:
    seen: list[Any] = []

    def crop(clip: Any) -> Any:
        seen.append(clip)
        return clip[:, :, 2:] if output == "torch" else clip[:, 2:]

    common: dict[str, Any] = {"num_frames": num_frames, "layout": layout, "mean": MEAN, "std": STD, "output": output}
    (plain,) = make(sound_videos, 6, flip=0.5, **common)
    (batch,) = make(sound_videos, 6, flip=0.5, transform=crop, **common)
    shape = (num_frames, 3, 16, 16) if output == "torch" else (num_frames, 16, 16, 3)
    assert all((clip.shape, str(clip.dtype).removeprefix("torch.")) == (shape, "uint8") for clip in seen)
    rows = plain.clip[:, :, :, 2:] if layout == "NCHW" else plain.clip[:, :, 2:]
    assert type(batch.clip) is type(rows)
    assert (batch.clip == rows).all()
    assert (batch.length == (5 if num_frames == 5 else 50)).all()


def test_zeros_follow_a_clip_that_is_black_there_after_a_transform(sound_videos: list[MediaSample]) -> None:
    common: dict[str, Any] = {"num_frames": 60, "mean": MEAN, "std": STD}
    (plain,) = make(sound_videos, 6, **common)
    (reverse,) = make(sound_videos, 6, transform=lambda clip: clip[::-1], **common)
    black = -np.array(MEAN, np.float32) / np.array(STD, np.float32)
    # The black pictures come first then, and none of the clip's own is lost.
    np.testing.assert_array_equal(reverse.clip[:, 10:], plain.clip[:, 49::-1])
    np.testing.assert_allclose(
        reverse.clip[:, :10], np.broadcast_to(black[:, None, None], (6, 10, 3, 16, 16)), rtol=1e-6
    )
    (noisy,) = make(sound_videos, 6, transform=lambda clip: clip | 1, **common)
    assert (noisy.clip[:, 50:] != 0).all()
    (features,) = make(sound_videos, 6, num_frames=60, transform=lambda clip: clip.mean((1, 2)) + 1)
    assert features.clip.shape == (6, 60, 3)
    assert (features.clip >= 1).all()
    (one,) = make(sound_videos, 6, transform=lambda clip: clip[0], **common)
    np.testing.assert_array_equal(one.clip, plain.clip[:, 0])


def test_what_a_transform_returns_must_be_clips_for_a_mean(sound_videos: list[MediaSample]) -> None:
    with pytest.raises(TypeError, match=r"`transform` returned float64 \(5, 3\) for sample 0"):
        list(make(sound_videos, transform=lambda clip: clip.mean((1, 2)), mean=MEAN))
    with pytest.raises(ValueError, match=r"floats from 0 to 255 .* values from 0 to 1"):
        list(make(sound_videos, transform=lambda clip: clip.astype(np.float32) // 255 * 255, std=STD))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"num_frames": 0}, ValueError, "`num_frames`"),
        ({"fps": 0}, ValueError, "`fps`"),
        ({"fps": "fast"}, TypeError, "`fps`"),
        ({"sampling": "dense"}, ValueError, "`sampling`"),
        ({"flip": 2}, ValueError, "`flip`"),
        ({"size": None}, TypeError, "`size`"),
        ({"options": ImageOptions(8, 8)}, TypeError, "`size`"),
    ],
)
def test_mistakes_are_explained(options: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make([("a.mp4", 0)], **options)


def test_samples_need_media(sound_videos: list[MediaSample]) -> None:
    with pytest.raises(TypeError, match=r"`source\[0\]`.*a field `media`"):
        list(make([{"image": "a.mp4"}]))
    pairs = [(sample.path, sample.label) for sample in sound_videos]
    assert contents(make(pairs)) == contents(make(sound_videos))
    data = [(Path(sample.path).read_bytes(), sample.label) for sample in sound_videos]
    assert contents(make(data)) == contents(make(sound_videos))
