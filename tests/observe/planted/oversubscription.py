"""An op that is threaded itself, in four slots."""

import os
import sys
import zlib
from concurrent.futures import ThreadPoolExecutor

from spdl.pipeline import PipelineBuilder

PARTS = [os.urandom(100_000) for _ in range(8)]


class Filter:
    def __init__(self, threads: int) -> None:
        self.pool = ThreadPoolExecutor(threads)

    def __call__(self, _: int) -> int:
        return sum(self.pool.map(lambda part: len(zlib.compress(part, 6)), PARTS))


def main(concurrency: int = 4, threads_per_op: int = 8) -> None:
    builder = PipelineBuilder().add_source(range(10**9))
    builder.pipe(Filter(threads_per_op * concurrency), concurrency=concurrency, name="filter")
    with builder.add_sink(4).build(num_threads=4).auto_stop() as pipeline:
        for _ in pipeline:
            pass


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
