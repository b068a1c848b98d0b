"""Trains more slowly than it loads."""

import time

from spdl.pipeline import PipelineBuilder


def fetch(number: int) -> int:
    time.sleep(0.002)
    return number


def main() -> None:
    builder = PipelineBuilder().add_source(range(10**9)).pipe(fetch, concurrency=2, name="fetch")
    with builder.add_sink(4).build(num_threads=2).auto_stop() as pipeline:
        for _ in pipeline:
            time.sleep(0.02)


if __name__ == "__main__":
    main()
