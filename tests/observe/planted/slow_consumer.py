"""Trains more slowly than it loads."""

import sys
import time

from spdl.pipeline import PipelineBuilder


def fetch(number: int) -> int:
    time.sleep(0.002)
    return number


def main(concurrency: int = 2) -> None:
    builder = PipelineBuilder().add_source(range(10**9)).pipe(fetch, concurrency=concurrency, name="fetch")
    with builder.add_sink(4).build(num_threads=concurrency).auto_stop() as pipeline:
        for _ in pipeline:
            time.sleep(0.02)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
