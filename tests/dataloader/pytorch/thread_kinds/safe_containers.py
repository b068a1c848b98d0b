"""Items that lie in lists, dicts, records and tensors, and are read."""
# mypy: ignore-errors

import enum
import logging
import math
from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import asdict, dataclass, field

import numpy as np
import torch
from tests.dataloader.pytorch.thread_kinds.helpers import Compose, Indices
from tests.dataloader.pytorch.thread_kinds.registry import SIZE, safe
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset, random_split

logger = logging.getLogger(__name__)


@safe()
def list_of_numbers(folder):
    return {"dataset": list(range(SIZE))}


@safe()
def range_of_numbers(folder):
    return {"dataset": range(SIZE)}


@safe()
def tuple_of_tensors(folder):
    return {"dataset": tuple(torch.full((3,), idx) for idx in range(SIZE))}


@safe()
def dict_by_index(folder):
    return {"dataset": {idx: f"item {idx}" for idx in range(SIZE)}}


@safe()
def array(folder):
    return {"dataset": np.arange(SIZE * 3).reshape(SIZE, 3)}


@safe()
def tensor(folder):
    return {"dataset": torch.arange(SIZE * 3).reshape(SIZE, 3), "shuffle": True}


@safe()
def list_of_dicts(folder):
    return {"dataset": [{"name": f"n{idx}", "label": idx, "box": [0.5, idx]} for idx in range(SIZE)]}


@safe()
def tensor_dataset(folder):
    return {"dataset": TensorDataset(torch.arange(SIZE * 2.0).reshape(SIZE, 2), torch.arange(SIZE)), "shuffle": True}


@safe()
def subset(folder):
    return {"dataset": Subset(TensorDataset(torch.arange(100)), list(range(10, 10 + SIZE)))}


@safe()
def concatenation(folder):
    return {"dataset": ConcatDataset([TensorDataset(torch.arange(10)), TensorDataset(torch.arange(14) * 2)])}


@safe()
def random_splits(folder):
    parts = random_split(TensorDataset(torch.arange(30)), [24, 6], torch.Generator().manual_seed(0))
    return {"dataset": parts[0]}


class Squares(Indices):
    """Computes from the index."""

    def __getitem__(self, idx):
        return idx, idx**2


@safe()
def computed(folder):
    return {"dataset": Squares()}


class Checked(Squares):
    """Raises for wrong indices, and catches an error."""

    def __getitem__(self, idx):
        if idx < 0 or idx >= len(self):
            raise IndexError(f"index {idx} is out of range")
        try:
            value = 10 / (idx % 3)
        except ZeroDivisionError:
            value = float("inf")
        finally:
            name = f"{idx:04d}"
        return {"value": value, "name": name, "root": math.sqrt(idx)}


@safe()
def errors_that_are_caught(folder):
    return {"dataset": Checked()}


class WithSuper(Squares):
    """Calls its base."""

    def __init__(self, offset):
        super().__init__()
        self.offset = offset

    def __getitem__(self, idx):
        index, square = super().__getitem__(idx)
        return index + self.offset, square


@safe()
def base_class(folder):
    return {"dataset": WithSuper(5)}


class Methods(Squares):
    """Has static methods, class methods and properties that read."""

    scale = 3
    names = ["a", "b", "c"]

    @staticmethod
    def double(number):
        return 2 * number

    @classmethod
    def scaled(cls, number):
        return cls.scale * number

    @property
    def total(self):
        return sum(range(len(self)))

    def __getitem__(self, idx):
        return self.double(idx), self.scaled(idx), self.total, self.names[idx % len(self.names)]


@safe()
def methods_and_properties(folder):
    return {"dataset": Methods()}


@dataclass
class Sample:
    """A sample."""

    path: str
    label: int
    tags: list = field(default_factory=list)

    @property
    def name(self):
        return f"{self.path}:{self.label}"


class Samples(Dataset):
    """Reads dataclasses."""

    def __init__(self):
        self.samples = [Sample(f"{idx}.png", idx % 3, ["x"] * (idx % 2)) for idx in range(SIZE)]

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, idx):
        sample = self.samples[idx]
        return sample.name, sample.label, len(sample.tags)


@safe()
def dataclasses(folder):
    return {"dataset": Samples()}


@dataclass(frozen=True)
class Config:
    """Settings."""

    size: int = 4
    mean: tuple = (0.5, 0.25)


class Configured(Indices):
    """Has settings in a frozen dataclass, and makes new ones."""

    def __init__(self, config):
        self.config = config

    def __getitem__(self, idx):
        return torch.full((self.config.size,), idx) - self.config.mean[idx % 2], asdict(Sample("x", idx))["label"]


@safe()
def settings(folder):
    return {"dataset": Configured(Config())}


Row = namedtuple("Row", ["name", "values"])


class Rows(Dataset):
    """Has named tuples, and makes one for each item."""

    def __init__(self):
        self.rows = [Row(f"row {idx}", (idx, idx + 1)) for idx in range(SIZE)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, idx):
        row = self.rows[idx]
        return Row(name=row.name.upper(), values=sum(row.values))


