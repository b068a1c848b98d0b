"""Transforms that remember, and modules of networks."""
# mypy: ignore-errors

import numpy as np
import torch
from tests.dataloader.pytorch.thread_kinds.helpers import Holding, Indices
from tests.dataloader.pytorch.thread_kinds.registry import SIZE, unsafe
from torch import nn
from torch.utils.data import Dataset


class PairedFlip:
    """Draws once for an image and its mask."""

    def __init__(self):
        self.flip = False

    def draw(self, idx):
        self.flip = idx % 3 == 0

    def __call__(self, image):
        return image[:, ::-1].copy() if self.flip else image


class Segmentation(Indices):
    """Flips an image and its mask alike."""

    def __init__(self):
        self.images = np.arange(SIZE * 6).reshape(SIZE, 2, 3)
        self.transform = PairedFlip()

    def __getitem__(self, idx):
        self.transform.draw(idx)
        image = self.transform(self.images[idx])
        mask = self.transform(self.images[idx] > 10)
        return image, mask


@unsafe()
def transform_that_remembers_its_draw(folder):
    return {"dataset": Segmentation()}


class Statistics:
    """Normalises by what it has seen so far."""

    def __init__(self):
        self.total = 0.0
        self.seen = 0

    def __call__(self, value):
        self.total += value
        self.seen += 1
        return value - self.total / self.seen


@unsafe()
def transform_with_running_statistics(folder):
    return {"dataset": Holding([Statistics(), Statistics()], lambda held, idx: held[idx % 2](float(idx)))}


class Networked(Indices):
    """Computes its items with a network."""

    def __init__(self, network):
        self.network = network

    def __getitem__(self, idx):
        with torch.no_grad():
            return self.network(torch.arange(6.0).reshape(2, 3) * (idx + 1)).clone()


@unsafe()
def batch_norm_in_training(folder):
    class Statistics(nn.BatchNorm1d):
        def forward(self, inputs):
            return super().forward(inputs) + self.running_mean

    return {"dataset": Networked(Statistics(3, momentum=0.5))}


@unsafe()
def dropout_in_training(folder):
    return {"dataset": Networked(nn.Dropout(0.5))}


@unsafe()
def network_with_a_hook(folder):
    network = nn.Identity()
    seen = []
    network.register_forward_hook(lambda module, args, output: (seen.append(1), output + len(seen))[1])
    return {"dataset": Networked(network)}


@unsafe()
def relu_module_in_place(folder):
    class Features(Dataset):
        def __init__(self):
            self.features = torch.linspace(-1, 1, SIZE * 4).reshape(SIZE, 4)
            self.relu = nn.ReLU(inplace=True)

        def __len__(self):
            return SIZE

        def __getitem__(self, idx):
            before = self.features[idx].sum()
            return before, self.relu(self.features[idx]).sum()

    return {"dataset": Features()}


class Recurrent(nn.Module):
    """Keeps its state from call to call."""

    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.zeros(3))

    def forward(self, inputs):
        self.state = self.state * 0.5 + inputs.mean(0)
        return self.state


@unsafe()
def network_that_keeps_its_state(folder):
    return {"dataset": Networked(Recurrent())}
