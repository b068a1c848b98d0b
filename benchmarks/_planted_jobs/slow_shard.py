"""Two shards that take turns, one of them on a slow server: one worker gets all of its batches, and the other rests."""

import time

import torch
from _training import train
from torch.utils.data import DataLoader

PLANTED = {
    "tool": "advise",
    "kinds": {
        "held back by order": "One worker is ahead, and the loop waits for the batch of the slow one.",
        "I/O": "The slow worker sleeps for nearly all of its time, and the loop waits for it.",
    },
}


class Shards:
    def __len__(self):
        return 800

    def __getitem__(self, index):
        slow = index // 4 % 2 == 0
        time.sleep(0.006 if slow else 0.0005)
        return torch.full((64,), float(index))


if __name__ == "__main__":
    train(DataLoader(Shards(), batch_size=4, num_workers=2), torch.sum)
