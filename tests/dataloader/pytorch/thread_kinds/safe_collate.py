"""Functions that make batches."""
# mypy: ignore-errors

from collections import defaultdict
from functools import partial
from operator import itemgetter

import numpy as np
import torch
from tests.dataloader.pytorch.thread_kinds.helpers import Indices
from tests.dataloader.pytorch.thread_kinds.registry import SIZE, safe
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset, TensorDataset, default_collate

SEQUENCES = [torch.arange(idx % 5 + 1) for idx in range(SIZE)]


@safe()
def lambda_collate(folder):
    return {"dataset": list(range(SIZE)), "collate_fn": lambda batch: torch.tensor(batch) * 2}


@safe()
def identity(folder):
    return {"dataset": [{"a": idx} for idx in range(SIZE)], "collate_fn": lambda batch: batch}


@safe()
def builtin_collate(folder):
    return {"dataset": list(range(SIZE)), "collate_fn": sum}


def pad(batch, value):
    longest = max(map(len, batch))
    out = torch.full((len(batch), longest), value)
    for row, item in zip(out, batch):
        row[: len(item)] = item
    return out, torch.tensor([len(item) for item in batch])


@safe()
def partial_collate(folder):
    return {"dataset": SEQUENCES, "collate_fn": partial(pad, value=-1)}


@safe()
def pad_sequence_collate(folder):
    return {"dataset": SEQUENCES, "collate_fn": partial(pad_sequence, batch_first=True)}


def collate_with_default(batch):
    images, boxes = zip(*batch)
    return default_collate(images), list(boxes)


@safe()
def default_collate_in_a_collate(folder):
    return {
        "dataset": [(torch.full((2,), idx), [[idx, idx + 1]] * (idx % 3)) for idx in range(SIZE)],
        "collate_fn": collate_with_default,
    }


def collate_without_missing(batch):
    batch = [item for item in batch if item is not None]
    return torch.utils.data.dataloader.default_collate(batch)


class WithMissing(Indices):
    """Has no item for some indices."""

    def __getitem__(self, idx):
        if idx % 5 == 3:
            return None
        return np.float32(idx)


@safe()
def items_that_are_missing(folder):
    return {"dataset": WithMissing(), "collate_fn": collate_without_missing}


class Collator:
    """Sorts a batch by length, and pads it."""

    def __init__(self, key=len, multiple=4):
        self.key = key
        self.multiple = multiple

    def _length(self, batch):
        longest = max(self.key(item) for item in batch)
        return -(-longest // self.multiple) * self.multiple

    def __call__(self, batch):
        batch = sorted(batch, key=self.key, reverse=True)
        length = self._length(batch)
        padded = [torch.nn.functional.pad(item, (0, length - len(item))) for item in batch]
        return torch.stack(padded)


@safe()
def callable_object(folder):
    return {"dataset": SEQUENCES, "collate_fn": Collator()}


class WithCollate(Dataset):
    """Has its collate function as a method, as YOLO does."""

    def __init__(self):
        self.labels = [np.full((idx % 3, 2), idx, np.float32) for idx in range(SIZE)]

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        labels = self.labels[index]
        out = torch.zeros((len(labels), 3))
        if len(labels):
            out[:, 1:] = torch.from_numpy(labels)
        return torch.full((3,), index), out

    @staticmethod
    def collate_fn(batch):
        images, labels = zip(*batch)
        for number, label in enumerate(labels):
            label[:, 0] = number
        return torch.stack(images, 0), torch.cat(labels, 0)


@safe()
def static_method(folder):
    return {"dataset": WithCollate(), "collate_fn": WithCollate.collate_fn}


def make_collate(keys, dtype):
    def to_tensor(values):
        return torch.tensor(values, dtype=dtype)

    def collate(batch):
        return {key: to_tensor([item[key] for item in batch]) for key in keys}

    return collate


@safe()
def nested_functions(folder):
    return {
        "dataset": [{"x": idx, "y": idx / 2, "z": "unused"} for idx in range(SIZE)],
        "collate_fn": make_collate(["x", "y"], torch.float64),
    }


def collate_groups(batch):
    groups = defaultdict(list)
    for item in batch:
        for key, value in item.items():
            groups[key].append(value)
    return {key: np.stack(values) if key == "box" else values for key, values in groups.items()}


@safe()
def groups_made_in_the_call(folder):
    return {
        "dataset": [{"box": np.arange(4) + idx, "id": idx} for idx in range(SIZE)],
        "collate_fn": collate_groups,
    }


def collate_graph(batch):
    nodes, edges, owner = [], [], []
    offset = 0
    for number, (features, pairs) in enumerate(batch):
        nodes.append(features)
        edges.append(pairs + offset)
        owner += [number] * len(features)
        offset += len(features)
    return torch.cat(nodes), torch.cat(edges, dim=1), torch.tensor(owner)


@safe()
def graphs(folder):
    graphs = [(torch.ones(idx % 3 + 1, 2) * idx, torch.zeros(2, idx % 4, dtype=torch.long)) for idx in range(SIZE)]
    return {"dataset": graphs, "collate_fn": collate_graph}


def collate_mixup(batch, alpha):
    weight = np.random.default_rng(len(batch)).beta(alpha, alpha)
    features = torch.stack([item[0] for item in batch]).float()
    return weight * features + (1 - weight) * features.flip(0)


@safe()
def mixed_batch(folder):
    return {
        "dataset": TensorDataset(torch.arange(SIZE * 2).reshape(SIZE, 2)),
        "collate_fn": partial(collate_mixup, alpha=0.4),
    }


@safe()
def itemgetter_in_a_collate(folder):
    first = itemgetter(0)
    return {
        "dataset": [(idx, "x") for idx in range(SIZE)],
        "collate_fn": lambda batch: torch.tensor([first(item) for item in batch]),
    }


class NoBatches(Dataset):
    """Makes whole batches by itself."""

    def __init__(self):
        self.data = torch.arange(SIZE * 4).reshape(SIZE, 4)

    def __len__(self):
        return SIZE // 4

    def __getitem__(self, idx):
        return self.data[idx * 4 : idx * 4 + 4]


@safe()
def batches_as_items(folder):
    return {"dataset": NoBatches(), "batch_size": None}
