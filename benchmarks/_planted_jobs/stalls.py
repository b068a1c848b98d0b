"""An item in fifty takes a hundred times as long, as on a machine that swaps."""

import random
import time

import torch
from _training import train
from torch.utils.data import DataLoader

PLANTED = {
    "tool": "advise",
    "kinds": {
        "I/O": "Items sleep for nearly all of their time, the slow ones for two thirds of it.",
        "held back by order": "While one worker stalls, the other one gets ahead, and its batches wait.",
    },
}


class Swapped:
    def __init__(self):
        self.slow = set(random.Random(0).sample(range(1000), 20))

    def __len__(self):
        return 1000

    def __getitem__(self, index):
        time.sleep(0.2 if index in self.slow else 0.002)
        return torch.full((64,), float(index))


if __name__ == "__main__":
    train(DataLoader(Swapped(), batch_size=4, num_workers=2), torch.sum)
