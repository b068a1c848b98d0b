"""Test iterables and pipelines in other interpreters."""

from __future__ import annotations

import errno
import functools
import gc
import importlib
import operator
import os
import pickle
import random
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.pipeline.interpreters import OLD, needs_interpreters, use_interpreters
from tests.pipeline.support import wait_until

from spdl.pipeline import (
    PipelineBuilder,
    PipelineFailure,
    iterate_in_subinterpreter,
    run_pipeline_in_subinterpreter,
    shared_storage,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.timeout(120)


class Filled:
    """Views of shared memory, which a pickle turns into views."""

    def __iter__(self) -> Iterator[Any]:
        for number in range(50):
            storage = shared_storage(100_000)
            storage[:] = bytes([number]) * 100_000
            yield pickle.PickleBuffer(storage)


@pytest.fixture
def interpreters(monkeypatch: pytest.MonkeyPatch) -> None:
    use_interpreters(monkeypatch)


@pytest.mark.skipif(not OLD, reason="this Python has concurrent.interpreters")
def test_older_pythons_are_refused() -> None:
    current = ".".join(map(str, sys.version_info[:2]))
    with pytest.raises(
        RuntimeError, match=rf"^iterate_in_subinterpreter requires Python 3.14 or later. .*: {current}$"
    ):
        iterate_in_subinterpreter(list)
    config = PipelineBuilder().add_source(range(3)).add_sink().get_config()
    with pytest.raises(RuntimeError, match=r"^run_pipeline_in_subinterpreter requires Python 3.14 or later"):
        run_pipeline_in_subinterpreter(config, num_threads=1)


@needs_interpreters
@pytest.mark.usefixtures("interpreters")
def test_a_start_that_fails_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pipe = os.pipe
    for room in range(100):
        left = room

        def pipe_while_there_is_room() -> tuple[int, int]:
            nonlocal left
            left -= 1
            if left < 0:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return pipe()

        with monkeypatch.context() as patch:
            patch.setattr(os, "pipe", pipe_while_there_is_room)
            try:
                iterate_in_subinterpreter(list).close()
            except OSError as error:
                assert error.errno == errno.EMFILE  # noqa: PT017 - it comes but for the last time.
            else:
                break
        # Descriptors are looked for after each test.
        assert wait_until(lambda: not any(thread.name == "spdl_subinterpreter" for thread in threading.enumerate()), 60)
    assert room > 1


@needs_interpreters
@pytest.mark.usefixtures("interpreters")
class TestInterpreters:
    def test_items_of_all_sizes_cross_again_and_again(self) -> None:
        sent = [bytes([number % 251]) * size for number, size in enumerate([0, 10, 5000, 100_000, 3_000_000] * 20)]
        items: Any = iterate_in_subinterpreter(functools.partial(list, sent))
        for _ in range(2):
            assert list(items) == sent
        items.close()

    def test_memory_that_was_filled_there(self) -> None:
        items: Any = iterate_in_subinterpreter(Filled)
        for number, view in enumerate(items):
            assert bytes(view) == bytes([number]) * 100_000
            view[:] = bytes(100_000)
        items.close()

    def test_a_module_that_is_refused_there_is_named(self) -> None:
        pytest.importorskip("numpy")
        load = functools.partial(importlib.import_module, "numpy")
        with pytest.raises(ImportError, match="numpy"):
            iterate_in_subinterpreter(list, initializer=load)

    def test_errors_keep_their_types(self) -> None:
        items: Any = iterate_in_subinterpreter(functools.partial(map, operator.truediv, [1, 2], [1, 0]))
        iterator = iter(items)
        assert next(iterator) == 1
        with pytest.raises(ZeroDivisionError):
            next(iterator)
        with pytest.raises(RuntimeError, match="Cannot iterate again"):
            iter(items)

    def test_leaving_early_and_dropping_it(self) -> None:
        items = iterate_in_subinterpreter(functools.partial(range, 10**6))
        for _ in range(3):
            for number in items:
                if number == 1000:
                    break
        del items
        gc.collect()

    def test_silence(self) -> None:
        sleep = functools.partial(time.sleep, 1.5)
        with pytest.raises(TimeoutError, match="did not produce any data"):
            iterate_in_subinterpreter(list, initializer=sleep, timeout=0.2)
        # It cannot be killed, and would be found by whoever looks for what a test has left.
        time.sleep(2)

    def test_a_pipeline(self) -> None:
        random.seed(4)
        expected = [operator.neg(number) for number in range(200)]
        config = (
            PipelineBuilder().add_source(range(200)).pipe(operator.neg, concurrency=3, output_order="input").add_sink()
        ).get_config()
        items = run_pipeline_in_subinterpreter(config, num_threads=3)
        for _ in range(2):
            assert list(items) == expected
        items.close()

    def test_a_pipeline_that_fails(self) -> None:
        config = (
            PipelineBuilder().add_source([1, 0]).pipe(functools.partial(operator.truediv, 1)).add_sink().get_config()
        )
        items = run_pipeline_in_subinterpreter(config, num_threads=1, max_failures=0)
        with pytest.raises(PipelineFailure):
            list(items)
