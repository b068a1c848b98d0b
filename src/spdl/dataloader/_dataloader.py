"""One iterable for a source, preprocessing, batching and transfer."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from inspect import isasyncgenfunction, isgeneratorfunction
from queue import SimpleQueue
from threading import Lock, Thread
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, ParamSpec, TypeAlias, TypeVar

from spdl._check import check_choice, check_flag, check_int, check_timeout, positive, refuse
from spdl._locate import callers_line
from spdl._not_here import refuses
from spdl.dataloader._epochs import Epochs, LoaderIterator, Read, missing_attribute, reads
from spdl.pipeline import Pipeline, PipelineBuilder, PipelineStatistics
from spdl.pipeline._declare.op import ONE, LeftOpen, bodies_of, is_async
from spdl.pipeline._declare.records import OutputOrder, how_to_iterate, is_text
from spdl.pipeline._for_loaders import is_parents, take, tell_arguments
from spdl.pipeline._report.page import LoaderArguments, StageArguments

if TYPE_CHECKING:
    from spdl.tune import TunedSettings

T = TypeVar("T")


P = ParamSpec("P")

_Calls: TypeAlias = "SimpleQueue[tuple[Future[Any], Callable[[], object]] | None]"


class TransferThread(ThreadPoolExecutor):
    """A pool of one thread, which ends with the pool and does not keep the process alive.

    The interpreter waits at its exit for the threads of a plain pool: forever, if a call does not return.
    """

    def __init__(self) -> None:
        super().__init__(1)
        self._calls: _Calls = SimpleQueue()
        self._starting = Lock()
        self._started = False
        weakref.finalize(self, self._calls.put, None)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        self._calls.put((future, lambda: fn(*args, **kwargs)))
        with self._starting:
            if not self._started:
                self._started = True
                Thread(target=_serve, args=(self._calls,), name="spdl_transfer", daemon=True).start()
        return future


def _serve(calls: _Calls) -> None:
    while (call := calls.get()) is not None:
        future, function = call
        if future.set_running_or_notify_cancel():
            try:
                result = function()
            except BaseException as error:  # noqa: BLE001 - it is raised where the result is awaited.
                future.set_exception(error)
            else:
                future.set_result(result)
                del result
        # Do not keep them alive until the next call.
        del call, future, function


_GATHERING = StageArguments(
    otherwise=(
        "Results are put into a batch one by one: let `src` yield lists of names, and `preprocessor` load such a list, "
        "with `batch_size=None`."
    )
)
_TUNES_ITSELF = 'It has `num_threads="auto"`, which continues trying: watch again first.'


def is_own_iterator(source: object) -> bool:
    return isinstance(source, Iterator | AsyncIterator)


def refuse_second_pass(owner: str, argument: str, source: object) -> NoReturn:
    raise RuntimeError(
        f"This {owner}'s `{argument}`, of type {type(source).__name__}, is its own iterator and was iterated before: "
        "the rest of it would be a silently shortened or empty epoch. Pass one that starts again, such as a list or an "
        f"object whose `__iter__` is a generator function, or make a new {owner}."
    )


_AUTO = "auto"

Source = TypeVar("Source")
Output = TypeVar("Output")


def _number(num_threads: object) -> int:
    return check_int("num_threads", num_threads, least=1, accepted='an int of at least 1, or "auto"')


class DataLoader(Generic[Source, Output]):
    """A loader that loads items concurrently, gathers them into batches, and transfers these.

    Each iteration runs its own pipeline. It starts when the first item is requested, and stops when the loop ends,
    is left or raises; calls of the functions that are then running are awaited for 10 seconds at most::

        src -> preprocessor -> batches of batch_size -> aggregator -> transfer_fn -> buffer
               num_threads at once                      num_threads   one thread

    If a function raises, the item or batch is dropped, counted and logged: the first 10 failures of each function with
    their tracebacks, then ever fewer. The others continue. An iteration in which everything failed raises. For retries,
    limits on failures, or other graphs, use `spdl.pipeline.PipelineBuilder`.

    Args:
        src: The source of the items: an iterable or async iterable, such as paths or keys. For a mapping or a map-style
            dataset see `MapIterator`. A generator, or another object that is its own iterator, can be iterated only
            once.
        preprocessor: Turns an item into the result to batch: a function or a generator function, or the async form of
            either. Async ones run on an event loop and must not block. Returning None drops the item.
        batch_size: How many results make a batch, at least 1. None makes no batches: the aggregator takes single
            results.
        drop_last: Whether to drop the last batch if it is not full. Without a batch size it has no effect.
        aggregator: Turns a list of results into one item: a function or an async function. Returning None drops the
            list.
        transfer_fn: Called with each finished item in a dedicated thread. The thread is the same for all items of all
            iterations of this loader, so a CUDA stream may be made once for it. It is not counted in ``num_threads``,
            runs while batches are made, and ends with the loader. An async function runs on the event loop instead. The
            function must return the item even if it works in place: None drops it.
        buffer_size: How many finished items wait for the loop, at least 1. More items even out a source of uneven pace,
            and take more memory.
        num_threads: How many items and batches the preprocessor and the aggregator together work on at once. More
            threads help as far as the functions release the GIL, and those that compute gain nothing from more of them
            than there are cores. An async function takes no thread, and works on as many items by itself. ``"auto"``
            lets the loader choose, for each of the two functions, while it runs: an epoch continues with what the one
            before has found. `tuned` returns it.
        timeout: Seconds to wait for each item. After that, TimeoutError is raised. Nothing is lost: the next ``next()``
            on the same iterator waits again. A ``for`` loop is left, which ends its iteration unless something else
            holds the iterator. None waits as long as it takes.
        output_order: ``"completion"`` yields items as they are finished. ``"input"`` keeps the order of the source,
            both of the results and of the batches, which are still made concurrently.

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

    @refuses(
        {
            "collate_fn": "use `aggregator`",
            "dataset": "use `src` for the items and `preprocessor` for what loads one",
            "num_workers": "use `num_threads`, or PyTorchDataLoader, which has PyTorch's arguments",
            "pin_memory": "use `transfer_fn`",
            "prefetch_factor": "use `buffer_size`",
            "sampler": "use it as `src`",
            "shuffle": "use a `src` that shuffles, such as an EpochSampler of indices",
            "transform": "use `preprocessor`",
        }
    )
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
        num_threads: int | Literal["auto"] = 8,
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
        self._autotune = isinstance(num_threads, str) and num_threads == _AUTO
        # For the preprocessor, and for the aggregator.
        self._concurrency = (ONE, ONE) if self._autotune else (_number(num_threads),) * 2
        self._tuned: TunedSettings | None = None
        self._timeout = check_timeout("timeout", timeout)
        self._output_order: OutputOrder = output_order
        # One for each process: a forked child inherits the executor without its thread, and would wait for it forever.
        self._transfer_threads: dict[int, TransferThread] = {}
        self._used = False
        self._epochs = Epochs()
        if is_text(src) or not any(hasattr(type(src), method) for method in ("__iter__", "__aiter__")):
            by_key = hasattr(type(src), "__getitem__") and not is_text(src)
            remedy = "To look items up by keys, wrap it in a MapIterator." if by_key else how_to_iterate(src)
            refuse(TypeError, "src", "an iterable or an async iterable, not text", src, remedy)
        for name in ("preprocessor", "aggregator", "transfer_fn"):
            function = getattr(self, f"_{name}")
            looks_up = hasattr(type(function), "__getitem__") and not isinstance(function, str | bytes)
            if not (function is None or callable(function) or looks_up):
                refuse(TypeError, name, "a callable or None", function)
        check_choice("output_order", output_order, ("completion", "input"))
        # Raises for every other mistake.
        self._declare()

    def __iter__(self) -> Iterator[Output]:
        """Start an iteration. It ends with the last item, when the iterator is closed, or when it is dropped.

        Raises:
            RuntimeError: When the first item is requested, if the source is its own iterator and was used before.
            TimeoutError: If an item takes longer than the loader's ``timeout``. The next read continues.
            PipelineFailure: If the source raises, or everything failed.
        """
        return LoaderIterator(self._pass())

    if not TYPE_CHECKING:
        # Type checkers know what there is.
        def __getattr__(self, name: str) -> Any:
            raise missing_attribute(self, name)

    def _pass(self) -> Generator[Read | TimeoutError, None, None]:
        if self._used and is_own_iterator(self._src):
            refuse_second_pass("DataLoader", "src", self._src)
        self._used = True
        pipeline = self._build()
        self._epochs.begin(pipeline)
        try:
            with pipeline.auto_stop():
                items, begin_read = pipeline.get_iterator(timeout=self._timeout), self._epochs.read

                def read() -> Read:
                    begin_read(pipeline)
                    root, item = take(items)
                    return pipeline, root, item

                yield from reads(read)
            self._epochs.end(pipeline)
        finally:
            # An iterator that a program has left open is closed at the very end of the interpreter, where half of the
            # names are gone and no state is needed. A forked child that drops its copy has received nothing.
            if not (sys.is_finalizing() or is_parents(pipeline)):
                self._epochs.leave(pipeline)
                if self._autotune:
                    self._keep_tuned(pipeline)

    def _keep_tuned(self, pipeline: Pipeline[Output]) -> None:
        self._tuned = pipeline.tuned()
        slots = [stage.concurrency for stage in pipeline.statistics().stages[1:]]
        first, second = self._concurrency
        if self._preprocessor is not None:
            first = LeftOpen(slots.pop(0))
        if self._batch_size is not None:
            del slots[0]
        if self._aggregator is not None:
            second = LeftOpen(slots[0])
        self._concurrency = (first, second)

    def _build(self) -> Pipeline[Output]:
        if self._autotune:
            pipeline = self._declare().build(autotune=True)
        else:
            pipeline = self._declare().build(num_threads=self._concurrency[0])
        tell_arguments(pipeline, self._arguments())
        return pipeline

    def _arguments(self) -> LoaderArguments:
        result = "item" if self._batch_size is None else "batch"
        stages = []
        if self._preprocessor is not None:
            stages.append(self._function_arguments(self._preprocessor, "item"))
        if self._batch_size is not None:
            stages.append(_GATHERING)
        if self._aggregator is not None:
            stages.append(self._function_arguments(self._aggregator, result))
        if self._transfer_fn is not None:
            one = f"One {result} is transferred at a time, which no argument changes: have `transfer_fn` copy less."
            stages.append(StageArguments(unit=result, slot=_slot(self._transfer_fn), otherwise=one))
        return LoaderArguments(
            type(self).__name__,
            tuple(stages),
            source=(
                "Let `src` yield only names or numbers, and do the work in `preprocessor`: several of it run at once."
            ),
            source_several="" if self._autotune else "num_threads",
        )

    def _function_arguments(self, function: object, unit: str) -> StageArguments:
        return StageArguments(
            unit=unit,
            slot=_slot(function),
            several="num_threads",
            value=0 if self._autotune else self._concurrency[0],
            note=_TUNES_ITSELF if self._autotune else "",
            in_place_of_processes=(
                '`PyTorchDataLoader(..., workers="process")` runs it in processes, and so does a stage of '
                "`PipelineBuilder` with an `executor`."
            ),
            order='output_order="completion"',
        )

    def statistics(self) -> PipelineStatistics:
        """Return what each stage has done in the iteration that was read last, and which one limits the throughput.

        It may be called at any time, also between iterations. Before the first one, all counts are 0.
        """
        return self._epochs.statistics(self._build)

    def tuned(self) -> TunedSettings:
        """Return what an iteration has found to be the best numbers so far: of the last one that has ended.

        Raises:
            RuntimeError: If the loader was not made with ``num_threads="auto"``, or no iteration has ended yet.

        Example:
            >>> import time
            >>> from spdl.dataloader import DataLoader
            >>> def read(path):
            ...     time.sleep(0.01)
            ...     return path
            >>> loader = DataLoader(range(200), preprocessor=read, batch_size=4, num_threads="auto")
            >>> len(list(loader)), loader.tuned().concurrency["read"] > 1
            (50, True)
        """
        if not self._autotune:
            raise RuntimeError(
                f'The loader does not tune itself: make it with `num_threads="auto"` ({callers_line()}).'
            )
        if self._tuned is None:
            raise RuntimeError(f"No iteration has ended yet, so nothing is known ({callers_line()}).")
        return self._tuned

    def state_dict(self) -> dict[str, Any]:
        """Return which items the loop has received, so that a loader made the same way can continue from there.

        It describes the iterator that was read last. Between two iterations, it says which epoch is next; if the last
        one was left early, it says how far that was. Nothing is kept for it per item. It may be called at any time,
        from any thread and from a signal handler.

        Returns:
            A dict that `json` can write, usually of less than 1 kB. With a source that has ``state_dict()`` and
            ``load_state_dict()``, what these exchange is a part of it.

        Example:
            >>> from spdl.dataloader import DataLoader
            >>> def make():
            ...     return DataLoader(range(8), batch_size=2, output_order="input")
            >>> loader = make()
            >>> for batch in loader:
            ...     if 3 in batch:
            ...         state = loader.state_dict()
            ...         break
            >>> resumed = make()
            >>> resumed.load_state_dict(state)
            >>> list(resumed), list(resumed)
            ([[4, 5], [6, 7]], [[0, 1], [2, 3], [4, 5], [6, 7]])
        """
        return self._epochs.state_dict(self._src)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue the next iteration from a saved state: the next iteration whose first item is read.

        It yields what had not been received. After it, iterations are whole epochs again. If the state was taken at the
        end of an epoch, the next iteration is the next epoch.

        Args:
            state: What `state_dict` returned, also if it went through JSON. It must come from a loader of the same
                source and functions. The batch size, the order and the numbers of threads may differ.

        Raises:
            TypeError: If the state is not a dict.
            ValueError: If the state is damaged, newer than this version of the package, or of another loader or source.
            RuntimeError: If the iterator that was read last has not come to its end, which is a read after the last
                batch, and is still held: its loop continues, or a variable keeps it. Its ``close()`` ends it.
        """
        self._epochs.load_state_dict(state, self._src, self._build)

    def __len__(self) -> int:
        """Return how many batches an iteration yields if nothing is dropped; without batches, how many items.

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
        # A copy of the loader in another process has its own thread and its own epochs.
        return {**self.__dict__, "_transfer_threads": {}, "_epochs": Epochs()}

    def _declare(self) -> PipelineBuilder[Any, Output]:
        builder: PipelineBuilder[Any, Any] = PipelineBuilder()
        builder.add_source(self._src)
        if self._preprocessor is not None:
            builder.pipe(self._preprocessor, concurrency=self._concurrency[0], output_order=self._output_order)
        if self._batch_size is not None:
            builder.aggregate(self._batch_size, drop_last=self._drop_last)
        if self._aggregator is not None:
            builder.pipe(self._aggregator, concurrency=self._concurrency[1], output_order=self._output_order)
        if self._transfer_fn is not None:
            builder.pipe(self._transfer_fn, executor=self._find_transfer_thread())
        return builder.add_sink(self._buffer_size)

    def _find_transfer_thread(self) -> TransferThread | None:
        if is_async(self._transfer_fn):
            # The event loop is one thread already.
            return None
        return self._transfer_threads.setdefault(os.getpid(), TransferThread())


def _slot(function: object) -> str:
    return "coroutine" if is_async(function) else "thread"
