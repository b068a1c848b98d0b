"""A network that trains on the threads of a large server, on few cores: the step is slow, and the data is there."""

import torch
from _training import train
from torch.utils.data import DataLoader

PLANTED = {
    "tool": "advise",
    "kinds": {
        "slow consumer": "An item is made in no time; the step fights with itself for the cores.",
    },
}


class Vectors:
    def __len__(self):
        return 20_000

    def __getitem__(self, index):
        return torch.full((512,), index / 1000)


if __name__ == "__main__":
    torch.set_num_threads(16)
    model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(6)])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def step(batch):
        loss = model(batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    train(DataLoader(Vectors(), batch_size=32, num_workers=1), step)
