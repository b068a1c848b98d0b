"""Parses in pure Python, in four threads."""

import sys

from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig


def read(number: int) -> int:
    return number


def parse(number: int) -> int:
    total = 0
    for value in range(40_000):
        total += value * number % 7
    return total


def main(processes: int = 0, concurrency: int = 4) -> None:
    builder = PipelineBuilder().add_source(range(10**9)).pipe(read, name="read")
    if processes:
        builder.to(ProcessPoolExecutorConfig(processes))
    builder.pipe(parse, concurrency=concurrency, name="parse")
    if processes:
        builder.to(MAIN_PROCESS)
    with builder.add_sink(4).build(num_threads=4).auto_stop() as pipeline:
        for _ in pipeline:
            pass


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
