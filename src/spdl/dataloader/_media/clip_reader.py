"""Reads clips of the videos of a batch by one native call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from spdl.dataloader._media.batch import ClipBatch
from spdl.dataloader._media.media_reader import MediaReader
from spdl.dataloader._media.spans import Spans
from spdl.dataloader._media.windows import choose_window, find_fault
from spdl.io import load_video_batch, random_flip, to_numpy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spdl.dataloader._media.batch import LabelledBatch
    from spdl.dataloader._media.picture_format import PictureFormat
    from spdl.dataloader._media.windows import Sampling
    from spdl.io import ImageOptions

__all__ = ["ClipReader", "ClipSampling"]


@dataclass(frozen=True)
class ClipSampling:
    """Which pictures of a video make a clip.

    Args:
        num_frames: How many.
        fps: How many in a second.
        sampling: Where the clip lies; ``"spread"`` takes pictures all over the window.
        flip: The probability that a clip is mirrored.
    """

    num_frames: int
    fps: float
    sampling: Sampling | str
    flip: float


class ClipReader(MediaReader):
    """Reads clips of one size and length.

    Args:
        options: How pictures become an array.
        clip: Which pictures.
        seed: The seed of random numbers.
        final: The format that they get after a transform; None without one.
    """

    media: ClassVar[str] = "videos"
    batch_type: ClassVar[type[LabelledBatch]] = ClipBatch

    def __init__(self, options: ImageOptions, clip: ClipSampling, seed: int, final: PictureFormat | None) -> None:
        self._final = final
        self._options = options if final is None else final.seen
        self._clip = clip
        self._seed = seed
        self._spans = Spans(audio=False, demux_config=options.demux_config)

    def find_fault(self, columns: Mapping[str, list[Any]], place: int) -> str | None:
        """Return why a sample's medium or window makes no sense; None if they do."""
        windows = columns.get("window")
        return find_fault(columns["media"][place], windows and windows[place], files=False)

    def read(
        self, columns: Mapping[str, list[Any]], epoch: int, num_threads: int
    ) -> tuple[dict[str, Any], Sequence[tuple[int, str]]]:
        """Load a clip of each video in the column ``media``."""
        clip, options, indices = self._clip, self._options, columns["index"]
        given = columns.get("window") or [None] * len(indices)
        spread = clip.sampling == "spread"
        windows = (
            given
            if spread
            else [
                choose_window(
                    media,
                    window,
                    clip.num_frames / clip.fps,
                    clip.sampling,  # type: ignore[arg-type] # It is not "spread".
                    self._spans,
                    seed=self._seed,
                    epoch=epoch,
                    index=index,
                )
                for media, window, index in zip(columns["media"], given, indices, strict=True)
            ]
        )
        batch = load_video_batch(
            columns["media"],
            num_frames=clip.num_frames,
            width=options.width or 1,
            height=options.height or 1,
            timestamps=windows,
            sampling="spread" if spread else "consecutive",
            fps=None if spread else clip.fps,
            mode=options.mode,
            interpolation=options.interpolation,
            pix_fmt=options.pix_fmt,
            layout=options.layout,
            dtype=options.dtype,
            mean=options.mean,
            std=options.std,
            exact=options.exact,
            rotate=options.exif,
            demux_config=options.demux_config,
            decode_config=options.decode_config,
            num_threads=num_threads,
            on_error="zero",
        )
        clips = to_numpy(batch.clips)
        if clip.flip:
            across = -1 if options.layout == "NCHW" else -2
            flips = random_flip(indices, seed=self._seed, epoch=epoch, probability=clip.flip)
            for place, flip in enumerate(flips):
                if flip:
                    clips[place] = np.flip(clips[place], across).copy()
        reasons = [(failure.index, failure.reason) for failure in batch.clips.failures]
        fields = {
            "clip": clips,
            "length": np.array(batch.lengths, np.int64),
            "mask": batch.mask,
            "window": np.array([(0.0, np.inf) if it is None else it for it in windows], np.float64),
        }
        return fields, reasons

    def convert(self, results: list[Any], fields: dict[str, Any], names: Sequence[str], num_threads: int) -> Any:
        """Give clips the values, dtype and layout of batches. Black pictures after a short clip become zeros."""
        assert self._final is not None
        count, lengths = self._clip.num_frames, fields["length"]
        return self._final.write(results, names, num_threads=num_threads, num_frames=count, lengths=lengths)
