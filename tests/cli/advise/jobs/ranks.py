"""Read a part of some numbers in each rank, and end without Python's exit."""

import os
import time

import torch
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def main() -> None:
    ranks, rank = int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"])
    numbers = torch.arange(300)
    loader = DataLoader(numbers, batch_size=2, sampler=DistributedSampler(numbers, ranks, rank), num_workers=1)
    for _ in loader:
        time.sleep(0.03)
    os._exit(0)


if __name__ == "__main__":
    main()
