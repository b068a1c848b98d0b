"""Iterables and pipelines in another process: passes, epochs, errors, random numbers."""

# ruff: noqa: T201, S311, NPY002 - what it prints is compared; the generators of old are what crosses.

from __future__ import annotations

import logging
import os
import random
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from spdl.pipeline import PipelineBuilder, iterate_in_subprocess, run_pipeline_in_subprocess

CALLED: list[str] = []


class Numbers:
    """Can be iterated again and again."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __call__(self) -> Numbers:
        return self

    def __iter__(self) -> Any:
        yield from range(self.count)


def generated() -> Any:
    yield from range(3)


def pids() -> list[int]:
    return [os.getpid()]


def call(text: str) -> None:
    CALLED.append(text)


def called() -> list[str]:
    return CALLED


def fails(*_: Any) -> Any:
    raise ValueError("it fails")


class FailsAt:
    """Fails at some place of each pass."""

    def __init__(self, where: str) -> None:
        self.where = where

    def __call__(self) -> FailsAt:
        return self

    def __iter__(self) -> Any:
        if self.where == "iter":
            raise ValueError("it fails")
        return self._items()

    def _items(self) -> Any:
        yield 1
        raise ValueError("it fails")


def silent() -> Any:
    yield 1
    time.sleep(60)


def dies() -> Any:
    yield 1
    time.sleep(0.5)
    os._exit(3)


def randoms(_: int) -> tuple[float, float]:
    return random.random(), float(np.random.rand())


def twice(number: int) -> int:
    return 2 * number


def error_of(name: str, make: Any, *, tells: bool = True) -> None:
    """Print what comes before an error, and whether that tells what was raised there."""
    got: list[Any] = []
    try:
        got.extend(make())
    except Exception as error:  # noqa: BLE001 - the type differs.
        print(f"{name}: {got} and an error{', it fails' * (tells and 'it fails' in chain(error))}")
    else:
        print(f"{name}: {got}")


def chain(error: BaseException | None) -> str:
    texts = []
    while error is not None:
        texts.append(str(error))
        error = error.__cause__ or error.__context__
    return " ".join(texts)


def read(items: Any) -> Any:
    yield from items


def main() -> None:
    """Print what the program finds."""
    logging.disable()
    warnings.simplefilter("ignore")

    numbers = iterate_in_subprocess(Numbers(5))
    print(f"passes: {list(numbers)} {list(numbers)}")
    first = next(iter(numbers))
    print(f"a pass that was left, and a whole one: {first} {list(numbers)}")
    once = iterate_in_subprocess(generated)
    print(f"a generator: {list(once)}")
    print(f"another process: {list(iterate_in_subprocess(pids)) != [os.getpid()]}")
    texts = iterate_in_subprocess(called, initializer=[partial(call, "a"), partial(call, "b")])
    print(f"initializers: {list(texts)}")
    for method in ("spawn", "forkserver"):
        print(f"{method}: {list(iterate_in_subprocess(Numbers(3), mp_context=method, buffer_size=1))}")
    error_of("fn", lambda: iterate_in_subprocess(fails))
    error_of("initializer", lambda: iterate_in_subprocess(Numbers(3), initializer=fails))
    error_of("iter", lambda: read(iterate_in_subprocess(FailsAt("iter"))))
    error_of("next", lambda: read(iterate_in_subprocess(FailsAt("next"))))
    error_of("silence", lambda: read(iterate_in_subprocess(silent, timeout=8)))
    error_of("death", lambda: read(iterate_in_subprocess(dies)))

    config = PipelineBuilder().add_source(range(6)).pipe(twice).add_sink(3).get_config()
    items = run_pipeline_in_subprocess(config, num_threads=2)
    print(f"a pipeline: {list(items)} {list(items)}")
    config = PipelineBuilder().add_source(range(3), continuous=True).pipe(twice).add_sink(3).get_config()
    items = run_pipeline_in_subprocess(config, num_threads=2, buffer_size=2)
    print(f"epochs: {[list(items) for _ in range(3)]}")
    config = PipelineBuilder().add_source(range(3)).pipe(twice, executor=ThreadPoolExecutor(2)).add_sink(3).get_config()
    print(f"a pool of threads: {sorted(run_pipeline_in_subprocess(config, num_threads=1))}")
    config = PipelineBuilder().add_source(range(4)).pipe(fails, max_failures=0).add_sink(3).get_config()
    error_of("a failing pipeline", lambda: read(run_pipeline_in_subprocess(config, num_threads=1)), tells=False)

    random.seed(3)
    np.random.seed(4)
    expected = [randoms(0) for _ in range(3)]
    random.seed(3)
    np.random.seed(4)
    config = PipelineBuilder().add_source(range(3)).pipe(randoms).add_sink(3).get_config()
    print(f"random numbers go on there: {list(run_pipeline_in_subprocess(config, num_threads=1)) == expected}")
    print(f"and here: {randoms(0) == expected[0]}")


if __name__ == "__main__":
    main()
