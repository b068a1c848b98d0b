"""A stage that computes, beside another job that keeps all cores in use, so that nothing here is at fault."""

import hashlib
import multiprocessing
import os

from _training import train

from spdl.pipeline import PipelineBuilder

PLANTED = {
    "tool": "why",
    "kinds": {
        "CPU": "The stage computes, and shares the cores with the other job.",
        "none": "No part of this pipeline is what limits it: the other job has the cores.",
    },
    "remedies": {"CPU": {"CONCURRENCY": "{concurrency}", "THREADS": "{num_threads}"}},
}


def compute(number):
    return hashlib.pbkdf2_hmac("sha256", b"sample", number.to_bytes(4, "big"), 10_000)


def other_job():
    parent = os.getppid()
    while os.getppid() == parent:
        compute(0)


if __name__ == "__main__":
    for _ in range(len(os.sched_getaffinity(0))):
        multiprocessing.Process(target=other_job, daemon=True).start()
    pipeline = (
        PipelineBuilder()
        .add_source(range(1_000_000))
        .pipe(compute, concurrency=int(os.environ.get("CONCURRENCY", "2")))
        .add_sink(4)
        .build(num_threads=int(os.environ.get("THREADS", "2")))
    )
    with pipeline.auto_stop():
        train(pipeline, lambda digest: None)
