"""Aggregators, which gather items into batches."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic

from spdl._check import positive

from .type_vars import T, U

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Aggregator", "Collate"]


class Aggregator(ABC, Generic[T, U]):
    """A stage that gathers items and decides when to pass something on.

    The engine calls it from one thread at a time, in the order in which the items arrive. An exception that it raises
    fails the pipeline, since the gathered items would be lost otherwise. All pipelines that are built from one
    declaration share this object. If a pipeline is stopped early, the gathered items stay in it.

    An aggregator that keeps something past a result must say what, or else `Pipeline.state_dict` raises RuntimeError
    as soon as it has seen that. One that only puts whole items into lists, in an order of its own say, defines
    `held_back`. One that makes something of them, or splits them, so that a part of one is in this result and the rest
    in the next, has two methods more:

    * ``state_dict()`` returns what is left over behind the result that was returned last: JSON, which may have arrays
      of numpy and tensors in it. It is called behind each result and copied, so it should be small.
    * ``load_state_dict(state)`` takes it back, with lists in the place of tuples.

    The same items after the same leftover must make the same results. An aggregator with these two needs no
    `held_back`.

    Example:
        >>> from spdl.pipeline import PipelineBuilder
        >>> from spdl.pipeline.defs import Aggregator
        >>> class Paragraph(Aggregator):
        ...     lines = ()
        ...
        ...     def accumulate(self, line):
        ...         if line:
        ...             self.lines += (line,)
        ...         return None if line else self.flush()
        ...
        ...     def flush(self):
        ...         lines, self.lines = self.lines, ()
        ...         return " ".join(lines) or None
        >>> builder = PipelineBuilder().add_source(["a", "b", "", "c"]).aggregate(Paragraph()).add_sink()
        >>> with builder.build(num_threads=1).auto_stop() as pipeline:
        ...     print(list(pipeline))
        ['a b', 'c']
        >>> class Pack(Aggregator):
        ...     left = ""
        ...
        ...     def accumulate(self, text):
        ...         text, whole = self.left + text, len(self.left + text) // 4 * 4
        ...         self.left = text[whole:]
        ...         return text[:whole] or None
        ...
        ...     def flush(self):
        ...         left, self.left = self.left, ""
        ...         return left or None
        ...
        ...     def state_dict(self):
        ...         return {"left": self.left}
        ...
        ...     def load_state_dict(self, state):
        ...         self.left = state["left"]
        >>> def build():
        ...     builder = PipelineBuilder().add_source(["abc", "def", "gh"]).aggregate(Pack()).add_sink()
        ...     return builder.build(num_threads=1)
        >>> with build().auto_stop() as pipeline:
        ...     print(pipeline.get_item())
        ...     state = pipeline.state_dict()
        abcd
        >>> resumed = build()
        >>> resumed.load_state_dict(state)
        >>> with resumed.auto_stop():
        ...     print(list(resumed))
        ['efgh']
    """

    @abstractmethod
    def accumulate(self, item: T) -> U | None:
        """Take one item. Return what to pass on, or None to wait for more.

        Raises:
            Exception: Any exception fails the pipeline, since the gathered items would be lost otherwise.
        """

    @abstractmethod
    def flush(self) -> U | None:
        """Return the remaining items at the end of the input or of an epoch, or None, and start afresh.

        It is called with ``drop_last=True`` too, and its result is then dropped.

        Raises:
            Exception: Any exception fails the pipeline.
        """

    def held_back(self) -> Iterable[T] | None:
        """Return the items that are kept past the result that `accumulate` has just returned.

        An aggregator that sorts items into several batches, say, has others left when it returns one. Return the very
        objects that `accumulate` was given. The default says that none are kept.

        A resumed aggregator gets these items again, in any order: each comes once, maybe in another batch than without
        the cut. So what it returns, once it has kept an item, must show where each item is:

        * A result is one of the items, or a list (or a tuple, dict or list of lists) of exactly those that have come
          and are not kept. An item is in one result, so a sliding window is refused. Arrays are made of the items in a
          stage behind it.
        * ``flush`` returns all that is kept. With ``drop_last=True`` the rest is dropped.

        If a result or a ``flush`` is seen not to be so, `Pipeline.state_dict` raises RuntimeError. A resumed pipeline
        fails at the end of the epoch in which it was cut, if ``flush`` drops something then. As long as only a part of
        a result was received, since it was taken apart, `Pipeline.state_dict` raises unless the result is an item, a
        list, or nothing was kept. It raises, too, if the aggregator is seen to keep texts, arrays or lists that are
        none of these items. ``state_dict`` and ``load_state_dict`` ask for nothing of all that.

        Raises:
            Exception: Any exception fails the pipeline.
        """
        return None


class Collate(Aggregator[T, list[T]]):
    """Gather items into lists of ``n``.

    Args:
        n: How many items make a batch, at least 1.

    Raises:
        TypeError, ValueError: If ``n`` is not an int of at least 1.

    Example:
        >>> batcher = Collate(2)
        >>> batcher.accumulate("a"), batcher.accumulate("b"), batcher.flush()
        (None, ['a', 'b'], None)
    """

    def __init__(self, n: int) -> None:
        self.n = positive("n", n)
        self._batch: list[T] = []

    def accumulate(self, item: T) -> list[T] | None:
        """Add the item, and return the batch once it is full. Never raises."""
        self._batch.append(item)
        return self._take() if len(self._batch) >= self.n else None

    def flush(self) -> list[T] | None:
        """Return the last, shorter batch, or None if there is none."""
        return self._take() if self._batch else None

    def _take(self) -> list[T]:
        batch, self._batch = self._batch, []
        return batch

    def __repr__(self) -> str:
        return f"collate({self.n})"
