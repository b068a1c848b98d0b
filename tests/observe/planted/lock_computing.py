"""Compresses without the GIL, but with a lock: one of four threads at a time."""

import sys
import threading
import zlib
from random import Random

from spdl.pipeline import PipelineBuilder

DATA = Random(0).randbytes(600_000)  # noqa: S311 - no secret.


def main(locks: int = 1) -> None:
    all_locks = [threading.Lock() for _ in range(locks)]

    def compress(number: int) -> int:
        with all_locks[number % locks]:
            return len(zlib.compress(DATA, 6))

    builder = PipelineBuilder().add_source(range(10**9)).pipe(compress, concurrency=4, name="compress")
    with builder.add_sink(4).build(num_threads=4).auto_stop() as pipeline:
        for _ in pipeline:
            pass


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
