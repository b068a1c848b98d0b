"""A ready-made loader of labelled sounds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from spdl._check import check_choice, check_number, positive, refuse
from spdl.dataloader._loader.labelled_batches import LabelledBatch, SoundBatch
from spdl.dataloader._loader.sample_loader import OnError
from spdl.dataloader._loader.tensors import OutputKind
from spdl.dataloader._media.batch_maker import Pad
from spdl.dataloader._media.media_loader import MediaLoader, MediaReader
from spdl.dataloader._media.windows import Sampling, Spans, choose_window, find_fault
from spdl.io import load_audio_batch, to_numpy
from spdl.source import EpochOrder


class SoundReader(MediaReader):
    """Reads sounds of one rate and length.

    Args:
        sample_rate: The samples per second.
        num_channels: The channels.
        num_frames: The samples of each channel.
        sampling: The place of a sound in its window.
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
            file holds. To know where, the loader looks at all packets of a file once, unless it is ``"start"`` and the
            sample has a window.
        shuffle: Whether each epoch has its own order.
        order: Your own order instead: an `spdl.source.EpochOrder`. Its length is the length of an epoch, and it may
            take some samples more often than others.
        seed: The seed of the order and of all random numbers, from 0 to 2**64 - 1.
        drop_last: Whether to leave out the samples at the end of an epoch that fill no batch on all ranks. If not, the
            ranks share them evenly, and if there are fewer than ranks, some get the same sample.
        even_batches: Whether some do, so that all ranks take equally many steps. False is for validation; see
            `ImageLoader`.
        transform: Applied to each sound of a batch, a tensor or array (C, N) as the loop would get it: nothing changes
            its result. If it has a parameter that is annotated with
            `spdl.pipeline.ItemContext`, it also gets that; its ``key(seed)`` is the seed to take for random numbers.
        batch_transform: Applied to each batch after that. The loop gets its result.
        pad: Names of further fields that are arrays or lists of numbers of different lengths, such as the tokens of
            texts: each becomes one array (B, T), padded with zeros, and a field ``NAME_mask`` says where its values
            are. A mapping gives each name arguments of `spdl.io.pad`: ``{"tokens": {"value": 1, "multiple": 8}}``.
        output: ``"torch"`` makes tensors, ``"numpy"`` arrays.
        device: The device for the loop's tensors, such as ``"cuda"``: this process's GPU. None leaves them in main
            memory.
        on_error: How to treat files that cannot be loaded: ``"raise"``, ``"skip"`` or ``"refill"``; see
            `ImageLoader`.
        rank: This process's rank, with `world_size`. None asks torch.distributed, then the environment.
        world_size: The number of ranks.
        num_threads: How many threads load. None takes the cores that this process may use, bounded by its control
            groups, and divided by ``LOCAL_WORLD_SIZE``. Up to four batches are made at once; threads beyond four share
            the sounds of each batch. Look-ups in `source`, `transform` and `batch_transform`
            do not gain from these: they run in one thread for each batch.
        prefetch: How many finished batches wait for the loop. Up to four more are being made, and a greater number does
            not change that: it evens out batches that take unequally long.
        timeout: Seconds to wait for a batch before TimeoutError, above 0. None waits as long as it takes.

    Attributes:
        dataset: The source.
        batch_size: The samples of a batch.
        drop_last: Whether the rest is left out.

    Raises:
        ImportError: If a device is given and PyTorch is not installed; without a device, when the first batch is read.
        TypeError, ValueError: If an argument is not as described, or nothing would be loaded; the message names it.

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
            shuffle=shuffle,
            order=order,
            seed=seed,
            drop_last=drop_last,
            even_batches=even_batches,
            rank=rank,
            world_size=world_size,
            on_error=on_error,
            transform=transform,
            batch_transform=batch_transform,
            pad=pad,
            output=output,
            device=device,
            num_threads=num_threads,
            prefetch=prefetch,
            timeout=timeout,
        )
