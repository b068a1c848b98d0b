"""Waits for a store, in two slots."""

import sys
import time

from spdl.pipeline import PipelineBuilder


def fetch(number: int) -> int:
    time.sleep(0.06)
    return number


def decode(number: int) -> int:
    time.sleep(0.015)
    return number


def main(concurrency: int = 2, num_threads: int = 4) -> None:
    builder = PipelineBuilder().add_source(range(10**9)).pipe(fetch, concurrency=concurrency, name="fetch")
    builder.pipe(decode, concurrency=2, name="decode")
    with builder.add_sink(4).build(num_threads=num_threads).auto_stop() as pipeline:
        for _ in pipeline:
            pass


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
