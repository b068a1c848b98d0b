"""Asks a connection that only one thread may use at a time, in eight slots."""

import sys
import threading
import time

from spdl.pipeline import PipelineBuilder


def main(connections: int = 1) -> None:
    locks = [threading.Lock() for _ in range(connections)]

    def look_up(number: int) -> int:
        with locks[number % connections]:
            time.sleep(0.01)
        return number

    builder = PipelineBuilder().add_source(range(10**9)).pipe(look_up, concurrency=8, name="look_up")
    with builder.add_sink(4).build(num_threads=8).auto_stop() as pipeline:
        for _ in pipeline:
            pass


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
