"""Test that anything that can be called with one item, or subscripted with it, is an op."""

from __future__ import annotations

import asyncio
import functools
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.support import build, source

from spdl.pipeline import PipelineFailure
from spdl.pipeline.defs import Pipe

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


def plain(x: int) -> int:
    return x + 1


def generator(x: int) -> Iterator[int | None]:
    yield x
    yield None
    yield x + 1


async def coroutine(x: int) -> int:
    await asyncio.sleep(0)
    return x + 1


async def async_generator(x: int) -> AsyncIterator[int | None]:
    yield x
    await asyncio.sleep(0)
    yield None
    yield x + 1


def add(number: int, x: int) -> int:
    return number + x


class Plain:
    def __call__(self, x: int) -> int:
        return x + 1

    def method(self, x: int) -> int:
        return x + 1

    async def async_method(self, x: int) -> int:
        return x + 1

    @staticmethod
    def static(x: int) -> int:
        return x + 1

    @classmethod
    def of_class(cls, x: int) -> int:
        return x + 1


class Generating:
    def __call__(self, x: int) -> Iterator[int]:
        yield x
        yield x + 1


class Coroutine:
    async def __call__(self, x: int) -> int:
        return x + 1


class AsyncGenerating:
    async def __call__(self, x: int) -> AsyncIterator[int]:
        yield x
        yield x + 1


class Subscripted:
    """A map-style data set, as torch calls it."""

    def __getitem__(self, x: int) -> int:
        return x + 1


class Both(Subscripted):
    def __call__(self, x: int) -> int:
        return x + 1

    def __getitem__(self, x: int) -> int:
        raise AssertionError("A call wins.")


class Delegating:
    """An object that has any attribute, like proxies and the modules of some frameworks."""

    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self, x: int) -> int:
        return x + 1


@dataclass
class Wrapped:
    """A class that serves as an op."""

    x: int

    def __add__(self, other: int) -> int:
        return self.x + other


class Constructed:
    def __init__(self, x: int) -> None:
        self.x = x


@functools.lru_cache
def cached(x: int) -> int:
    return x + 1


@functools.singledispatch
def dispatching(x: int) -> int:
    return x + 1


def decorated(function: Callable[[int], int]) -> Callable[[int], int]:
    @functools.wraps(function)
    def wrapper(x: int) -> int:
        return function(x)

    return wrapper


ONE_RESULT: dict[str, tuple[Any, str]] = {
    "function": (plain, "plain"),
    "lambda": (lambda x: x + 1, "<lambda>"),
    "partial": (functools.partial(add, 1), "add"),
    "partial of a partial": (functools.partial(functools.partial(add), 1), "add"),
    "builtin": ((1).__add__, "__add__"),
    "operator": (operator.itemgetter(slice(None)), "itemgetter"),
    "bound method": (Plain().method, "method"),
    "bound async method": (Plain().async_method, "async_method"),
    "static method": (Plain.static, "static"),
    "class method": (Plain.of_class, "of_class"),
    "callable object": (Plain(), "Plain"),
    "bound __call__": (Plain().__call__, "__call__"),
    "partial of an object": (functools.partial(Plain()), "Plain"),
    "lru_cache": (cached, "cached"),
    "singledispatch": (dispatching, "dispatching"),
    "decorated": (decorated(plain), "plain"),
    "class": (Wrapped, "Wrapped"),
    "async function": (coroutine, "coroutine"),
    "lambda that returns a coroutine": (lambda x: coroutine(x), "<lambda>"),  # noqa: PLW0108 - that is the case.
    "partial of an async function": (functools.partial(coroutine), "coroutine"),
    "object with an async __call__": (Coroutine(), "Coroutine"),
    "partial of an object with an async __call__": (functools.partial(Coroutine()), "Coroutine"),
    "object with __getitem__": (Subscripted(), "__getitem__"),
    "bound __getitem__": (Subscripted().__getitem__, "__getitem__"),
    "list": (list(range(1, 101)), "__getitem__"),
    "tuple": (tuple(range(1, 101)), "__getitem__"),
    "dict": ({x: x + 1 for x in range(100)}, "__getitem__"),
    "range": (range(1, 101), "__getitem__"),
    "both": (Both(), "Both"),
    "delegating": (Delegating(), "Delegating"),
}

TWO_RESULTS: dict[str, tuple[Any, str]] = {
    "generator function": (generator, "generator"),
    "lambda that returns a generator": (lambda x: generator(x), "<lambda>"),  # noqa: PLW0108 - that is the case.
    "generator expression": (lambda x: (x + i for i in (0, 1)), "<lambda>"),
    "partial of a generator function": (functools.partial(generator), "generator"),
    "object with a generator __call__": (Generating(), "Generating"),
    "async generator function": (async_generator, "async_generator"),
    "lambda that returns an async generator": (lambda x: async_generator(x), "<lambda>"),  # noqa: PLW0108
    "partial of an async generator function": (functools.partial(async_generator), "async_generator"),
    "object with an async generator __call__": (AsyncGenerating(), "AsyncGenerating"),
}


