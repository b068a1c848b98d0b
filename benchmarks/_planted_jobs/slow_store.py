"""A ready-made loader whose function waits for a store, on two threads."""

import os
import time

from _training import train

from spdl.dataloader import DataLoader

PLANTED = {
    "tool": "why",
    "kinds": {"I/O": "Its threads are at the store all the time, and compute next to nothing."},
    "remedies": {"I/O": {"THREADS": "{num_threads}"}},
}


def fetch(number):
    time.sleep(0.02)
    return number


if __name__ == "__main__":
    threads = int(os.environ.get("THREADS", "2"))
    loader = DataLoader(range(2000), preprocessor=fetch, batch_size=4, num_threads=threads)
    train(loader, lambda batch: time.sleep(0.01))
