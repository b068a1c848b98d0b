"""OpenCV in a pool of threads, each of which makes whole batches."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import cycle
from typing import TYPE_CHECKING, Any

from measure import batches
from photo import batch_loader, by_opencv
from threads import in_threads

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator


@contextmanager
def open_loader(paths: list[str], step: str, workers: int) -> Iterator[Iterator[Any]]:
    """Map over paths, or over batches of them."""
    load = by_opencv()
    results: Generator[Any, None, None]
    if step == "decode":
        results = in_threads(load, cycle(paths), workers)  # type: ignore[assignment]
    else:
        results = in_threads(batch_loader(load, step), batches(paths, 1 << 40), workers)  # type: ignore[assignment]
    try:
        yield results
    finally:
        results.close()
