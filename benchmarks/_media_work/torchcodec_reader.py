"""torchcodec, on one thread for each clip, in threads and in PyTorch's DataLoader."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from clips import CLIPS, LENGTH, Task, indices
from threads import in_threads
from torch_clips import in_data_loader
from torchcodec.decoders import AudioDecoder, VideoDecoder
from torchcodec.transforms import Resize

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

torch.set_num_threads(1)


def load(path: str, size: int) -> int:
    """Load a whole clip, stretched to a size."""
    decoder = VideoDecoder(path, dimension_order="NHWC", seek_mode="approximate", transforms=[Resize((size, size))])
    return len(decoder.get_all_frames().data)


def decode(path: str) -> int:
    """Decode a whole clip to RGB of its own size: it gives nothing less."""
    return len(VideoDecoder(path, dimension_order="NHWC", seek_mode="approximate").get_all_frames().data)


def opened(path: str) -> tuple[int, Callable[[list[int]], Any]]:
    """Open a clip, and scan it for an index."""
    decoder = VideoDecoder(path, dimension_order="NHWC")
    return len(decoder), lambda chosen: decoder.get_frames_at(chosen).data


def first(data: bytes) -> Any:
    """Load the first frame of a clip in memory, without a scan."""
    return VideoDecoder(data, dimension_order="NHWC", seek_mode="approximate").get_frame_at(0).data


def threads(tasks: Iterator[Task], workers: int) -> Iterator[int]:
    """Load clips in a pool of threads."""
    return (len(it) for it in in_threads(_clips, tasks, workers))


def sound(source: Any, rate: int) -> Any:
    """Load a sound as floats of one channel at a rate."""
    return AudioDecoder(source, sample_rate=rate, num_channels=1).get_all_samples().data


def _clips(task: Task) -> Any:
    decoder = VideoDecoder(task.path, dimension_order="NHWC")
    pixels = decoder.get_frames_at(indices(task.starts(len(decoder)))).data
    return pixels.reshape(CLIPS, LENGTH, *pixels.shape[1:])


LOADERS = {"threads": threads, "data loader": partial(in_data_loader, _clips)}
