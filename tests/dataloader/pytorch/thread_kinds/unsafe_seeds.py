"""Random numbers from the generators of the process."""
# mypy: ignore-errors

import random

import numpy as np
import torch
from tests.dataloader.pytorch.thread_kinds.helpers import Indices
from tests.dataloader.pytorch.thread_kinds.registry import unsafe


class SeededPython(Indices):
    """Seeds Python's generator for the item."""

    def __getitem__(self, idx):
        random.seed(idx)
        return [random.random() for _ in range(3)]


@unsafe()
def random_seed(folder):
    return {"dataset": SeededPython()}


class SeededNumpy(Indices):
    """Seeds numpy's generator for the item."""

    def __getitem__(self, idx):
        np.random.seed(idx)
        return np.random.rand(3) + np.random.randint(5)


@unsafe()
def numpy_random_seed(folder):
    return {"dataset": SeededNumpy()}


class SeededTorch(Indices):
    """Seeds torch's generator for the item."""

    def __getitem__(self, idx):
        torch.manual_seed(idx)
        return torch.rand(3) + torch.randint(5, (3,))


@unsafe()
def torch_manual_seed(folder):
    return {"dataset": SeededTorch()}


class Restored(Indices):
    """Seeds for the item, and restores the state."""

    def __getitem__(self, idx):
        state = torch.get_rng_state()
        python = random.getstate()
        torch.manual_seed(idx)
        random.setstate(random.Random(idx).getstate())
        drawn = torch.rand(1).item(), random.random()
        torch.set_rng_state(state)
        random.setstate(python)
        return drawn


@unsafe()
def random_state_that_is_restored(folder):
    return {"dataset": Restored()}


class Forked(Indices):
    """Draws in torch's own block for this."""

    def __getitem__(self, idx):
        with torch.random.fork_rng():
            torch.manual_seed(idx)
            return torch.rand(2)


@unsafe()
def torch_fork_rng(folder):
    return {"dataset": Forked()}


class Drawing(Indices):
    """Draws from Python's generator, which PyTorch seeds for each worker."""

    def __getitem__(self, idx):
        return random.random() < 0.5, random.randint(0, 100), random.choice("abc")


@unsafe()
def random_unseeded(folder):
    return {"dataset": Drawing()}


class DrawingNumpy(Indices):
    """Draws from numpy's generator, which PyTorch seeds for each worker."""

    def __getitem__(self, idx):
        return np.random.rand(2) + idx, np.random.permutation(4)


@unsafe()
def numpy_random_unseeded(folder):
    return {"dataset": DrawingNumpy()}


class DrawingTorch(Indices):
    """Draws from torch's generator, which PyTorch seeds for each worker."""

    def __getitem__(self, idx):
        image = torch.full((2, 3), float(idx))
        if torch.rand(1) < 0.5:
            image = image.flip(-1)
        return image + torch.randn_like(image)


@unsafe()
def torch_random_unseeded(folder):
    return {"dataset": DrawingTorch()}
