"""decord, on one thread for each clip, in threads and in PyTorch's DataLoader."""

from __future__ import annotations

import io
from functools import partial
from typing import TYPE_CHECKING, Any

import decord
from clips import CLIPS, LENGTH, Task, indices
from threads import in_threads
from torch_clips import in_data_loader

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def load(path: str, size: int) -> int:
    """Load a whole clip, stretched to a size."""
    reader = _reader(path, width=size, height=size)
    return len(reader.get_batch(range(len(reader))).asnumpy())


def opened(path: str) -> tuple[int, Callable[[list[int]], Any]]:
    """Open a clip, which reads its index."""
    reader = _reader(path)
    return len(reader), lambda chosen: reader.get_batch(chosen).asnumpy()


def first(data: bytes) -> Any:
    """Load the first frame of a clip in memory."""
    return _reader(io.BytesIO(data))[0].asnumpy()


def threads(tasks: Iterator[Task], workers: int) -> Iterator[int]:
    """Load clips in a pool of threads."""
    return (len(it) for it in in_threads(_clips, tasks, workers))


def _clips(task: Task) -> Any:
    reader = _reader(task.path)
    pixels = reader.get_batch(indices(task.starts(len(reader)))).asnumpy()
    return pixels.reshape(CLIPS, LENGTH, *pixels.shape[1:])


def _reader(source: Any, **options: int) -> Any:
    return decord.VideoReader(source, ctx=decord.cpu(0), num_threads=1, **options)


LOADERS = {"threads": threads, "data loader": partial(in_data_loader, _clips)}
