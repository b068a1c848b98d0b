"""Compresses without the GIL, in one slot."""

import os
import sys
import zlib

from spdl.pipeline import PipelineBuilder

DATA = os.urandom(200_000)


def read(_: int) -> bytes:
    return DATA


def compress(data: bytes) -> int:
    return len(zlib.compress(data, 6))


def main(concurrency: int = 1) -> None:
    builder = PipelineBuilder().add_source(range(10**9)).pipe(read, name="read")
    builder.pipe(compress, concurrency=concurrency, name="compress")
    with builder.add_sink(4).build(num_threads=4).auto_stop() as pipeline:
        for _ in pipeline:
            pass


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
