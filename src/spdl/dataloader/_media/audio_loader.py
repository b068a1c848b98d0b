"""A ready-made loader of labelled sounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from spdl._check import check_choice, check_number, positive, refuse
from spdl._not_here import MEDIA_WORDS, refuses
from spdl.dataloader._loader.batches import LabelledBatch, SoundBatch
from spdl.dataloader._loader.epoch_loader import pick
from spdl.dataloader._loader.sample_loader import SHARED_BY_SAMPLES, OnError
from spdl.dataloader._loader.tensors import OutputKind
from spdl.dataloader._media.media_loader import MediaLoader, MediaReader, Pad
from spdl.dataloader._media.windows import Loaded, Sampling, Windows, find_fault
from spdl.io import load_audio_batch, to_numpy
from spdl.source import EpochOrder


class SoundReader(MediaReader):
    media: ClassVar[str] = "sounds"
    batch_type: ClassVar[type[LabelledBatch]] = SoundBatch

    def __init__(self, sample_rate: int, num_channels: int, num_frames: int, sampling: Sampling, seed: int) -> None:
        self._sample_rate = sample_rate
        self._num_channels = num_channels
        self._num_frames = num_frames
        self._windows = Windows(sampling, num_frames / sample_rate, seed, audio=True)

    def find_fault(self, columns: Mapping[str, list[Any]], place: int) -> str | None:
        return find_fault(columns, place, files=True)

    def read(
        self, columns: Mapping[str, list[Any]], epoch: int, num_threads: int
    ) -> tuple[dict[str, Any], Sequence[tuple[int, str]]]:
        def load(media: list[Any], windows: list[tuple[float, float]]) -> Loaded:
            batch = load_audio_batch(
                media,
                sample_rate=self._sample_rate,
                num_channels=self._num_channels,
                num_frames=self._num_frames,
                timestamps=windows,
                num_threads=num_threads,
                on_error="zero",
            )
            reasons = {failure.index: failure.reason for failure in batch.samples.failures}
            return Loaded(to_numpy(batch.samples), np.array(batch.lengths, np.int64), self._num_frames, reasons)

        loaded, windows = self._windows.load(columns, epoch, load)
        fields = {
            "sound": loaded.array,
            "length": loaded.lengths,
            "mask": np.arange(self._num_frames) < loaded.lengths[:, None],
            "window": np.array(windows, np.float64),
        }
        return fields, list(loaded.reasons.items())


class AudioLoader(MediaLoader[SoundBatch]):
    """A loader of labelled sounds: shuffled, sampled, resampled, shared among ranks, in batches.

    It works as `ImageLoader` does, but on sounds: order, ranks, failures, state and everything else that is not said
    here is the same. A batch is a `SoundBatch`: it unpacks as sounds and labels, and has a mask. One native call
    decodes, mixes and resamples a part of each sound of a batch, without the GIL.

    Args:
        source: The samples: an `spdl.source.AudioFolder` or `spdl.source.MediaList`, or any sequence whose items are
            pairs (sound, label) or records with a field ``media`` and, as they like, ``window``, ``label``, ``path``
            and others.
        batch_size: The sounds of a batch of one rank.
        sample_rate: The samples per second to resample to.
        seconds: How long sounds are, in seconds. If a sound ends sooner, zeros follow, and the mask says so.
        num_channels: The channels to mix to.
        sampling: The place of the part in the sample's window, or in the whole file: ``"random"`` draws one in each
            epoch, ``"center"`` and ``"start"`` are always the same. The part always contains sound, whatever else the
            file holds. To know where, the loader looks at all packets of a file once, unless it is ``"start"`` and
            there is sound from the start of the sample's window on.
        shuffle, order, seed, drop_last, even_batches, pad, output, device: As for `ImageLoader`.
        transform: Applied to each sound of a batch, a tensor or array (C, N) as the loop would get it: nothing changes
            its result. It may have a parameter for an `spdl.pipeline.ItemContext`, as for `ImageLoader`.
        batch_transform: Applied to each batch after that. The loop gets its result.
        on_error, rank, world_size, num_threads, prefetch, timeout: As for `ImageLoader`.

    Raises:
        Exception: The errors of `ImageLoader`.

    Example:
        >>> import io, wave
        >>> from spdl.dataloader import AudioLoader
        >>> file = io.BytesIO()
        >>> with wave.open(file, "wb") as writer:
        ...     writer.setparams((1, 2, 8000, 0, "NONE", ""))
        ...     writer.writeframes(bytes(2 * 8000))
        >>> sounds = [(file.getvalue(), 0), (file.getvalue(), 1)]
        >>> for batch in AudioLoader(sounds, 2, sample_rate=16000, seconds=1.5, output="numpy"):
        ...     print(batch.sound.shape, batch.length, batch.label)
        (2, 1, 24000) [16000 16000] [0 1]
    """

    @refuses(MEDIA_WORDS)
    def __init__(
        self,
        source: Sequence[Any],
        batch_size: int,
        *,
        sample_rate: int,
        seconds: float,
        num_channels: int = 1,
        sampling: Literal["random", "center", "start"] = "start",
        shuffle: bool = False,
        order: EpochOrder | None = None,
        seed: int = 0,
        drop_last: bool = False,
        even_batches: bool = True,
        transform: Callable[..., Any] | None = None,
        batch_transform: Callable[[SoundBatch], Any] | None = None,
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
        check_choice("sampling", sampling, ("random", "center", "start"))
        rate = positive("sample_rate", sample_rate)
        accepted = "a number of seconds above 0"
        length = check_number("seconds", seconds, accepted)
        if not 0 < length < float("inf") or round(length * rate) < 1:
            refuse(ValueError, "seconds", accepted, seconds)
        super().__init__(
            source,
            batch_size,
            SoundReader(rate, positive("num_channels", num_channels), round(length * rate), sampling, seed),
            transform=transform,
            pad=pad,
            **pick(locals(), SHARED_BY_SAMPLES),
        )
