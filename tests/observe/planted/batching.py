"""Copies batches together, in one slot."""

import sys
import time

from spdl.pipeline import PipelineBuilder


def fetch(number: int) -> int:
    time.sleep(0.004)
    return number


def collate(batch: list[int]) -> int:
    time.sleep(0.04)
    return sum(batch)


def main(concurrency: int = 1, num_threads: int = 10) -> None:
    builder = PipelineBuilder().add_source(range(10**9)).pipe(fetch, concurrency=8, name="fetch").aggregate(16)
    builder.pipe(collate, concurrency=concurrency, name="collate")
    with builder.add_sink(4).build(num_threads=num_threads).auto_stop() as pipeline:
        for _ in pipeline:
            pass


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
