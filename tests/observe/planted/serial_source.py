"""Reads each item in the source."""

import sys
import time
from collections.abc import Iterator

from spdl.pipeline import PipelineBuilder


def load(number: int) -> int:
    time.sleep(0.02)
    return number


def items() -> Iterator[int]:
    for number in range(10**9):
        yield load(number)


def decode(number: int) -> int:
    time.sleep(0.016)
    return number


def main(concurrency: int = 0) -> None:
    if concurrency:
        builder = PipelineBuilder().add_source(range(10**9)).pipe(load, concurrency=concurrency, name="load")
    else:
        builder = PipelineBuilder().add_source(items())
    builder.pipe(decode, concurrency=2, name="decode")
    with builder.add_sink(4).build(num_threads=max(4, concurrency + 2)).auto_stop() as pipeline:
        for _ in pipeline:
            pass


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
