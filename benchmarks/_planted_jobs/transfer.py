"""A copy to a device over a slow bus, one batch at a time: loading is faster."""

import os
import time

from _training import train

from spdl.pipeline import PipelineBuilder

PLANTED = {
    "tool": "why",
    "kinds": {"transfer": "Each copy holds the bus for 12 ms, and the two workers need 5 ms a batch."},
    "remedies": {"transfer": {"CONCURRENCY": "{concurrency}", "THREADS": "{num_threads}"}},
}


def load(number):
    time.sleep(0.01)
    return number


def copy_to_device(number):
    time.sleep(0.012)
    return number


if __name__ == "__main__":
    pipeline = (
        PipelineBuilder()
        .add_source(range(1_000_000))
        .pipe(load, concurrency=2)
        .pipe(copy_to_device, concurrency=int(os.environ.get("CONCURRENCY", "1")))
        .add_sink(4)
        .build(num_threads=int(os.environ.get("THREADS", "3")))
    )
    with pipeline.auto_stop():
        train(pipeline, lambda batch: time.sleep(0.002))
