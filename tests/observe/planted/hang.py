"""Takes a lock that is never given back."""

import threading
import time

from spdl.pipeline import PipelineBuilder

LOCK = threading.Lock()


def fetch(number: int) -> int:
    time.sleep(0.001)
    return number


def write(number: int) -> int:
    LOCK.acquire()
    time.sleep(0.002)
    if number != 100:
        LOCK.release()
    return number


def main() -> None:
    builder = PipelineBuilder().add_source(range(10**9)).pipe(fetch, concurrency=2, name="fetch")
    builder.pipe(write, concurrency=2, name="write")
    with builder.add_sink(4).build(num_threads=4).auto_stop() as pipeline:
        for _ in pipeline:
            pass


if __name__ == "__main__":
    main()
