"""A server that refuses two of three requests, each after 6 ms."""

import os
import time
from collections import Counter

from _training import train

from spdl.pipeline import PipelineBuilder

PLANTED = {
    "tool": "why",
    "kinds": {"retries": "Of the three requests that an item takes, two are in vain."},
    "remedies": {"retries": {"REFUSED": "0"}},
}

REFUSED = int(os.environ.get("REFUSED", "2"))
requests = Counter()


def ask(number):
    time.sleep(0.006)
    requests[number] += 1
    if requests[number] <= REFUSED:
        raise ConnectionRefusedError(number)
    return number


if __name__ == "__main__":
    pipeline = (
        PipelineBuilder()
        .add_source(range(1_000_000))
        .pipe(ask, concurrency=2, retries=3, retry_delay=0.001)
        .add_sink(4)
        .build(num_threads=2)
    )
    with pipeline.auto_stop():
        train(pipeline, lambda sample: time.sleep(0.001))
