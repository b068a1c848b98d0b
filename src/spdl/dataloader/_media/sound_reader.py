"""Reads the sounds of a batch by one native call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from spdl.dataloader._media.batch import SoundBatch
from spdl.dataloader._media.media_reader import MediaReader
from spdl.dataloader._media.spans import Spans
from spdl.dataloader._media.windows import choose_window, find_fault
from spdl.io import load_audio_batch, to_numpy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spdl.dataloader._media.batch import LabelledBatch
    from spdl.dataloader._media.windows import Sampling

__all__ = ["SoundReader"]


class SoundReader(MediaReader):
    """Reads sounds of one rate and length.

    Args:
        sample_rate: The samples per second.
        num_channels: The channels.
        num_frames: The samples of each channel.
        sampling: Where in its window a sound lies.
        seed: The seed of random numbers.
    """

    media: ClassVar[str] = "sounds"
    batch_type: ClassVar[type[LabelledBatch]] = SoundBatch

    def __init__(self, sample_rate: int, num_channels: int, num_frames: int, sampling: Sampling, seed: int) -> None:
        self._sample_rate = sample_rate
        self._num_channels = num_channels
        self._num_frames = num_frames
        self._sampling = sampling
        self._seed = seed
        self._spans = Spans(audio=True)

    def find_fault(self, columns: Mapping[str, list[Any]], place: int) -> str | None:
        """Return why a sample's medium or window makes no sense; None if they do."""
        windows = columns.get("window")
        return find_fault(columns["media"][place], windows and windows[place], files=True)

    def read(
        self, columns: Mapping[str, list[Any]], epoch: int, num_threads: int
    ) -> tuple[dict[str, Any], Sequence[tuple[int, str]]]:
        """Load a part of each sound in the column ``media``."""
        indices = columns["index"]
        given = columns.get("window") or [None] * len(indices)
        seconds = self._num_frames / self._sample_rate
        windows = [
            choose_window(
                media, window, seconds, self._sampling, self._spans, seed=self._seed, epoch=epoch, index=index
            )
            for media, window, index in zip(columns["media"], given, indices, strict=True)
        ]
        batch = load_audio_batch(
            columns["media"],
            sample_rate=self._sample_rate,
            num_channels=self._num_channels,
            num_frames=self._num_frames,
            timestamps=windows,
            num_threads=num_threads,
            on_error="zero",
        )
        lengths = np.array(batch.lengths, np.int64)
        fields = {
            "sound": to_numpy(batch.samples),
            "length": lengths,
            "mask": np.arange(self._num_frames) < lengths[:, None],
            "window": np.array(windows, np.float64),
        }
        return fields, [(failure.index, failure.reason) for failure in batch.samples.failures]
