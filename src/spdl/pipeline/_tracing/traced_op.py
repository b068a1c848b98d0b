"""Ops whose calls are recorded."""

from __future__ import annotations

import weakref
from types import AsyncGeneratorType, CoroutineType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from .recorder import Lanes
    from .tracer import Tracer

__all__ = ["TracedOp", "untraced_op"]


class TracedOp:
    """Calls an op, and records when it ran on which thread. What it returns to be awaited has lanes of its own.

    The item is the one that the current thread took last: the stage notes it.
    """

    def __init__(self, tracer: Tracer, name: str, op: Callable[[Any], Any], *, awaits: bool) -> None:
        self._tracer = tracer
        self._name = name
        self._op = op
        # A call that makes a coroutine does nothing yet.
        self._awaits = awaits
        self._lanes: Lanes | None = None

    def __call__(self, item: Any) -> Any:
        track = self._tracer.thread()
        roots = track.roots
        if self._awaits:
            return self._traced(roots, self._op(item))
        self._tracer.begin(track, self._name, roots)
        try:
            value = self._op(item)
        except BaseException as error:
            self._tracer.end(track, error)
            raise
        self._tracer.end(track)
        return self._traced(roots, value)

    def _traced(self, roots: tuple[int, ...], value: Any) -> Any:
        made: Any
        if type(value) is CoroutineType:
            made = self._await(roots, value)
            # Where nobody wants it, it is closed before it has begun, and so must be what it would have awaited.
            weakref.finalize(made, value.close).atexit = False
        elif type(value) is AsyncGeneratorType:
            made = self._iterate(roots, value)
        else:
            return value
        # Messages about it show its name.
        made.__qualname__ = value.__qualname__
        return made

    async def _await(self, roots: tuple[int, ...], coroutine: Awaitable[Any]) -> Any:
        with _Lane(self, roots):
            return await coroutine

    async def _iterate(self, roots: tuple[int, ...], results: AsyncGeneratorType[Any, Any]) -> AsyncIterator[Any]:
        try:
            while True:
                with _Lane(self, roots):
                    try:
                        value = await anext(results)
                    except StopAsyncIteration:
                        return
                yield value
                del value
        finally:
            await results.aclose()

    def untraced(self) -> Callable[[Any], Any]:
        """Return the op."""
        return self._op

    def lanes(self) -> Lanes:
        """Return the tracks of what the event loop runs of it."""
        if self._lanes is None:
            self._lanes = self._tracer.lanes(self._name)
        return self._lanes


def untraced_op(op: Any) -> Any:
    """Return what is called where an op is not traced any more. An op that was let go of is None."""
    return op.untraced() if isinstance(op, TracedOp) else op


class _Lane:
    """Records what happens in the body of a ``with`` statement, on a lane of an op."""

    __slots__ = ("_lane", "_op", "_roots", "_track")

    def __init__(self, op: TracedOp, roots: tuple[int, ...]) -> None:
        self._op = op
        self._roots = roots

    def __enter__(self) -> None:
        op = self._op
        self._lane, self._track = op.lanes().take()
        op._tracer.begin(self._track, op._name, self._roots)  # noqa: SLF001 - the two classes belong together.

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        self._op._tracer.end(self._track, error)  # noqa: SLF001
        self._op.lanes().give_back(self._lane)
