"""Eight threads that share one connection, and a lock that lets one of them use it at a time."""

import os
import threading
import time

from _training import train

from spdl.pipeline import PipelineBuilder

PLANTED = {
    "tool": "why",
    "kinds": {"lock": "Seven of eight threads wait for the lock, and the one that has it waits for the answer."},
    "remedies": {"lock": {"CONNECTIONS": "8"}},
}

connections = threading.Semaphore(int(os.environ.get("CONNECTIONS", "1")))


def ask(number):
    with connections:
        time.sleep(0.005)
    return number


if __name__ == "__main__":
    pipeline = PipelineBuilder().add_source(range(1_000_000)).pipe(ask, concurrency=8).add_sink(4).build(num_threads=8)
    with pipeline.auto_stop():
        train(pipeline, lambda sample: None)