def outputs(op: Any, output_order: Any, items: Any = range(50)) -> list[Any]:
    with build(items, op, concurrency=3, output_order=output_order, num_threads=3).auto_stop() as pipeline:
        got = list(pipeline.get_iterator(timeout=20))
    assert not pipeline.failures()
    return got if output_order == "input" else sorted(got)


@pytest.mark.parametrize("output_order", ["completion", "input"])
class TestKinds:
    @pytest.mark.parametrize("kind", ONE_RESULT)
    def test_of_one_result(self, kind: str, output_order: str) -> None:
        op, name = ONE_RESULT[kind]
        if kind == "operator":
            assert outputs(op, output_order, ["ab", "cd"]) == ["ab", "cd"]
        elif kind == "class":
            with build([3], Wrapped, output_order=output_order).auto_stop() as pipeline:
                assert pipeline.get_item(timeout=10) == Wrapped(3)
        else:
            assert outputs(op, output_order) == [x + 1 for x in range(50)]
        assert Pipe(op).name == name

    @pytest.mark.parametrize("kind", TWO_RESULTS)
    def test_of_several_results(self, kind: str, output_order: str) -> None:
        op, name = TWO_RESULTS[kind]
        expected = [x + i for x in range(50) for i in (0, 1)]
        assert outputs(op, output_order) == (expected if output_order == "input" else sorted(expected))
        assert Pipe(op).name == name

    def test_what_is_returned_decides_for_each_item(self, output_order: str) -> None:
        def op(x: int) -> Any:
            kinds: list[Any] = [plain, generator, coroutine, async_generator, lambda _: None]
            return kinds[x % 5](x)

        expected = []
        for x in range(50):
            expected += [[x + 1], [x, x + 1], [x + 1], [x, x + 1], []][x % 5]
        assert outputs(op, output_order) == (expected if output_order == "input" else sorted(expected))


@pytest.mark.parametrize("op", [lambda: 3, lambda x, y: x + y, functools.partial(add, 1, 2), object])
def test_an_op_of_another_arity_fails_on_each_item(op: Any) -> None:
    pipeline = build([1, 2, 3], op)
    with pytest.raises(PipelineFailure) as caught, pipeline.auto_stop():
        list(pipeline.get_iterator(timeout=10))
    (failure,) = caught.value.exceptions
    assert "all 3 items failed" in str(failure)
    assert [item.error.partition(":")[0] for item in pipeline.failures()] == ["TypeError"] * 3


def test_a_missing_key_fails_its_item() -> None:
    with source([0, 5, 1]).pipe(["a", "b"]).add_sink(3).build(num_threads=1).auto_stop() as pipeline:
        assert list(pipeline.get_iterator(timeout=10)) == ["a", "b"]
    (item,) = pipeline.failures()
    assert item.error == "IndexError: list index out of range"
    assert item.stage == "__getitem__"


@pytest.mark.parametrize("value", [0, "", [], {}, False, float("nan"), ...])
def test_only_none_drops(value: Any) -> None:
    for op in (lambda _: value, lambda _: (value for _ in range(1))):
        with build([1], op).auto_stop() as pipeline:
            got = pipeline.get_item(timeout=10)
        assert got is value


def test_names() -> None:
    assert Pipe(len, name="length").name == "length"
    assert Pipe(len, name="").name == "len"
    assert Pipe(len, name="한글 / \n").name == "한글 / \n"


class TestPlaces:
    """The repr of a stage gives the place of its op's code."""

    def line_of(self, function: Any) -> str:
        return f"{__file__}:{function.__code__.co_firstlineno}"

    @pytest.mark.parametrize(
        ("op", "function", "name"),
        [
            (plain, plain, "plain"),
            (functools.partial(add, 1), add, "add"),
            (Plain(), Plain.__call__, "Plain"),
            (functools.partial(Plain()), Plain.__call__, "Plain"),
            (Plain().method, Plain.method, "Plain.method"),
            (Subscripted(), Subscripted.__getitem__, "Subscripted.__getitem__"),
            (Coroutine(), Coroutine.__call__, "Coroutine"),
            (Constructed, Constructed.__init__, "Constructed"),
            (Delegating(), Delegating.__call__, "Delegating"),
        ],
    )
    def test_python(self, op: Any, function: Any, name: str) -> None:
        code = function.__code__
        assert repr(Pipe(op)).endswith(f"op={name} at {code.co_filename}:{code.co_firstlineno})")

    def test_lambda(self) -> None:
        op = lambda x: x  # noqa: E731 - that is the case.
        assert repr(Pipe(op)).startswith("<lambda>(concurrency=1, op=TestPlaces.test_lambda.<locals>.<lambda> at ")
        assert repr(Pipe(op)).endswith(f"{__file__}:{op.__code__.co_firstlineno})")

    @pytest.mark.parametrize(
        ("op", "name"),
        [(len, "len"), (Wrapped, "Wrapped"), ([1], "list.__getitem__"), (str, "str"), (int.bit_count, "int.bit_count")],
    )
    def test_others(self, op: Any, name: str) -> None:
        assert repr(Pipe(op)).endswith(f"op={name})")
