"""A tokenizer in Python on four threads, which take turns at the GIL."""

import os

from _training import train

from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig

PLANTED = {
    "tool": "why",
    "kinds": {"GIL": "Each op holds the GIL for all of its time, and three of four threads wait for it."},
    "remedies": {"GIL": {"PROCESSES": "{processes}", "CONCURRENCY": "{concurrency}"}},
}

TEXT = "the loop waits for its data, and the data waits for nobody " * 200


def tokenize(number):
    word, last = 0, 0
    for letter in TEXT:
        if letter.isalpha():
            word = (word * 31 + ord(letter) + number) % 50_021
        elif word:
            last, word = word, 0
    return last


if __name__ == "__main__":
    concurrency = int(os.environ.get("CONCURRENCY", "4"))
    builder = PipelineBuilder().add_source(range(1_000_000))
    if processes := int(os.environ.get("PROCESSES", "0")):
        builder = builder.to(ProcessPoolExecutorConfig(processes)).pipe(tokenize, concurrency=concurrency)
        builder = builder.to(MAIN_PROCESS)
    else:
        builder = builder.pipe(tokenize, concurrency=concurrency)
    with builder.add_sink(4).build(num_threads=4).auto_stop() as pipeline:
        train(pipeline, lambda token: None)
