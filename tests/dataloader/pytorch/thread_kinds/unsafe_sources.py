"""Functions whose text is not what runs: replaced, decorated, defined twice; classes that change builtins."""
# mypy: ignore-errors

import functools
import types

import numpy as np
import torch
from tests.dataloader.pytorch.thread_kinds.helpers import Indices
from tests.dataloader.pytorch.thread_kinds.registry import SIZE, unsafe
from torch.utils.data import Subset


class Items(Indices):
    """Holds lists."""

    def __init__(self):
        self.items = [[1] for _ in range(SIZE)]


def read(self, idx):
    return len(self.items[idx])


def change(self, idx):
    self.items[idx].append(idx)
    return len(self.items[idx])


def replaced(self, idx):
    return len(self.items[idx])


replaced.__code__ = change.__code__


@unsafe()
def code_that_was_replaced(folder):
    class Replaced(Items):
        def __getitem__(self, idx):
            return replaced(self, idx)

    return {"dataset": Replaced()}


class TwoLambdas(Items):
    """Has two functions on a line."""

    def __init__(self):
        super().__init__()
        self.read, self.load = lambda items: len(items), lambda items: items.append(1) or len(items)

    def __getitem__(self, idx):
        return self.load(self.items[idx])


@unsafe()
def two_lambdas_on_a_line(folder):
    return {"dataset": TwoLambdas()}


class Twice(Items):
    """Is defined twice."""

    def __getitem__(self, idx):
        return change(self, idx)


First = Twice


class Twice(Items):  # noqa: F811
    """Is defined twice."""

    def __getitem__(self, idx):
        return read(self, idx)


@unsafe()
def class_that_is_defined_twice(folder):
    return {"dataset": First()}


@unsafe()
def method_made_by_text(folder):
    made = {}
    exec("def load(self, idx):\n    self.items[idx].append(1)\n    return len(self.items[idx])\n", made)
    return {"dataset": type("Made", (Items,), {"__getitem__": made["load"]})()}


def pretend(function):
    @functools.wraps(function)
    def wrapper(self, idx):
        return change(self, idx) * function(self, idx)

    return wrapper


class Pretending(Items):
    """Has a decorator whose function looks like the one that it decorates."""

    __getitem__ = pretend(read)


@unsafe()
def decorator_that_wraps(folder):
    return {"dataset": Pretending()}


@unsafe()
def function_with_other_globals(folder):
    def load(self, idx):
        return read(self, idx)

    other = types.FunctionType(load.__code__, {"read": change}, closure=load.__closure__)
    return {"dataset": type("Other", (Items,), {"__getitem__": other})()}


class Shadowing(Items):
    """Gives a builtin's name to something else."""

    def __getitem__(self, idx):
        len = self.items[idx].append
        return len(idx) or sum(self.items[idx])


@unsafe()
def builtin_that_is_shadowed(folder):
    return {"dataset": Shadowing()}


class CountingList(list):
    """Counts what is read."""

    reads = 0

    def __getitem__(self, idx):
        self.reads += 1
        return super().__getitem__(idx), self.reads


@unsafe()
def list_that_counts(folder):
    return {"dataset": CountingList(range(SIZE))}


@unsafe()
def list_that_counts_below_a_subset(folder):
    return {"dataset": Subset(CountingList(range(SIZE)), list(range(20)))}


@unsafe()
def indices_that_count(folder):
    return {"dataset": Subset([(idx, 0) for idx in range(SIZE)], CountingIndices(range(20)))}


class CountingIndices(CountingList):
    """Counts in the order of the indices."""

    def __getitem__(self, idx):
        found, reads = super().__getitem__(idx)
        return (found + reads) % SIZE


class CountingArray(np.ndarray):
    """Counts what is read of it."""

    reads = [0]

    def __getitem__(self, idx):
        self.reads[0] += 1
        return float(np.asarray(super().__getitem__(idx))) + self.reads[0]


@unsafe()
def array_that_counts(folder):
    return {"dataset": np.ones(SIZE).view(CountingArray)}


class CountingTensor(torch.Tensor):
    """Counts the operations."""

    operations = [0]

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        cls.operations[0] += 1
        return super().__torch_function__(function, types, args, kwargs or {})


class Tensors(Items):
    """Adds up what such a tensor counts."""

    def __init__(self):
        super().__init__()
        self.tensor = torch.ones(SIZE).as_subclass(CountingTensor)

    def __getitem__(self, idx):
        return float(self.tensor[idx] + 1) + CountingTensor.operations[0]


@unsafe()
def tensor_that_counts(folder):
    return {"dataset": Tensors()}


class Borg:
    """Has the attributes of all others of its kind."""

    shared = {"uses": 0}

    def __init__(self):
        self.__dict__ = self.shared


class Borgs(Items):
    """Makes one for each item."""

    def __getitem__(self, idx):
        borg = Borg()
        borg.uses += 1
        return borg.uses


@unsafe()
def local_object_with_shared_attributes(folder):
    return {"dataset": Borgs()}


class Tagged:
    """Has a list on its class."""

    tags = []


class Tags(Items):
    """Appends to the list of a local object, which is that of the class."""

    def __getitem__(self, idx):
        tagged = Tagged()
        tagged.tags.append(idx)
        return len(tagged.tags)


@unsafe()
def local_object_with_a_list_of_its_class(folder):
    return {"dataset": Tags()}


@functools.lru_cache
def settings(name):
    return {"name": name, "uses": 0}


class Settings(Items):
    """Changes what a cached function returned."""

    def __getitem__(self, idx):
        found = settings("train")
        found["uses"] += 1
        return found["uses"]


@unsafe()
def result_of_a_cached_function(folder):
    return {"dataset": Settings()}


class Cells(Items):
    """Reaches into the closure of a function."""

    def __init__(self):
        super().__init__()
        kept = []
        self.keep = lambda: kept

    def __getitem__(self, idx):
        self.keep.__closure__[0].cell_contents.append(idx)
        return len(self.keep())


@unsafe()
def contents_of_a_cell(folder):
    return {"dataset": Cells()}
