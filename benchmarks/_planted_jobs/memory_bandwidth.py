"""Passes over arrays that no cache holds, in one thread: a second core helps as far as the memory keeps up."""

import os

import numpy as np
from _training import train

from spdl.pipeline import PipelineBuilder

PLANTED = {
    "tool": "why",
    "kinds": {"CPU": "NumPy's arithmetic keeps a core in use, without the GIL, whether it waits for memory or not."},
    "remedies": {"CPU": {"CONCURRENCY": "{concurrency}", "THREADS": "{num_threads}"}},
}

raw = np.random.default_rng(0).random((4, 8_000_000), np.float32)


def normalise(number):
    return (raw[number % len(raw)] * np.float32(0.5) + np.float32(number))[:1000].copy()


if __name__ == "__main__":
    pipeline = (
        PipelineBuilder()
        .add_source(range(1_000_000))
        .pipe(normalise, concurrency=int(os.environ.get("CONCURRENCY", "1")))
        .add_sink(4)
        .build(num_threads=int(os.environ.get("THREADS", "1")))
    )
    with pipeline.auto_stop():
        train(pipeline, lambda sample: None)
