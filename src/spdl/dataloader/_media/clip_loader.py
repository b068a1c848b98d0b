"""A ready-made loader of labelled clips of videos."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal, cast

import numpy as np

from spdl._check import check_choice, check_number, positive, refuse
from spdl._not_here import MEDIA_WORDS, refuses
from spdl.dataloader._loader.batches import ClipBatch, LabelledBatch
from spdl.dataloader._loader.epoch_loader import pick
from spdl.dataloader._loader.sample_loader import SHARED_BY_SAMPLES, OnError
from spdl.dataloader._loader.tensors import OutputKind
from spdl.dataloader._media.media_loader import MediaLoader, MediaReader, Pad
from spdl.dataloader._media.picture_format import Interpolation, PictureFormat, make_options
from spdl.dataloader._media.windows import Loaded, Windows, find_fault, name_format
from spdl.io import ImageOptions, load_video_batch, random_flip, to_numpy
from spdl.source import EpochOrder


class ClipReader(MediaReader):
    media: ClassVar[str] = "videos"
    batch_type: ClassVar[type[LabelledBatch]] = ClipBatch

    def __init__(
        self,
        options: ImageOptions,
        final: PictureFormat | None,
        *,
        num_frames: int,
        fps: float,
        sampling: Literal["random", "center", "start", "spread"],
        flip: float,
        seed: int,
    ) -> None:
        self._final = final
        self._options = options if final is None else final.seen
        self._num_frames = num_frames
        self._fps = fps
        self._flip = flip
        self._seed = seed
        self._windows: Windows | None = None
        if sampling != "spread":
            demux_config = options.demux_config
            self._windows = Windows(sampling, num_frames / fps, seed, audio=False, demux_config=demux_config)

    def find_fault(self, columns: Mapping[str, list[Any]], place: int) -> str | None:
        return find_fault(columns, place, files=False) or _find_archive(columns["media"][place])

    def read(
        self, columns: Mapping[str, list[Any]], epoch: int, num_threads: int
    ) -> tuple[dict[str, Any], Sequence[tuple[int, str]]]:
        indices = columns["index"]

        def load(media: list[Any], windows: Sequence[tuple[float, float] | None]) -> Loaded:
            return self._load(media, windows, num_threads)

        windows: Sequence[tuple[float, float] | None]
        if self._windows is None:
            windows = columns.get("window") or [None] * len(indices)
            loaded = load(columns["media"], windows)
        else:
            loaded, windows = self._windows.load(columns, epoch, load)
        clips, lengths = loaded.array, loaded.lengths
        if self._flip:
            across = -1 if self._options.layout == "NCHW" else -2
            flips = random_flip(indices, seed=self._seed, epoch=epoch, probability=self._flip)
            for place, flip in enumerate(flips):
                if flip:
                    clips[place] = np.flip(clips[place], across).copy()
        fields = {
            "clip": clips,
            "length": lengths,
            "mask": np.arange(self._num_frames) < lengths[:, None],
            "window": np.array([(0.0, np.inf) if it is None else it for it in windows], np.float64),
        }
        return fields, list(loaded.reasons.items())

    def _load(self, media: list[Any], windows: Sequence[tuple[float, float] | None], num_threads: int) -> Loaded:
        options, spread = self._options, self._windows is None
        batch = load_video_batch(
            media,
            num_frames=self._num_frames,
            width=options.width or 1,
            height=options.height or 1,
            timestamps=windows,
            sampling="spread" if spread else "consecutive",
            fps=None if spread else self._fps,
            mode=options.mode,
            interpolation=options.interpolation,
            pix_fmt=options.pix_fmt,
            layout=options.layout,
            dtype=cast("Any", options.dtype),  # Not one of those for ids.
            mean=options.mean,
            std=options.std,
            exact=options.exact,
            rotate=options.exif,
            demux_config=options.demux_config,
            decode_config=options.decode_config,
            num_threads=num_threads,
            on_error="zero",
        )
        reasons = {failure.index: failure.reason for failure in batch.clips.failures}
        return Loaded(to_numpy(batch.clips), np.array(batch.lengths, np.int64), self._num_frames, reasons)

    def convert(
        self, results: list[Any], fields: dict[str, Any], names: Sequence[str], num_threads: int, *, alone: bool
    ) -> Any:
        """Give clips the values, dtype and layout of batches. Black pictures after a short clip become zeros."""
        assert self._final is not None
        count, lengths = self._num_frames, fields["length"]
        return self._final.write(
            results, names, num_threads=num_threads, alone=alone, num_frames=count, lengths=lengths
        )


def _find_archive(media: Any) -> str | None:
    """Return the fault of a tar archive. FFmpeg takes one of JPEGs for a video, whose frames they are."""
    if isinstance(media, str | os.PathLike) and not os.fsdecode(media).endswith(".tar"):
        return None
    found = name_format(media)
    if found is None or found[0] != "a tar archive":
        return None
    return "it is a tar archive, not a video: `ImageLoader` with `ImageShards` loads its images, `TarShards` the rest"


class ClipLoader(MediaLoader[ClipBatch]):
    """A loader of labelled clips: shuffled, sampled, normalised, shared among ranks, in batches.

    It works as `ImageLoader` does, but on videos: order, ranks, failures, state and everything else that is not said
    here is the same. A batch is a `ClipBatch`: it unpacks as clips and labels, and has a mask. One native call decodes,
    resizes and normalises a clip of each video of a batch, without the GIL.

    Args:
        source: The samples: an `spdl.source.VideoFolder` or `spdl.source.MediaList`, or any sequence whose items are
            pairs (video, label) or records with a field ``media`` and, as they like, ``window``, ``label``, ``path``
            and others.
        batch_size: The clips of a batch of one rank.
        num_frames: The pictures of a clip. If a video ends sooner, zeros follow, and the mask says so. An image is a
            video of one picture.
        size: The size of the pictures in pixels: one side of a square, or width and height.
        fps: The pictures of a second of the clip: for each moment the one that is on the screen. So a clip lasts
            ``num_frames / fps`` seconds, whatever the rate of the video.
        sampling: The place of the clip in the sample's window, or in the whole video: ``"random"`` draws one in each
            epoch, ``"center"`` and ``"start"`` are always the same, and ``"spread"`` takes pictures at equal distances
            all over it, whatever `fps` is. The clip always contains pictures, whatever else the file holds. To know
            where, the loader looks at all packets of a file once, unless it is ``"spread"``, or ``"start"`` and there
            are pictures from the start of the sample's window on.
        flip: The probability that a clip is mirrored left to right.
        mode, interpolation, dtype, mean, std: As for `ImageLoader`.
        layout: ``"NCHW"``, the default, makes clips (N, C, H, W), ``"NHWC"`` clips (N, H, W, C).
        options: A record of `spdl.io.ImageOptions` instead of `size`, `mode`, `interpolation`, `layout`, `dtype`,
            `mean` and `std`. Its ``exif`` says whether to turn pictures upright as the file says.
        shuffle, order, seed, drop_last, even_batches, pad, output, device: As for `ImageLoader`.
        transform: Applied to each clip of a batch, before `mean`, `std`, `dtype` and `layout`, by the rules of
            `ImageLoader`. It gets uint8: a tensor (N, C, H, W), as torchvision's v2 transforms take it, or an array
            (N, H, W, C) with ``output="numpy"``. After a short clip are black pictures, which become zeros if it leaves
            them black there.
        batch_transform: Applied to each finished batch, after `transform`, `mean` and `std`. The loop gets its result.
        on_error, rank, world_size, num_threads, prefetch, timeout: As for `ImageLoader`.

    Raises:
        Exception: The errors of `ImageLoader`.

    Example:
        >>> from spdl.dataloader import ClipLoader
        >>> from spdl.source import VideoFolder
        >>> folder = VideoFolder("videos")  # doctest: +SKIP
        >>> for clips, labels in ClipLoader(folder, 8, num_frames=16, size=112, sampling="random"):  # doctest: +SKIP
        ...     print(clips.shape)
        torch.Size([8, 16, 3, 112, 112])
    """

    @refuses({**MEDIA_WORDS, "frame_rate": "use `fps`", "frames_per_clip": "use `num_frames`"})
    def __init__(
        self,
        source: Sequence[Any],
        batch_size: int,
        *,
        num_frames: int,
        size: int | tuple[int, int] | None = None,
        fps: float = 15.0,
        sampling: Literal["random", "center", "start", "spread"] = "center",
        flip: float = 0.0,
        mode: Literal["pad", "stretch", "crop"] | None = None,
        interpolation: Interpolation | None = None,
        layout: Literal["NHWC", "NCHW"] | None = None,
        dtype: Literal["uint8", "float16", "float32"] | None = None,
        mean: Sequence[float] | None = None,
        std: Sequence[float] | None = None,
        options: ImageOptions | None = None,
        shuffle: bool = False,
        order: EpochOrder | None = None,
        seed: int = 0,
        drop_last: bool = False,
        even_batches: bool = True,
        transform: Callable[..., Any] | None = None,
        batch_transform: Callable[[ClipBatch], Any] | None = None,
        pad: Pad = None,
        output: OutputKind = "torch",
        device: Any = None,
        on_error: OnError = "raise",
        rank: int | None = None,
        world_size: int | None = None,
        num_threads: int | None = None,
        prefetch: int = 2,
        timeout: float | None = None,
    ) -> None:
        given = {
            "mode": mode,
            "interpolation": interpolation,
            "layout": layout,
            "dtype": dtype,
            "mean": mean,
            "std": std,
        }
        # FFmpeg's own resize, as `load_video_batch` takes it by default.
        self.options = make_options(size, options, {"exact": False, **given})
        if self.options.pad_value or self.options.pages is not None:
            refuse(ValueError, "options", "a record without `pad_value` and `pages`, which are for images", options)
        check_choice("sampling", sampling, ("random", "center", "start", "spread"))
        if not 0 <= check_number("flip", flip, "a number from 0 to 1") <= 1:
            refuse(ValueError, "flip", "a number from 0 to 1", flip)
        if not 0 < check_number("fps", fps, "a number above 0") < float("inf"):
            refuse(ValueError, "fps", "a number above 0", fps)
        reader = ClipReader(
            self.options,
            None if transform is None else PictureFormat(self.options, output),
            num_frames=positive("num_frames", num_frames),
            fps=fps,
            sampling=sampling,
            flip=flip,
            seed=seed,
        )
        super().__init__(
            source,
            batch_size,
            reader,
            transform=transform,
            pad=pad,
            **pick(locals(), SHARED_BY_SAMPLES),
        )
