"""Facts about an op that need no call of it, and what an op may know of its item."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from inspect import Parameter, isasyncgenfunction, iscoroutinefunction
from types import CodeType, FunctionType, MethodType
from typing import TYPE_CHECKING, Any

from spdl._check import positive, refuse
from spdl._random_key import random_key
from spdl._signatures import annotations_of, signature


class LeftOpen(int):
    """A default that the tuner may change. In every other respect it is the number."""

    __slots__ = ()


ONE = LeftOpen(1)
THREE = LeftOpen(3)


def positive_or_open(argument: str, value: Any, *, wrong_type: type[Exception] = TypeError) -> int:
    """Return the value as an int of at least 1, and a default unchanged; see `check_int`."""
    return value if isinstance(value, LeftOpen) else positive(argument, value, wrong_type=wrong_type)


def _unwrapped(op: object) -> Any:
    while isinstance(op, functools.partial):
        op = op.func
    return op


def name_of(op: object) -> str:
    """Return the short name. Partials are unwrapped, and instances have the name of their class."""
    function = _unwrapped(op)
    name = getattr(function, "__name__", None)
    # An object that delegates, such as a mock, has an attribute of any name.
    return name if isinstance(name, str) else type(function).__name__


def place_of(op: object) -> str:
    """Return a function's name, file and line.

    The line is where ``__init__`` of a class, ``__call__`` of an object, or a generator's function begins.
    """
    function = _unwrapped(op)
    name = getattr(function, "__qualname__", None)
    if not isinstance(name, str):
        name = type(function).__qualname__
    if isinstance(function, type):
        code = _code_of(vars(function).get("__init__"))
    else:
        code = _code_of(function) or _code_of(getattr(type(function), "__call__", None))  # noqa: B004 - its code.
    # Code that was compiled from a string, such as a dataclass's __init__, is in no file.
    place = "" if code is None or code.co_filename == "<string>" else f" at {code.co_filename}:{code.co_firstlineno}"
    return f"{name}{place}"


def _code_of(function: object) -> CodeType | None:
    found = (getattr(function, name, None) for name in ("__code__", "gi_code", "ag_code"))
    return next((code for code in found if isinstance(code, CodeType)), None)


def called_function(op: object) -> Any:
    """Return the function whose body runs when ``op`` is called, or None if it cannot be inspected."""
    function = _unwrapped(op)
    if isinstance(function, FunctionType | MethodType):
        return function
    return getattr(type(function), "__call__", None)  # noqa: B004 - the method itself.


def is_async(op: object) -> bool:
    """Return whether calling ``op`` makes a coroutine or an async generator, as far as its definition tells."""
    return makes_coroutine(op) or any(map(isasyncgenfunction, bodies_of(op)))


def makes_coroutine(op: object) -> bool:
    """Return whether calling ``op`` makes a coroutine, as far as its definition tells."""
    return any(map(iscoroutinefunction, bodies_of(op)))


def bodies_of(op: object) -> tuple[Any, Any]:
    """Return the two objects that may hold the code of ``op``: itself and the ``__call__`` of its class."""
    function = _unwrapped(op)
    return function, getattr(type(function), "__call__", None)  # noqa: B004 - the method itself.


# Items without a declared type are Any, not an error.
if TYPE_CHECKING:
    # Type checkers bring this module along. Python itself has defaults from 3.13 on.
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
    U = TypeVar("U", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")
    U = TypeVar("U")


# Keep the keys of results, batches and further sources apart from each other, and from the keys of items.
_RESULT, _BATCH, _SOURCE = -1, -2, -3


@dataclass(frozen=True, slots=True)
class ItemContext:
    """The origin of an item: its epoch, its place in it, and its own random key.

    An op gets it if a parameter other than the item is annotated with this class, whatever the parameter's name is. It
    is passed by keyword. Works for functions, generators, async ops, and ops in executors and in regions. Other ops
    cost nothing more.

    Attributes:
        epoch: The number of the pass over the source, from 0. It counts on after a resume. A `DataLoader` counts its
            iterations.
        position: The place of the source's item in that pass, from 0. An item that was gathered from several has that
            of the first, and one that no source has given has -1.
        index: The source's item itself if that is an int, as of samplers and ranges; else the position. So it does not
            depend on the order in which a sampler yields the indices, nor on how many processes share them.
        source: The number of the source; 0 unless several pipelines are merged.
        results: If generators made the item, which of their results it is, from the first generator to the last.
        members: If the item was gathered, such as a batch, the contexts of its members in their order. Of more than
            1,000 that an `Aggregator` gathered, the rest are sorted by position.

    Example:
        >>> import random
        >>> from spdl.pipeline import ItemContext, PipelineBuilder
        >>> def jitter(x: int, context: ItemContext) -> float:
        ...     return round(x + random.Random(context.key(seed=7)).uniform(-0.1, 0.1), 3)
        >>> def run(num_threads, order):
        ...     builder = PipelineBuilder().add_source(order).pipe(jitter, concurrency=num_threads)
        ...     with builder.add_sink().build(num_threads=num_threads).auto_stop() as pipeline:
        ...         return sorted(pipeline)
        >>> run(1, [0, 1, 2, 3]) == run(4, [3, 1, 0, 2])
        True
    """

    epoch: int
    position: int
    index: int
    source: int = 0
    results: tuple[int, ...] = ()
    members: tuple[ItemContext, ...] = ()

    def key(self, seed: int) -> int:
        """Return 64 random bits that depend on the seed, the epoch and the index alone.

        Threads, the order of loading, the number of processes and a resume do not matter. Make a generator of it, such
        as ``random.Random(key)`` or ``numpy.random.default_rng(key)``. Items that a generator made of one item have
        different keys. A batch's key is made of its first member's; see `keys` for the keys of the members.

        Args:
            seed: The seed of the run: any int.

        Raises:
            TypeError: If it is not an int.
        """
        if self.members:
            key = random_key(self.members[0].key(seed), _BATCH, 0)
        else:
            key = random_key(seed, self.epoch, self.index)
            if self.source:
                key = random_key(key, _SOURCE, self.source)
        for number in self.results:
            key = random_key(key, _RESULT, number)
        return key

    def keys(self, seed: int) -> Sequence[int]:
        """Return the key of each member of a batch; of an item that was not gathered, its own key.

        Args:
            seed: The seed of the run: any int.

        Raises:
            TypeError: If it is not an int.
        """
        return [member.key(seed) for member in self.members] if self.members else [self.key(seed)]


def context_parameter(op: object) -> str | None:
    """Return the name of the parameter that is annotated with `ItemContext`; None if there is none.

    Raises a TypeError if there are several, if it is the first parameter, or if it cannot be passed by keyword.
    """
    named = next((names for body in bodies_of(op) if (names := _annotated(body))), None)
    if named is None:
        return None
    bound = _bound_names(op)
    try:
        parameters = list(signature(op).parameters.values())  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return None
    found = [each for each in parameters if each.name in named and each.name not in bound]
    found = [each for each in found if each.kind not in (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)]
    if not found:
        return None
    accepted = "an op of an item and at most one ItemContext, which can be passed by keyword"
    if len(found) > 1 or found[0] is parameters[0] or found[0].kind is Parameter.POSITIONAL_ONLY:
        refuse(TypeError, "op", accepted, op)
    return found[0].name


def _annotated(body: Any) -> list[str]:
    """Return the parameters of a function that are annotated with the class."""
    try:
        annotations = annotations_of(body)
    except Exception:  # noqa: BLE001 - it has none.
        return []
    names = getattr(body, "__globals__", {})
    return [name for name, value in annotations.items() if name != "return" and _names_context(value, names)]


def _names_context(annotation: object, names: dict[str, Any]) -> bool:
    if not isinstance(annotation, str):
        return annotation is ItemContext
    # As it was written, if annotations are not evaluated.
    text = annotation.strip("'\" ")
    return text.rpartition(".")[2] == "ItemContext" or names.get(text) is ItemContext


def _bound_names(op: object) -> set[str]:
    bound: set[str] = set()
    while isinstance(op, partial):
        bound |= op.keywords.keys()
        op = op.func
    return bound


@dataclass(frozen=True, slots=True)
class FailedItem:
    """An item that a stage gave up. It holds text only: no item, no exception and no frame is kept alive.

    Attributes:
        stage: The stage's name.
        positions: The positions in their sources, counted from 0, of the item or of all that were merged into it, in
            the order in which they were merged; only the first 1,000 if there are more.
        sources: For each position, the source it is in, counted from 0 in the order of declaration.
        origin: The positions in words, and the sources if the pipeline has several. It says whether there are more
            than 1,000.
        item: The op's argument, as `repr` shows it, shortened; the generator, if one failed that had begun;
            ``?`` if it was lost on its way into a worker.
        error: The exception's type and message.
        traceback: The formatted traceback, shortened.
        attempts: How many times the op was tried.

    Example:
        >>> from spdl.pipeline import PipelineBuilder
        >>> builder = PipelineBuilder().add_source([4, 0, 2]).pipe(lambda x: 8 // x, name="share").add_sink()
        >>> with builder.build(num_threads=1).auto_stop() as pipeline:
        ...     print(list(pipeline))
        [2, 4]
        >>> (failed,) = pipeline.failures()
        >>> failed.stage, failed.positions, failed.item, failed.attempts
        ('share', (1,), '0', 1)
        >>> failed.error
        'ZeroDivisionError: integer division or modulo by zero'
    """

    stage: str
    positions: tuple[int, ...]
    sources: tuple[int, ...]
    origin: str
    item: str
    error: str
    traceback: str
    attempts: int
