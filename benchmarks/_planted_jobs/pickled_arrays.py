"""Batches that are lists of large arrays, which PyTorch's workers pickle, write into a pipe and read out of it."""

import time

import numpy as np
from _training import train
from torch.utils.data import DataLoader

PLANTED = {
    "tool": "advise",
    "kinds": {
        "pickling": "An item is a view of what is there, so that nearly all of the work is to send and to read it.",
    },
}


class Volumes:
    def __init__(self):
        self.volumes = np.random.default_rng(0).random((8, 750_000), np.float32)

    def __len__(self):
        return 960

    def __getitem__(self, index):
        return self.volumes[index % len(self.volumes)]


if __name__ == "__main__":
    loader = DataLoader(Volumes(), batch_size=4, num_workers=2, collate_fn=list)
    train(loader, lambda batch: time.sleep(0.005))
