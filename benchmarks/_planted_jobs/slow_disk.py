"""A disk that takes 15 ms until it answers, whoever asks it, and answers many at once."""

import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from _training import train
from torch.utils.data import DataLoader

PLANTED = {
    "tool": "advise",
    "kinds": {
        "I/O": "The disk is played by a sleep: the workers wait for nearly all of their time.",
    },
}


class Samples:
    def __init__(self, folder):
        self.files = []
        for number in range(64):
            self.files.append(folder / f"{number}.npy")
            np.save(self.files[-1], np.full(4096, number, np.float32))

    def __len__(self):
        return 512

    def __getitem__(self, index):
        time.sleep(0.015)
        return np.load(self.files[index % len(self.files)])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        loader = DataLoader(Samples(Path(folder)), batch_size=4, num_workers=2)
        train(loader, torch.sum)
