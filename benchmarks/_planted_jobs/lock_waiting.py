"""A client that sends one request at a time: each worker process has one of its own, and threads take turns at one."""

import threading
import time

import torch
from _training import train
from torch.utils.data import DataLoader

PLANTED = {
    "tool": "advise",
    "kinds": {
        "I/O": "An item waits for the answer to a request, and computes next to nothing.",
    },
}


class Rows:
    def __init__(self):
        self.connection = threading.Lock()

    def __len__(self):
        return 960

    def __getitem__(self, index):
        with self.connection:
            time.sleep(0.004)
        return torch.full((16,), float(index))


if __name__ == "__main__":
    loader = DataLoader(Rows(), batch_size=4, num_workers=2)
    train(loader, torch.sum)
