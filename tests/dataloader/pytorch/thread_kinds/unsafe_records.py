"""Items that change lists, dicts and records that the dataset holds."""
# mypy: ignore-errors

import dataclasses
import operator

import numpy as np
import torch
from tests.dataloader.pytorch.thread_kinds.helpers import Indices, Transformed
from tests.dataloader.pytorch.thread_kinds.registry import SIZE, unsafe
from torch.utils.data import Dataset, TensorDataset


class Tokens(Dataset):
    """Has sentences of tokens."""

    def __init__(self):
        self.tokens = [[5] * (idx % 4 + 1) for idx in range(SIZE)]

    def __len__(self):
        return len(self.tokens)


class EndToken(Tokens):
    """Appends the token for the end to the sentence that it holds."""

    def __getitem__(self, idx):
        tokens = self.tokens[idx]
        tokens += [2]
        return len(tokens)


@unsafe()
def list_that_grows(folder):
    return {"dataset": EndToken()}


class StartToken(Tokens):
    """Inserts a token at the start, and drops the last."""

    def __getitem__(self, idx):
        self.tokens[idx].insert(0, sum(self.tokens[idx]) % 100)
        self.tokens[idx].pop()
        return sum(self.tokens[idx])


@unsafe()
def list_insert_and_pop(folder):
    return {"dataset": StartToken()}


class Truncated(Tokens):
    """Deletes the first token while there is one."""

    def __getitem__(self, idx):
        tokens = self.tokens[idx]
        if len(tokens) > 1:
            del tokens[0]
        return len(tokens)


@unsafe()
def list_from_which_is_deleted(folder):
    return {"dataset": Truncated()}


class Sorted(Tokens):
    """Looks first, and sorts then."""

    def __init__(self):
        self.tokens = [[(7 * number + idx) % 11 for number in range(6)] for idx in range(SIZE)]

    def __getitem__(self, idx):
        first = self.tokens[idx][0]
        self.tokens[idx].sort()
        return first, self.tokens[idx][0]


@unsafe()
def list_sort(folder):
    return {"dataset": Sorted()}


class Popping(Indices):
    """Replaces the path in a record by what it names."""

    def __init__(self):
        self.samples = [{"path": f"{idx}.png", "label": idx} for idx in range(SIZE)]

    def __getitem__(self, idx):
        sample = self.samples[idx]
        path = sample.pop("path", "gone")
        return {"name": path, **sample}


@unsafe()
def dict_pop(folder):
    return {"dataset": Popping()}


class Updating(Popping):
    """Updates the record."""

    def __getitem__(self, idx):
        sample = self.samples[idx]
        sample.update(uses=sample.get("uses", 0) + 1)
        return sample["uses"]


@unsafe()
def dict_update(folder):
    return {"dataset": Updating()}


class Merging(Popping):
    """Merges into the record."""

    def __getitem__(self, idx):
        sample = self.samples[idx]
        label = sample["label"]
        sample |= {"label": label + 1}
        return label


@unsafe()
def dict_merged_into(folder):
    return {"dataset": Merging()}


class Defaults(Popping):
    """Sets what is missing, and adds to it."""

    def __getitem__(self, idx):
        uses = self.samples[idx].setdefault("uses", [])
        uses.append(1)
        return len(uses)


@unsafe()
def dict_setdefault(folder):
    return {"dataset": Defaults()}


@dataclasses.dataclass
class Sample:
    """A sample of a dataset."""

    box: np.ndarray
    uses: int = 0


class Samples(Indices):
    """Sets fields of samples."""

    def __init__(self):
        self.samples = [Sample(np.ones(4) * idx) for idx in range(SIZE)]

    def __getitem__(self, idx):
        sample = self.samples[idx]
        sample.box = sample.box + 1
        sample.uses += 1
        return sample.box, sample.uses


@unsafe()
def field_of_a_dataclass(folder):
    return {"dataset": Samples()}


def mirror(boxes):
    boxes[:, 0] = 1 - boxes[:, 0]
    boxes[:, 1] += 1
    return boxes


class Mirrored(Indices):
    """Hands what it holds to a function that changes it."""

    def __init__(self):
        self.boxes = [np.full((2, 2), idx, np.float32) for idx in range(SIZE)]

    def __getitem__(self, idx):
        return torch.as_tensor(mirror(self.boxes[idx])).clone()


@unsafe()
def function_that_changes_its_argument(folder):
    return {"dataset": Mirrored()}


@unsafe()
def tensor_dataset_with_a_collate_that_changes(folder):
    def collate(batch):
        for features, _ in batch:
            features *= 0.5
        return torch.stack([features for features, _ in batch])

    return {"dataset": TensorDataset(torch.ones(SIZE, 3), torch.arange(SIZE)), "collate_fn": collate}


@unsafe()
def list_whose_items_the_collate_changes(folder):
    def collate(batch):
        longest = max(len(tokens) for tokens in batch)
        for tokens in batch:
            tokens.extend([0] * (longest + 1 - len(tokens)))
        return torch.tensor([len(tokens) for tokens in batch])

    return {"dataset": [[1] * (idx % 5 + 1) for idx in range(SIZE)], "collate_fn": collate}


def add_with_operator(record):
    operator.iadd(record, [1])
    return len(record)


@unsafe()
def operator_iadd(folder):
    return {"dataset": Transformed([[0] for _ in range(SIZE)], add_with_operator)}


def set_with_operator(record):
    operator.setitem(record, "n", record["n"] + 1)
    return record["n"]


@unsafe()
def operator_setitem(folder):
    return {"dataset": Transformed([{"n": idx} for idx in range(SIZE)], set_with_operator)}


def append_unbound(record):
    list.append(record, 1)
    return len(record)


@unsafe()
def unbound_method(folder):
    return {"dataset": Transformed([[0] for _ in range(SIZE)], append_unbound)}


@unsafe()
def lambda_with_special_method(folder):
    return {"dataset": Transformed([np.ones(3) for _ in range(SIZE)], lambda record: record.__iadd__(1).sum())}
