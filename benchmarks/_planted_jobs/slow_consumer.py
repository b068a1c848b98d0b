"""A step that takes longer than its batch, as on a busy accelerator: no loader makes it faster."""

import time

import torch
from _training import train
from torch.utils.data import DataLoader

PLANTED = {
    "tool": "advise",
    "kinds": {
        "slow consumer": "Two workers make a batch in 8 ms, and a step takes 25 ms.",
    },
}


class Samples:
    def __len__(self):
        return 400

    def __getitem__(self, index):
        time.sleep(0.004)
        return torch.full((64,), float(index))


if __name__ == "__main__":
    train(DataLoader(Samples(), batch_size=4, num_workers=2), lambda batch: time.sleep(0.025))
