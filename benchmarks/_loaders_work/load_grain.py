"""Grain with OpenCV, in threads, each of which makes whole batches."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import grain
import numpy as np
from measure import BATCH
from photo import by_opencv
from pixels import normalise

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def open_loader(paths: list[str], step: str, workers: int) -> Iterator[Iterator[Any]]:
    """Map over the photos, batch, and read ahead."""
    dataset = grain.MapDataset.source(paths).repeat().map(by_opencv())
    if step != "decode":
        dataset = dataset.batch(BATCH, batch_fn=np.stack)
    if step == "normalise":
        dataset = dataset.map(normalise)
    ahead = workers + 2 if step != "decode" else BATCH
    read = grain.ReadOptions(num_threads=workers, prefetch_buffer_size=ahead)
    items = iter(dataset.to_iter_dataset(read))
    try:
        yield items
    finally:
        items.close()
