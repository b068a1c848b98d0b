"""Train on what a dataset computes in Python, in the loop's own process."""

import hashlib
import random

import torch
from torch.utils.data import DataLoader


class Sums:
    def __len__(self) -> int:
        return 60

    def __getitem__(self, index: int) -> torch.Tensor:
        total = index
        for number in range(40_000):
            total = (total * 31 + number) % 65_521
        return torch.tensor(float(total))


def main() -> None:
    torch.manual_seed(0)
    random.seed(0)
    seen = hashlib.sha256()
    for epoch in range(2):
        for batch in DataLoader(Sums(), batch_size=2, shuffle=True, num_workers=0):
            seen.update(batch.numpy().tobytes())
        print(epoch, seen.hexdigest(), torch.rand(1).item(), random.random())


if __name__ == "__main__":
    main()
