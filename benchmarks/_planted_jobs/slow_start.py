"""Short epochs whose workers are spawned: each imports PyTorch anew, for far longer than it works."""

import time

import torch
from _training import train_epochs
from torch.utils.data import DataLoader

PLANTED = {
    "tool": "advise",
    "kinds": {
        "start": "An epoch of a second or so begins with an import of seconds, and its steps hardly wait.",
    },
}


class Samples:
    def __len__(self):
        return 160

    def __getitem__(self, index):
        time.sleep(0.004)
        return torch.full((64,), float(index))


if __name__ == "__main__":
    loader = DataLoader(Samples(), batch_size=4, num_workers=2, multiprocessing_context="spawn")
    train_epochs(loader, lambda batch: time.sleep(0.025), epochs=2)
