"""Returns many objects from two processes, which this one unpickles one after the other."""

import sys

import numpy as np

from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import MAIN_PROCESS, ProcessPoolExecutorConfig

NUMBERS = np.arange(100_000, dtype=np.float64)
OBJECTS = [{"name": str(number), "values": NUMBERS[number : number + 20].tolist()} for number in range(5_000)]


def parse(_: int) -> object:
    return OBJECTS


def parse_into_arrays(_: int) -> object:
    return NUMBERS


def main(arrays: int = 0) -> None:
    builder = PipelineBuilder().add_source(range(10**9)).to(ProcessPoolExecutorConfig(2))
    builder.pipe(parse_into_arrays if arrays else parse, name="parse").to(MAIN_PROCESS)
    with builder.add_sink(4).build(num_threads=1).auto_stop() as pipeline:
        for _ in pipeline:
            pass


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
