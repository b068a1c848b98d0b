"""Stages in the processes of a region: what arrives, how often ops are made there, and what is refused."""

# ruff: noqa: T201 - what it prints is compared.

from __future__ import annotations

import logging
import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from spdl.pipeline import PipelineBuilder, PipelineFailure, build_pipeline
from spdl.pipeline.defs import (
    MAIN_PROCESS,
    Aggregate,
    Disaggregate,
    Merge,
    Pipe,
    PipelineConfig,
    ProcessPoolExecutorConfig,
    SinkConfig,
    SourceConfig,
)

MADE: list[str] = []


def twice(number: int) -> int:
    return 2 * number


def only_even(number: int) -> int | None:
    return None if number % 2 else number


async def plus_one(number: int) -> int:
    return number + 1


def each_twice(number: int) -> Any:
    yield number
    yield -number


def fails_on_three(number: int) -> int:
    if number == 3:
        raise ValueError("three")
    return number


def where(_: int) -> int:
    return os.getpid()


def initialize(text: str) -> None:
    MADE.append(text)


def made(number: int) -> tuple[int, tuple[str, ...]]:
    return number, tuple(MADE)


def third(number: int) -> int:
    return number % 3


def total(numbers: list[int]) -> int:
    return sum(numbers)


def pool(workers: int = 2, **options: Any) -> ProcessPoolExecutorConfig:
    return ProcessPoolExecutorConfig(workers, **options)


def read(builder: PipelineBuilder, **options: Any) -> list[Any]:
    pipeline = builder.build(num_threads=2, **options)
    with pipeline.auto_stop():
        return list(pipeline)


def source(count: int = 12, **options: Any) -> PipelineBuilder:
    return PipelineBuilder().add_source(range(count), **options)


def refused(name: str, make: Any) -> None:
    try:
        make()
    except (TypeError, ValueError) as error:
        print(f"{name}: {type(error).__name__}")
    else:
        print(f"{name}: accepted")


def main() -> None:
    """Print what the program finds."""
    logging.disable()
    warnings.simplefilter("ignore")

    region = source().to(pool()).pipe(twice).pipe(plus_one, concurrency=2).to(MAIN_PROCESS)
    print(f"chain: {sorted(read(region.add_sink(3)))}")
    region = source().to(pool()).pipe(only_even).pipe(each_twice).to(MAIN_PROCESS)
    print(f"drops and generators: {sorted(read(region.add_sink(3)))}")
    pids = read(source(40).to(pool()).pipe(where).to(MAIN_PROCESS).add_sink(3))
    print(f"processes: {os.getpid() not in pids} {len(set(pids)) <= 2}")
    region = source().to(pool(1, initializer=initialize, initargs=("once",))).pipe(made).to(MAIN_PROCESS)
    print(f"initializer: {sorted(read(region.add_sink(3)))[:2]}")
    region = source().to(pool(1)).aggregate(5).pipe(total).to(MAIN_PROCESS)
    print(f"batches of one worker: {sorted(read(region.add_sink(3)))}")
    region = source().to(pool(1)).aggregate(5, drop_last=True).disaggregate().to(MAIN_PROCESS)
    print(f"last batch dropped: {sorted(read(region.add_sink(3)))}")
    region = source(30).to(pool(), buffer_size=4).pipe(twice).to(MAIN_PROCESS, buffer_size=8)
    print(f"several at once: {sorted(read(region.add_sink(3))) == [2 * number for number in range(30)]}")
    region = (
        source().to(pool()).path_variants(third, [[Pipe(twice)], [Pipe(only_even)], [Pipe(plus_one)]]).to(MAIN_PROCESS)
    )
    print(f"paths: {sorted(read(region.add_sink(3)))}")
    region = source().to(pool()).pipe(twice).to(pool(1)).pipe(plus_one).to(MAIN_PROCESS).pipe(twice)
    print(f"two regions: {sorted(read(region.add_sink(3)))}")
    print(f"dropped failures: {sorted(read(source().to(pool()).pipe(fails_on_three).to(MAIN_PROCESS).add_sink(3)))}")
    try:
        read(source().to(pool()).pipe(fails_on_three, max_failures=0).to(MAIN_PROCESS).add_sink(3))
    except PipelineFailure:
        print("too many failures: PipelineFailure")

    config: Any = PipelineConfig(
        Merge([PipelineConfig(SourceConfig(range(5)), [], SinkConfig(1)) for _ in range(2)]),
        [pool_marker(), Aggregate(2), Disaggregate(), Pipe(twice), main_marker()],
        SinkConfig(3),
    )
    pipeline = build_pipeline(config, num_threads=2)
    with pipeline.auto_stop():
        print(f"declared, behind a merge: {sorted(pipeline)}")

    pipeline = source(6, continuous=True).to(pool()).pipe(twice).to(MAIN_PROCESS).add_sink(3).build(num_threads=2)
    with pipeline.auto_stop():
        print(f"epochs: {[sorted(pipeline.get_iterator()) for _ in range(3)]}")

    refused("a live executor", lambda: source().to(ThreadPoolExecutor(1)))  # type: ignore[arg-type]
    refused("a text", lambda: source().to("processes"))  # type: ignore[arg-type]
    refused("buffer_size 0", lambda: source().to(pool(), buffer_size=0))
    refused("never closed", lambda: source().to(pool()).pipe(twice).add_sink(3).get_config())
    refused("empty", lambda: source().to(pool()).to(MAIN_PROCESS).add_sink(3).get_config())


def pool_marker() -> Any:
    return source().to(pool()).pipe(twice).to(MAIN_PROCESS).add_sink(1).get_config().pipes[0]


def main_marker() -> Any:
    return source().to(pool()).pipe(twice).to(MAIN_PROCESS).add_sink(1).get_config().pipes[-1]


if __name__ == "__main__":
    main()
