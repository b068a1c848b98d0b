"""Two ranks that meet in each step. The data of rank 1 are slow, so rank 0 waits for rank 1, and not for its data."""

import os
import time

import torch
import torch.distributed as dist
from _training import train

from spdl.pipeline import PipelineBuilder

PLANTED = {
    "tool": "why",
    "kinds": {"I/O": "Rank 1 waits for its own requests."},
    "rank": "1",
    "others": {"slow consumer": "Rank 0 has its data: its loop waits for rank 1 in a collective."},
    "remedies": {"I/O": {"CONCURRENCY": "{concurrency}", "THREADS": "{num_threads}"}},
}


def fetch(number):
    time.sleep(0.03 if dist.get_rank() else 0.001)
    return number


def run_rank(rank, done):
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}
    dist.init_process_group("gloo", rank=rank, world_size=2)
    pipeline = (
        PipelineBuilder()
        .add_source(range(1_000_000))
        .pipe(fetch, concurrency=int(os.environ.get("CONCURRENCY", "2")))
        .add_sink(4)
        .build(num_threads=int(os.environ.get("THREADS", "2")))
    )
    weights = torch.zeros(1000)

    def step(sample):
        time.sleep(0.004)
        dist.all_reduce(weights)

    with pipeline.auto_stop():
        train(pipeline, step)
        done.set()
        time.sleep(60)  # Both ranks end with the process that has started them, so that none is alone in a collective.


if __name__ == "__main__":
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(20_000 + os.getpid() % 20_000), "WORLD_SIZE": "2"}
    context = torch.multiprocessing.get_context("spawn")
    done = context.Event()
    for rank in range(2):
        context.Process(target=run_rank, args=(rank, done), daemon=True).start()
    done.wait()
