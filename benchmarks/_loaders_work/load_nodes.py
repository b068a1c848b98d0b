"""torchdata's nodes with OpenCV, in threads, each of which makes whole batches."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import cycle
from typing import TYPE_CHECKING, Any

from measure import batches
from photo import batch_loader, by_opencv
from torchdata.nodes import IterableWrapper, Loader, ParallelMapper

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def open_loader(paths: list[str], step: str, workers: int) -> Iterator[Iterator[Any]]:
    """Map over paths, or over batches of them."""
    load = by_opencv()
    source = cycle(paths) if step == "decode" else batches(paths, 1 << 40)
    op = load if step == "decode" else batch_loader(load, step)
    node = ParallelMapper(IterableWrapper(source), op, num_workers=workers, method="thread", in_order=False)
    # The node's threads end with the last reference to it.
    yield iter(Loader(node))
