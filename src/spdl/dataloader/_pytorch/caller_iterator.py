"""An iterator that loads in the consumer's thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

from .array_collate import in_this_process
from .iterable_epoch import IterableEpoch
from .map_fetch import MapFetch
from .pinning import Pinning
from .positions import Step
from .stream_fetch import StreamFetch, StreamOptions
from .tracked_iterator import TrackedIterator

if TYPE_CHECKING:
    from .any_loader import AnyLoader

__all__ = ["CallerIterator"]

# torch's words.
_NO_TIMEOUT = "_SingleProcessDataLoaderIter requires timeout == 0"


class CallerIterator(TrackedIterator):
    """Loads each batch when it is asked for.

    Args:
        loader: The loader. It has no workers.

    Raises:
        AssertionError: If the loader has a timeout, as torch does.
    """

    def __init__(self, loader: AnyLoader) -> None:
        super().__init__(loader)
        if self._timeout != 0:
            raise AssertionError(_NO_TIMEOUT)
        self._pin = Pinning.of(self)
        if isinstance(self._epoch, IterableEpoch):
            options = StreamOptions(in_this_process(self._collate_fn), loader.batch_size, self._drop_last)
            self._stream = StreamFetch(self._dataset, options, self._epoch.begins[0])
        else:
            self._fetch = MapFetch(self._dataset, in_this_process(self._collate_fn), batched=self._auto_collation)

    def _next_data(self) -> Any:
        if isinstance(self._epoch, IterableEpoch):
            return self._next_of_stream()
        request = self._next_index()
        try:
            batch = self._fetch(request.index)
        except BaseException:
            self._epoch.progress.receive(request.number)
            raise
        self._handed = request.number
        return self._pin(batch)

    def _next_of_stream(self) -> Any:
        progress = self._epoch.progress
        try:
            batch, state = self._stream()
        except StopIteration:
            raise
        except Exception:
            progress.receive(Step(progress.turn, 0, self._stream.state()))
            raise
        self._handed = Step(progress.turn, 0, state)
        return self._pin(batch)
