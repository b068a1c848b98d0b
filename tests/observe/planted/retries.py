"""Asks a server that refuses two of three requests."""

import itertools
import sys
import time

from spdl.pipeline import PipelineBuilder

REQUESTS = itertools.count()


class Server:
    def __init__(self, refuses: int) -> None:
        self.refuses = refuses

    def __call__(self, number: int) -> int:
        time.sleep(0.02)
        if self.refuses and next(REQUESTS) % 3:
            raise ConnectionError("try again")
        return number


def main(refuses: int = 1) -> None:
    builder = PipelineBuilder().add_source(range(10**9))
    builder.pipe(Server(refuses), concurrency=2, name="ask", retries=20, retry_delay=0.005)
    with builder.add_sink(4).build(num_threads=2).auto_stop() as pipeline:
        for _ in pipeline:
            pass


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
