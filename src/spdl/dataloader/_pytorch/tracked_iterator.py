"""An iterator of PyTorch's kind that notes what the consumer has received."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Literal, Protocol

from torch.utils.data.dataloader import _BaseDataLoaderIter

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl.dataloader._pytorch.epochs import MapEpoch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from spdl.dataloader._pytorch.fetching import Request

__all__ = ["AnyLoader", "IndexSampler", "TrackedIterator"]


class AnyLoader(Protocol):
    """A loader with the attributes of torch's class, and what its iterators tell it and ask it."""

    dataset: Any
    batch_size: int | None
    sampler: Any
    batch_sampler: Any
    drop_last: bool
    num_workers: int
    collate_fn: Callable[[Any], Any]
    timeout: float
    worker_init_fn: Callable[[int], object] | None
    multiprocessing_context: Any
    generator: Any
    prefetch_factor: int
    persistent_workers: bool
    in_order: bool
    workers: Literal["thread", "process"] | None
    _loaded: dict[str, Any] | None
    _pickles_once: int | None
    _index_sampler: Any

    def _begin(self, iterator: TrackedIterator) -> tuple[Any, dict[str, Any] | None]: ...

    def _drawing(self) -> AbstractContextManager[None]: ...

    def _read_from(self, iterator: TrackedIterator, *, first: bool) -> None: ...


class IndexSampler:
    """Yields what the consumer has not received yet.

    Args:
        sampler: The loader's sampler, which yields the indices of batches.
        epoch: The epoch that begins.
    """

    def __init__(self, sampler: Any, epoch: MapEpoch) -> None:
        self._sampler = sampler
        self._epoch = epoch

    def __iter__(self) -> Iterator[Request]:
        return self._epoch.requests()

    def __len__(self) -> int:
        return len(self._sampler)


_NEVER: Any = object()


class TrackedIterator(_BaseDataLoaderIter):  # type: ignore[misc] # mypy sees no types of torch's.
    """The part that all iterators of our loader share.

    torch's class draws the seed of the workers, starts the sampler, and warns of what it cannot do. It calls
    ``_next_data`` for each batch, which must leave in ``_handed`` what `progress.latest` is to become.
    """

    def __init__(self, loader: AnyLoader) -> None:
        self._loader = weakref.ref(loader)
        self._begin(loader)
        self._handed: Any = None
        self._indices: Any = None
        self._seed = 0
        super().__init__(loader)
        self._prepare(loader)

    def _begin(self, loader: AnyLoader) -> None:
        self._is_read = False
        # A MapEpoch or an IterableEpoch, after the kind of the dataset; and the state that waits for a first read.
        self._epoch: Any
        self._epoch, self._loaded = loader._begin(self)  # noqa: SLF001 - the classes belong together.

    def begin_again(self, loader: AnyLoader) -> None:
        """Become the iterator that the loader would make now."""
        self._shutdown_workers()
        try:
            with loader._drawing():  # noqa: SLF001
                type(self).__init__(self, loader)
        except BaseException:
            # The next read tries again.
            self._loaded = _NEVER
            raise

    def _shutdown_workers(self) -> None:
        """End the workers, if there are any."""

    @property
    def epoch(self) -> Any:
        """The epoch that it is in."""
        return self._epoch

    def is_under_way(self) -> bool:
        """Return whether it was read, and not to the end."""
        return self._is_read and not self._epoch.finished

    def _prepare(self, loader: AnyLoader) -> None:
        """Change what torch's class has noted of the loader, before workers start."""

    def _reset(self, loader: AnyLoader, first_iter: bool = False) -> None:  # noqa: FBT001, FBT002 - torch's.
        if not first_iter:
            self._begin(loader)
        self._index_sampler = loader._index_sampler  # noqa: SLF001
        # Workers that stay keep their seeds.
        self._base_seed = self._seed
        super()._reset(loader, first_iter)

    # torch sets it to the loader's, which a subclass of the user's may have replaced, and iterates over it.
    @property
    def _index_sampler(self) -> Any:
        return self._indices

    @_index_sampler.setter
    def _index_sampler(self, sampler: Any) -> None:
        self._indices = IndexSampler(sampler, self._epoch) if isinstance(self._epoch, MapEpoch) else sampler

    @property
    def _base_seed(self) -> int:
        return self._seed

    @_base_seed.setter
    def _base_seed(self, drawn: int) -> None:
        # torch draws a seed whether the epoch begins anew or not.
        self._seed = self._epoch.settle_seed(drawn)

    def _tell_loader(self, loader: AnyLoader) -> None:
        if not self._is_read and self._loaded is not loader._loaded:  # noqa: SLF001
            # A state was loaded since, or another iterator has taken it up.
            self.begin_again(loader)
        loader._read_from(self, first=not self._is_read)  # noqa: SLF001
        self._is_read = True

    def __next__(self) -> Any:
        loader = self._loader()
        if loader is not None and not self._epoch.finished:
            self._tell_loader(loader)
        progress = self._epoch.progress
        progress.settle()
        try:
            batch = super().__next__()
        except StopIteration:
            self._epoch.finish()
            raise
        # Nothing may come between these two, not even a call: a signal handler could.
        progress.latest = self._handed
        return batch
