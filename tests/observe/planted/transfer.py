"""Copies to a device, in one slot."""

import sys
import time

from spdl.pipeline import PipelineBuilder


def fetch(number: int) -> int:
    time.sleep(0.016)
    return number


def transfer_to_device(number: int) -> int:
    # The driver waits for the copy.
    time.sleep(0.04)
    return number


def main(concurrency: int = 1, num_threads: int = 4) -> None:
    builder = PipelineBuilder().add_source(range(10**9)).pipe(fetch, concurrency=2, name="fetch")
    builder.pipe(transfer_to_device, concurrency=concurrency)
    with builder.add_sink(4).build(num_threads=num_threads).auto_stop() as pipeline:
        for _ in pipeline:
            pass


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
