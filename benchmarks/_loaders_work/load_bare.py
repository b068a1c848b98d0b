"""libjpeg-turbo alone, with a decoder per thread: bytes in memory, full size, nothing kept. This is the limit."""

from __future__ import annotations

from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from bare import decoder
from measure import batches
from threads import in_threads

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator


@contextmanager
def open_loader(paths: list[str], step: str, workers: int) -> Iterator[Iterator[Any]]:
    """Decode batches without delivering them."""
    del step
    free: SimpleQueue[Callable[[list[str]], None]] = SimpleQueue()
    for _ in range(workers):
        free.put(decoder(paths))

    def decode(batch: list[str]) -> None:
        own = free.get()
        own(batch)
        free.put(own)

    results: Generator[None, None, None] = in_threads(decode, batches(paths, 1 << 40), workers)  # type: ignore[assignment]
    try:
        yield results
    finally:
        results.close()
