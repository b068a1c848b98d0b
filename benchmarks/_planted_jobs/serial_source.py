"""A source that looks up each sample in a slow catalogue before it names it, with fast workers behind it."""

import os
import time

from _training import train

from spdl.pipeline import PipelineBuilder

PLANTED = {
    "tool": "why",
    "kinds": {"serial source": "The catalogue takes 8 ms for a name, one at a time; two workers need 2 ms."},
    "remedies": {"serial source": {"LOOK_UPS": "{concurrency}"}},
}


def look_up(number):
    time.sleep(0.008)
    return number


def load(number):
    time.sleep(0.004)
    return number


def samples():
    yield from map(look_up, range(1_000_000))


if __name__ == "__main__":
    if look_ups := int(os.environ.get("LOOK_UPS", "0")):
        builder = PipelineBuilder().add_source(range(1_000_000)).pipe(look_up, concurrency=look_ups)
    else:
        builder = PipelineBuilder().add_source(samples())
    pipeline = builder.pipe(load, concurrency=2).add_sink(4).build(num_threads=18)
    with pipeline.auto_stop():
        train(pipeline, lambda sample: time.sleep(0.001))
