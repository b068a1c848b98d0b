"""May keep only so many bytes that its slots stay free."""

import sys
import time

from spdl.pipeline import PipelineBuilder

SIZE = 1 << 20


def name(number: int) -> int:
    return number


def read(number: int) -> bytes:
    time.sleep(0.04)
    return bytes(SIZE)


def decode(item: bytes) -> bytes:
    time.sleep(0.01)
    return bytes(SIZE)


def main(max_bytes: int = 4 * SIZE) -> None:
    builder = PipelineBuilder().add_source(range(10**9)).pipe(name, name="name")
    builder.pipe(read, concurrency=10, name="read").pipe(decode, concurrency=4, name="decode")
    with builder.add_sink(4).build(num_threads=16, max_bytes=max_bytes).auto_stop() as pipeline:
        for _ in pipeline:
            pass


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
