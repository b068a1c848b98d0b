"""Train a model whose step takes far longer than loading a few numbers, and receiving them from a worker."""

import random
import time

import torch
from torch.utils.data import DataLoader as Loader
from torch.utils.data import TensorDataset


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    random.seed(0)
    numbers = TensorDataset(torch.randn(240, 64), torch.randn(240, 1))
    model = torch.nn.Linear(64, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    loss = torch.zeros(())
    for epoch, loader in enumerate(2 * [Loader(numbers, 8, shuffle=True, num_workers=1)]):
        for inputs, targets in loader:
            loss = torch.nn.functional.mse_loss(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            # A large model on a GPU.
            time.sleep(0.1)
        print(epoch, loss.item().hex(), torch.rand(1).item(), random.random())


if __name__ == "__main__":
    main()
