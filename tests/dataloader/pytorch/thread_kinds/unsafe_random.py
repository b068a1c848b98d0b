"""Generators of random numbers that a dataset holds."""
# mypy: ignore-errors

import functools
import random

import numpy as np
import torch
from tests.dataloader.pytorch.thread_kinds.helpers import Compose, Indices
from tests.dataloader.pytorch.thread_kinds.registry import SIZE, unsafe


class Augmented(Indices):
    """Draws with a generator of its own."""

    def __init__(self, generator, draw):
        self.generator = generator
        self.draw = draw

    def __getitem__(self, idx):
        return self.draw(self.generator, idx)


@unsafe()
def python_generator(folder):
    return {"dataset": Augmented(random.Random(1), lambda generator, idx: idx + generator.random())}


@unsafe()
def numpy_generator(folder):
    return {"dataset": Augmented(np.random.default_rng(1), lambda generator, idx: generator.normal(size=3) + idx)}


@unsafe()
def numpy_random_state(folder):
    return {"dataset": Augmented(np.random.RandomState(1), lambda generator, idx: generator.permutation(5))}


@unsafe()
def torch_generator(folder):
    generator = torch.Generator().manual_seed(1)
    return {"dataset": Augmented(generator, lambda generator, idx: torch.rand(3, generator=generator) + idx)}


class Reseeded(Indices):
    """Seeds its own generator for each item."""

    def __init__(self):
        self.generator = torch.Generator()

    def __getitem__(self, idx):
        self.generator.manual_seed(idx)
        return torch.randperm(100, generator=self.generator)[:3]


@unsafe()
def torch_generator_seeded_per_item(folder):
    return {"dataset": Reseeded()}


class ReseededPython(Reseeded):
    """Seeds Python's."""

    def __init__(self):
        self.generator = random.Random()

    def __getitem__(self, idx):
        self.generator.seed(idx)
        return [self.generator.gauss(0, 1) for _ in range(3)]


@unsafe()
def python_generator_seeded_per_item(folder):
    return {"dataset": ReseededPython()}


@unsafe()
def bound_method_of_a_generator(folder):
    return {"dataset": Augmented(random.Random(3).random, lambda draw, idx: (idx, draw()))}


@unsafe()
def partial_of_a_generator(folder):
    noise = functools.partial(np.random.default_rng(3).normal, 0, 1)
    return {"dataset": Augmented(noise, lambda draw, idx: idx + draw())}


_rng = np.random.default_rng(5)


def jitter(image):
    return image + _rng.integers(0, 10, image.shape)


@unsafe()
def generator_in_a_global(folder):
    return {"dataset": Augmented(np.zeros((SIZE, 3), np.int64), lambda images, idx: jitter(images[idx]))}


class Mixup:
    """Mixes a batch with itself, by a generator of its own."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)

    def __call__(self, batch):
        weight = float(self.rng.beta(1, 1))
        stacked = torch.tensor(batch, dtype=torch.float64)
        return weight * stacked + (1 - weight) * stacked.flip(0)


@unsafe()
def collate_with_a_generator(folder):
    return {"dataset": list(range(SIZE)), "collate_fn": Mixup(3)}


class RandomFlip:
    """Flips half of the images."""

    def __init__(self, p=0.5, seed=0):
        self.p = p
        self.rng = random.Random(seed)

    def __call__(self, image):
        return image[::-1].copy() if self.rng.random() < self.p else image


class Images(Indices):
    """Has images and a transform."""

    def __init__(self, transform):
        self.images = np.arange(SIZE * 4).reshape(SIZE, 4)
        self.transform = transform

    def __getitem__(self, idx):
        return self.transform(self.images[idx])


@unsafe()
def generator_in_a_composed_transform(folder):
    return {"dataset": Images(Compose([RandomFlip(), RandomFlip(seed=1)]))}


class GlobalFlip(RandomFlip):
    """Flips by Python's own generator."""

    def __call__(self, image):
        return image[::-1].copy() if random.random() < self.p else image


@unsafe()
def transform_with_the_global_generator(folder):
    return {"dataset": Images(Compose([GlobalFlip()]))}
