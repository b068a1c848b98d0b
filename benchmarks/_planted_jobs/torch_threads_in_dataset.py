"""A network inside the dataset that asks for the threads of a large server, in each worker."""

import torch
from _training import train
from torch.utils.data import DataLoader

PLANTED = {
    "tool": "advise",
    "kinds": {
        "oversubscription": "Two workers with sixteen threads each want far more cores than there are.",
    },
}


class Features:
    def __init__(self):
        self.weights = torch.rand(256, 256, generator=torch.Generator().manual_seed(0))
        self.ready = False

    def __len__(self):
        return 1000

    def __getitem__(self, index):
        if not self.ready:
            torch.set_num_threads(16)
            self.ready = True
        values = torch.full((256, 256), index / 1000)
        for _ in range(4):
            values = torch.tanh(values @ self.weights / 16)
        return values[0]


if __name__ == "__main__":
    train(DataLoader(Features(), batch_size=4, num_workers=2), lambda batch: None)
