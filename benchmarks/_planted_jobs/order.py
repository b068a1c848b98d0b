"""A stage that keeps the order, whose items take from 4 to 80 ms: finished ones wait for a slow one."""

import os
import time

from _training import train

from spdl.pipeline import PipelineBuilder

PLANTED = {
    "tool": "why",
    "kinds": {"held back by order": "Three of four slots hold a result while the fourth is at a slow item."},
    "remedies": {"held back by order": {"ORDER": "completion"}},
}


def fetch(number):
    time.sleep(0.08 if number % 8 == 0 else 0.004)
    return number


if __name__ == "__main__":
    pipeline = (
        PipelineBuilder()
        .add_source(range(1_000_000))
        .pipe(fetch, concurrency=4, output_order=os.environ.get("ORDER", "input"))
        .add_sink(4)
        .build(num_threads=4)
    )
    with pipeline.auto_stop():
        train(pipeline, lambda sample: time.sleep(0.001))
