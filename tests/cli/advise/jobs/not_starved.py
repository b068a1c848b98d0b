"""Train a model whose step takes far longer than loading a few numbers, and receiving them from a worker."""

import random

import torch
from torch.utils.data import DataLoader as Loader
from torch.utils.data import TensorDataset


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    random.seed(0)
    numbers = TensorDataset(torch.randn(400, 64), torch.randn(400, 1))
    model = torch.nn.Sequential(torch.nn.Linear(64, 1500), torch.nn.ReLU(), torch.nn.Linear(1500, 1))
    matrix = torch.randn(1600, 1600)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    loss = torch.zeros(())
    for epoch, loader in enumerate(2 * [Loader(numbers, 8, shuffle=True, num_workers=1)]):
        for inputs, targets in loader:
            loss = torch.nn.functional.mse_loss(model(inputs), targets) + 0 * (matrix @ matrix).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(epoch, loss.item().hex(), torch.rand(1).item(), random.random())


if __name__ == "__main__":
    main()
