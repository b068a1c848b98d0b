"""A library that is not safe in threads, so a lock is around it: it computes, and only one thread at a time."""

import hashlib
import threading

import numpy as np
import torch
from _training import train
from torch.utils.data import DataLoader

PLANTED = {
    "tool": "advise",
    "kinds": {
        "CPU": "An item is hashed, in one worker, which has no rival at its lock.",
    },
}


class Signatures:
    def __init__(self):
        self.lock = threading.Lock()
        self.bytes = np.random.default_rng(0).bytes(100_000)

    def __len__(self):
        return 1000

    def __getitem__(self, index):
        with self.lock:
            digest = hashlib.pbkdf2_hmac("sha256", self.bytes[:64], index.to_bytes(4, "big"), 20_000)
        return torch.frombuffer(bytearray(digest), dtype=torch.uint8)


if __name__ == "__main__":
    loader = DataLoader(Signatures(), batch_size=2, num_workers=1)
    train(loader, torch.sum)