@safe()
def named_tuples(folder):
    return {"dataset": Rows()}


class Animal(enum.Enum):
    """Classes."""

    CAT = 0
    DOG = 1
    BIRD = 2


class Labelled(Dataset):
    """Turns names into numbers of an enumeration."""

    def __init__(self):
        self.names = ["CAT", "DOG", "BIRD"] * 8

    def __len__(self):
        return len(self.names)

    def __getitem__(self, idx):
        label = Animal[self.names[idx]]
        return label.value, label.name.lower(), Animal(idx % 3) is label


@safe()
def enumeration(folder):
    return {"dataset": Labelled()}


class LocalLists(Dataset):
    """Builds lists, dicts and sets in the call."""

    def __init__(self):
        self.groups = [[number for number in range(idx)] for idx in range(SIZE)]

    def __len__(self):
        return len(self.groups)

    def __getitem__(self, idx):
        even, odd = [], []
        sizes = {}
        for number in self.groups[idx]:
            (even if number % 2 == 0 else odd).append(number)
            sizes[number % 3] = sizes.get(number % 3, 0) + 1
        even.sort(reverse=True)
        odd.extend([7, 8])
        counts = defaultdict(int)
        for number in odd:
            counts[number] += 1
        return {"even": sum(even), "odd": len(odd), "sizes": sorted(sizes.items())[:1], "most": max(counts.values())}


@safe()
def lists_made_in_the_call(folder):
    return {"dataset": LocalLists(), "collate_fn": list}


class Comprehensions(Dataset):
    """Uses comprehensions, generators, zip and sorted."""

    def __init__(self):
        self.table = [[(row * 3 + column * 5) % 7 for column in range(4)] for row in range(SIZE)]
        self.names = "abcd"

    def __len__(self):
        return len(self.table)

    def __getitem__(self, idx):
        row = self.table[idx]
        named = {name: value for name, value in zip(self.names, row)}
        best = max(named, key=named.get)
        order = sorted(range(len(row)), key=lambda column: (row[column], column))
        return best, order, sum(value for value in row if value > 2), any(value == 0 for value in row), [*map(abs, row)]


@safe()
def comprehensions(folder):
    return {"dataset": Comprehensions()}


class DictCopies(Dataset):
    """Copies a record, and changes the copy."""

    def __init__(self):
        self.records = [{"label": idx, "name": f"r{idx}"} for idx in range(SIZE)]

    def __len__(self):
        return len(self.records)

    def __getitem__(self, idx):
        record = dict(self.records[idx])
        record["label"] += 1
        record.update(index=idx)
        record.pop("name")
        return record


@safe()
def copies_of_dicts(folder):
    return {"dataset": DictCopies()}


class ListCopies(Dataset):
    """Copies a list, and changes the copy."""

    def __init__(self):
        self.tokens = [[3] * (idx % 4 + 1) for idx in range(SIZE)]

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, idx):
        tokens = [1] + self.tokens[idx] + [2]
        tokens += [0] * (8 - len(tokens))
        return torch.tensor(tokens)


@safe()
def copies_of_lists(folder):
    return {"dataset": ListCopies()}


class Logging(Dataset):
    """Logs while it loads."""

    def __init__(self):
        self.data = OrderedDict((idx, idx / 2) for idx in range(SIZE))

    def __len__(self):
        return len(self.data)

    def __getitem__(self, idx):
        logger.debug("loads item %d", idx)
        return self.data[idx]


@safe()
def logging_calls(folder):
    return {"dataset": Logging()}


class InBatches(Dataset):
    """Loads a batch in one call."""

    def __init__(self):
        self.numbers = np.arange(SIZE) * 3

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, idx):
        return int(self.numbers[idx])

    def __getitems__(self, indices):
        return self.numbers[np.asarray(indices)].tolist()


@safe()
def batch_in_one_call(folder):
    return {"dataset": InBatches(), "shuffle": True}


class Wrapped(Dataset):
    """Applies a transform to another dataset's items."""

    def __init__(self, dataset, transform=None, target_transform=None):
        self.dataset = dataset
        self.transform = transform
        self.target_transform = target_transform

    def __len__(self):
        return len(self.dataset)

    def __getitem__(self, idx):
        image, label = self.dataset[idx]
        if self.transform is not None:
            image = self.transform(image)
        if self.target_transform is not None:
            label = self.target_transform(label)
        return image, label


@safe()
def wrapped_dataset_with_lambdas(folder):
    inner = TensorDataset(torch.arange(SIZE * 4.0).reshape(SIZE, 4), torch.arange(SIZE))
    return {
        "dataset": Wrapped(Subset(inner, range(20)), lambda image: image / 255 - 0.5, lambda label: int(label) % 10)
    }


class Scale:
    """Is a transform with settings."""

    def __init__(self, factor):
        self.factor = factor

    def __call__(self, image):
        return image * self.factor


@safe()
def composed_transforms(folder):
    inner = TensorDataset(torch.arange(SIZE * 4.0).reshape(SIZE, 4), torch.arange(SIZE))
    return {"dataset": Wrapped(inner, Compose([Scale(0.5), Scale(4), torch.sqrt]))}
