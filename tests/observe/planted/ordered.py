"""Keeps the order, though one item in forty takes long."""

import sys
import time

from spdl.pipeline import PipelineBuilder


def fetch(number: int) -> int:
    time.sleep(0.4 if number % 40 == 0 else 0.005)
    return number


def main(completion: int = 0) -> None:
    builder = PipelineBuilder().add_source(range(10**9))
    builder.pipe(fetch, concurrency=4, name="fetch", output_order="completion" if completion else "input")
    with builder.add_sink(4).build(num_threads=4).auto_stop() as pipeline:
        for _ in pipeline:
            pass


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
