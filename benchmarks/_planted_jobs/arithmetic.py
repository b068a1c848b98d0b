"""NumPy's arithmetic on large arrays, which runs without the GIL, in the loop's own process."""

import numpy as np
import torch
from _training import train
from torch.utils.data import DataLoader

PLANTED = {
    "tool": "advise",
    "kinds": {
        "serial source": "The loop makes its batches itself, without workers, in most of its time.",
    },
}


class Spectra:
    def __init__(self):
        self.raw = np.random.default_rng(0).random(100_000, np.float32)

    def __len__(self):
        return 1000

    def __getitem__(self, index):
        values = self.raw
        for _ in range(16):
            values = np.sqrt(values * 0.5 + index) + np.sin(values)
        return values[:512]


if __name__ == "__main__":
    torch.set_num_threads(1)
    train(DataLoader(Spectra(), batch_size=2), torch.sum)
