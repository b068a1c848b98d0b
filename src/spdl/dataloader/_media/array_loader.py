"""A ready-made loader of labelled arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl._check import check_str
from spdl.dataloader._media.array_reader import ArrayReader
from spdl.dataloader._media.batch import LabelledBatch
from spdl.dataloader._media.media_loader import MediaLoader

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from spdl.dataloader._media.batch_maker import OnError, OutputKind
    from spdl.source import EpochOrder

__all__ = ["ArrayLoader"]


class ArrayLoader(MediaLoader[LabelledBatch]):
    """A loader of npz and npy files, or of the rows of large arrays: shuffled, shared among ranks, in batches.

    It is to arrays what `ImageLoader` is to images: order, ranks, failures, state and everything else that is not said
    here is the same. A batch is a `LabelledBatch`: it unpacks as ``data, label``, and all other arrays of the files are
    fields by their names. One native call copies or inflates the arrays of all npz files of a batch into their rows,
    without the GIL.

    Args:
        source: The samples: an `spdl.source.ArrayFolder`, `ArrayRows`, or a sequence of paths or bytes of npz or npy
            files, of pairs (file, label), or of records with a field ``file``. All have the same names, shapes and
            dtypes. In place of a file there may be arrays by their names.
        batch_size: The samples of a batch of one rank.
        data: The name of the array that a batch unpacks first. The array of an npy file is taken to have it.
        label: The name of the array with the labels. Where files have none, the labels are those of the samples. None
            always takes these. Labels that are whole numbers become int64.
        shuffle: Whether each epoch has an order of its own.
        order: An order of your own instead: an `spdl.source.EpochOrder`. Its length is that of an epoch, and it may
            take some samples more often than others.
        seed: The seed of the order and of all random numbers, from 0 to 2**64 - 1.
        drop_last: Whether to leave out the samples at the end of an epoch that fill no batch on all ranks. If not, the
            ranks share them evenly, and where there are fewer than ranks, some get the same sample.
        even_batches: Whether some do, so that all ranks take equally many steps. False is for validation; see
            `ImageLoader`.
        transform: Applied to the data of each sample of a batch, a tensor or array as the loop would get it: nothing
            changes its result, neither values nor dtype. If it has a parameter that is
            annotated with `spdl.pipeline.ItemContext`, it also gets that; its ``key(seed)`` is the seed to take for
            random numbers.
        batch_transform: Applied to each batch after that. The loop gets its result.
        output: ``"torch"`` makes tensors, ``"numpy"`` arrays.
        device: Where the loop gets its tensors, such as ``"cuda"``: this process's GPU. None leaves them in main
            memory.
        on_error: What to do with files that cannot be loaded, or differ from others: ``"raise"``, ``"skip"`` or
            ``"refill"``; see `ImageLoader`.
        rank: This process's rank, with `world_size`. None asks torch.distributed, then the environment.
        world_size: The number of ranks.
        num_threads: How many threads load. None takes the cores that this process may use, bounded by its control
            groups, and divided by ``LOCAL_WORLD_SIZE``. Up to four batches are made at once; threads beyond four share
            the arrays of each batch. Look-ups in `source`, `transform` and `batch_transform`
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
        >>> import io
        >>> import numpy as np
        >>> from spdl.dataloader import ArrayLoader
        >>> from spdl.io import save_npz
        >>> files = []
        >>> for number in range(3):
        ...     file = io.BytesIO()
        ...     save_npz(file, {"image": np.full((2, 2), number), "label": np.array(number)})
        ...     files.append(file.getvalue())
        >>> for data, labels in ArrayLoader(files, 2, output="numpy"):
        ...     print(data.shape, labels)
        (2, 2, 2) [0 1]
        (1, 2, 2) [2]
    """

    def __init__(
        self,
        source: Sequence[Any],
        batch_size: int,
        *,
        data: str = "image",
        label: str | None = "label",
        shuffle: bool = False,
        order: EpochOrder | None = None,
        seed: int = 0,
        drop_last: bool = False,
        even_batches: bool = True,
        transform: Callable[..., Any] | None = None,
        batch_transform: Callable[[LabelledBatch], Any] | None = None,
        output: OutputKind = "torch",
        device: Any = None,
        on_error: OnError = "raise",
        rank: int | None = None,
        world_size: int | None = None,
        num_threads: int | None = None,
        prefetch: int = 2,
        timeout: float | None = None,
    ) -> None:
        reader = ArrayReader(check_str("data", data), None if label is None else check_str("label", label))
        super().__init__(
            source,
            batch_size,
            reader,
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
            output=output,
            device=device,
            num_threads=num_threads,
            prefetch=prefetch,
            timeout=timeout,
        )
