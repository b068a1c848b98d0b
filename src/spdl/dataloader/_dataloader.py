"""Source, preprocessing, batching and transfer, as one iterable."""

from __future__ import annotations

import os
from inspect import isasyncgenfunction, isgeneratorfunction
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl._check import check_choice, check_flag, check_timeout, positive, refuse
from spdl.dataloader._one_pass import is_own_iterator, refuse_second_pass
from spdl.dataloader._transfer_thread import TransferThread
from spdl.pipeline import PipelineBuilder
from spdl.pipeline._declare.op import bodies_of, is_async

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Iterator

    from spdl._type_vars import T
    from spdl.pipeline._declare.records import OutputOrder

__all__ = ["DataLoader"]

Source = TypeVar("Source")
Output = TypeVar("Output")


class DataLoader(Generic[Output]):
    """Load items concurrently, gather them into batches, and transfer those.

    Each iteration runs a pipeline of its own, which begins with the first item that is asked for and is stopped when
    the loop ends, is left or raises; what the functions are doing then is waited for, 10 seconds at most::

        src -> preprocessor -> batches of batch_size -> aggregator -> transfer_fn -> buffer
               num_threads at once                      num_threads   one thread

    What the functions raise drops the item or batch concerned, which is counted and logged: the first 10 of each
    function with their tracebacks, then ever fewer. The rest goes on. An iteration of which everything failed raises.
    For retries, limits on failures, or other graphs, use `spdl.pipeline.PipelineBuilder`.

    Args:
        src: Where the items come from: an iterable or async iterable, such as paths or keys. For a mapping or a
            map-style dataset see `MapIterator`. What is its own iterator, as generators are, gives one iteration.
        preprocessor: Turns an item into what is to be batched: a function or a generator function, or the async form of
            either. Async ones run on an event loop and must not block. What returns None drops the item.
        batch_size: How many results make a batch, at least 1. None makes no batches: the aggregator takes single
            results.
        drop_last: Whether to drop the last batch if it is not full. Without a batch size it has no effect.
        aggregator: Turns a list of results into one item: a function or an async function. As everywhere, None drops
            what it was called with.
        transfer_fn: Called with each item at last, in a thread that is the same for all items of all iterations of
            this loader and does nothing else, so that a CUDA stream may be made once for it. It is not counted in
            ``num_threads``, and runs while batches are made. It ends with the loader. An async function runs on the
            event loop instead. It must return the item, also where it works in place: None drops it.
        buffer_size: How many finished items wait for the loop, at least 1. More evens out a source of uneven pace, and
            takes their memory.
        num_threads: How many items and batches are worked on at once by the preprocessor and the aggregator together.
            They gain from more as far as they release the GIL. An async one takes no thread, and works on as many
            items by itself.
        timeout: Seconds to wait for each item, after which TimeoutError is raised and the iteration is over. What the
            functions are doing then is waited for, 10 seconds at most. None waits as long as it takes.
        output_order: ``"completion"`` passes on what is finished first. ``"input"`` keeps the order of the source: of
            the results, and of the batches though they are made concurrently.

    Raises:
        TypeError, ValueError: If an argument is not as described; the message names it.

    Example:
        >>> from spdl.dataloader import DataLoader
        >>> loader = DataLoader(range(10), preprocessor=lambda x: x * x, batch_size=4, output_order="input")
        >>> list(loader)
        [[0, 1, 4, 9], [16, 25, 36, 49], [64, 81]]
        >>> len(loader)
        3
    """

    def __init__(
        self,
        src: Iterable[Source] | AsyncIterable[Source],
        *,
        preprocessor: Callable[[Source], T]
        | Callable[[Source], Iterable[T]]
        | Callable[[Source], Awaitable[T]]
        | Callable[[Source], AsyncIterable[T]]
        | None = None,
        batch_size: int | None = None,
        drop_last: bool = False,
        aggregator: Callable[[list[T]], Output] | Callable[[list[T]], Awaitable[Output]] | None = None,
        transfer_fn: Callable[[Output], Output] | None = None,
        buffer_size: int = 3,
        num_threads: int = 8,
        timeout: float | None = None,
        output_order: OutputOrder = "completion",
    ) -> None:
        self._src = src
        self._preprocessor = preprocessor
        self._batch_size = None if batch_size is None else positive("batch_size", batch_size)
        self._drop_last = check_flag("drop_last", drop_last)
        self._aggregator = aggregator
        self._transfer_fn = transfer_fn
        self._buffer_size = positive("buffer_size", buffer_size)
        self._num_threads = positive("num_threads", num_threads)
        self._timeout = check_timeout("timeout", timeout)
        self._output_order: OutputOrder = output_order
        # By process: a forked child inherits the executor without its thread, and would wait for it for ever.
        self._transfer_threads: dict[int, TransferThread] = {}
        self._used = False
        if not any(hasattr(type(src), method) for method in ("__iter__", "__aiter__")):
            remedy = "Wrap what is looked up by keys in a MapIterator." if hasattr(type(src), "__getitem__") else ""
            refuse(TypeError, "src", "an iterable or an async iterable", src, remedy)
        for name in ("preprocessor", "aggregator", "transfer_fn"):
            function = getattr(self, f"_{name}")
            if not (function is None or callable(function) or hasattr(type(function), "__getitem__")):
                refuse(TypeError, name, "a callable or None", function)
        check_choice("output_order", output_order, ("completion", "input"))
        # It tells of every other mistake.
        self._declare()

    def __iter__(self) -> Iterator[Output]:
        """Start an iteration.

        Raises:
            RuntimeError: With the first item that is asked for, if the source is its own iterator and was used before.
            TimeoutError: If an item takes longer than the loader's ``timeout``.
            PipelineFailure: If the source raises, or everything failed.
        """
        if self._used and is_own_iterator(self._src):
            refuse_second_pass("DataLoader", "src", self._src)
        self._used = True
        pipeline = self._declare().build(num_threads=self._num_threads)
        with pipeline.auto_stop():
            yield from pipeline.get_iterator(timeout=self._timeout)

    def __len__(self) -> int:
        """Return how many batches an iteration gives if nothing is dropped; without batches, how many items.

        Raises:
            TypeError: If the source has no length, or the preprocessor is a generator.
        """
        if any(isgeneratorfunction(body) or isasyncgenfunction(body) for body in bodies_of(self._preprocessor)):
            raise TypeError("This DataLoader has no len(): its `preprocessor` makes any number of results of an item.")
        if not hasattr(type(self._src), "__len__"):
            raise TypeError(f"This DataLoader has no len(), since its `src` has none: {type(self._src).__name__}.")
        size = len(self._src)  # type: ignore[arg-type]
        if self._batch_size is None:
            return size
        return size // self._batch_size if self._drop_last else -(-size // self._batch_size)

    def __getstate__(self) -> dict[str, Any]:
        # Wherever the loader is sent, it has a thread of its own.
        return {**self.__dict__, "_transfer_threads": {}}

    def _declare(self) -> PipelineBuilder[Any, Output]:
        builder: PipelineBuilder[Any, Any] = PipelineBuilder()
        builder.add_source(self._src)
        if self._preprocessor is not None:
            builder.pipe(self._preprocessor, concurrency=self._num_threads, output_order=self._output_order)
        if self._batch_size is not None:
            builder.aggregate(self._batch_size, drop_last=self._drop_last)
        if self._aggregator is not None:
            builder.pipe(self._aggregator, concurrency=self._num_threads, output_order=self._output_order)
        if self._transfer_fn is not None:
            builder.pipe(self._transfer_fn, executor=self._find_transfer_thread())
        return builder.add_sink(self._buffer_size)

    def _find_transfer_thread(self) -> TransferThread | None:
        if is_async(self._transfer_fn):
            # The event loop is one thread already.
            return None
        return self._transfer_threads.setdefault(os.getpid(), TransferThread())
