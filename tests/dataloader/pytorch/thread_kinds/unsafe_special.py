"""Special methods, decorators, callable objects and collate functions that have a state."""
# mypy: ignore-errors

import functools
import types
from collections import namedtuple

import torch
from tests.dataloader.pytorch.thread_kinds import helpers
from tests.dataloader.pytorch.thread_kinds.helpers import Plain
from tests.dataloader.pytorch.thread_kinds.registry import SIZE, unsafe


class Odd:
    """Has special methods that change it."""

    def __init__(self):
        self.uses = 0

    def _use(self):
        self.uses += 1
        return self.uses

    def __bool__(self):
        return self._use() % 3 == 0

    def __format__(self, spec):
        return f"{self._use():{spec}}"

    def __eq__(self, other):
        return self._use() % 7 == other % 7

    def __hash__(self):
        return 1

    def __contains__(self, item):
        return self._use() % 5 == item % 5

    def __iadd__(self, other):
        self.uses += other
        return self

    def __enter__(self):
        return self._use()

    def __exit__(self, *exception):
        self.uses += 1

    def __iter__(self):
        self.uses += 1
        return iter([self.uses])


class Special(Plain):
    """Uses such an object in one way."""

    def __init__(self, use):
        self.odd = Odd()
        self.use = use

    def __getitem__(self, idx):
        return self.use(self.odd, idx)


@unsafe()
def truth_that_counts(folder):
    return {"dataset": Special(lambda odd, idx: idx if odd else -1)}


@unsafe()
def format_that_counts(folder):
    return {"dataset": Special(lambda odd, idx: f"{idx}: {odd:03d}")}


@unsafe()
def comparison_that_counts(folder):
    return {"dataset": Special(lambda odd, idx: odd == idx)}


@unsafe()
def membership_that_counts(folder):
    return {"dataset": Special(lambda odd, idx: idx in odd)}


@unsafe()
def loop_that_counts(folder):
    return {"dataset": Special(lambda odd, idx: [number + idx for number in odd])}


def use_in_a_block(odd, idx):
    with odd as number:
        return number, idx


@unsafe()
def block_that_counts(folder):
    return {"dataset": Special(use_in_a_block)}


def add_to(odd, idx):
    odd += idx
    return odd.uses


@unsafe()
def addition_in_place_that_counts(folder):
    return {"dataset": Special(add_to)}


class Missing(dict):
    """Numbers the keys in the order in which they come."""

    def __missing__(self, key):
        self[key] = len(self)
        return self[key]


class Vocabulary(Plain):
    """Numbers words as they come."""

    def __init__(self):
        self.ids = Missing()

    def __getitem__(self, idx):
        return [self.ids[word] for word in f"a b{idx} c{idx * 7 % 5}".split()]


@unsafe()
def vocabulary_that_grows(folder):
    return {"dataset": Vocabulary()}


def count_calls(function):
    @functools.wraps(function)
    def wrapper(*args):
        wrapper.calls += 1
        return function(*args), wrapper.calls

    wrapper.calls = 0
    return wrapper


class Decorated(Plain):
    """Counts calls with a decorator."""

    @count_calls
    def __getitem__(self, idx):
        return idx + 1


@unsafe()
def decorator_that_counts(folder):
    return {"dataset": Decorated()}


def remember(function):
    last = []

    def wrapper(self, idx):
        last.append(function(self, idx))
        return sum(last[-3:])

    return wrapper


class Remembered(Plain):
    """Sums the last three."""

    @remember
    def __getitem__(self, idx):
        return idx


@unsafe()
def decorator_that_remembers(folder):
    return {"dataset": Remembered()}


@functools.singledispatch
def describe(item):
    return str(item)


_described = []


@describe.register
def _(item: int):
    _described.append(item)
    return f"{item} of {len(_described)}"


class Dispatched(Plain):
    """Calls a function that depends on the type."""

    def __getitem__(self, idx):
        return describe(idx)


@unsafe()
def singledispatch(folder):
    return {"dataset": Dispatched()}


@unsafe()
def method_put_on_the_object(folder):
    class Loader(Plain):
        def __getitem__(self, idx):
            return self.load(idx)

    def load(self, idx):
        self.n = getattr(self, "n", 0) + 1
        return self.n

    dataset = Loader()
    dataset.load = types.MethodType(load, dataset)
    return {"dataset": dataset}


class FromHelpers(Plain):
    """Calls a function of a module, which calls itself."""

    def __getitem__(self, idx):
        return helpers.count(idx)


@unsafe()
def helper_of_another_module(folder):
    return {"dataset": FromHelpers()}


class CallsAnObject(Plain):
    """Calls an object with a cache that counts its hits."""

    def __init__(self):
        self.cache = helpers.Cache(lambda key: key + 1)

    def __getitem__(self, idx):
        return self.cache(idx % 5)


@unsafe()
def callable_object(folder):
    return {"dataset": CallsAnObject()}


Row = namedtuple("Row", "name tags")


class NamedRows(Plain):
    """Appends to a list in a named tuple."""

    def __init__(self):
        self.rows = [Row(f"row {idx}", []) for idx in range(SIZE)]

    def __getitem__(self, idx):
        self.rows[idx].tags.append(idx)
        return len(self.rows[idx].tags)


@unsafe()
def list_in_a_named_tuple(folder):
    return {"dataset": NamedRows()}


class Applying(Plain):
    """Applies a transform to the index."""

    def __init__(self, transform):
        self.transform = transform

    def __getitem__(self, idx):
        return self.transform(idx)


@unsafe()
def lambda_that_appends(folder):
    seen = []
    return {"dataset": Applying(lambda idx: (seen.append(idx), len(seen))[1])}


@unsafe()
def attribute_of_a_function(folder):
    def transform(idx):
        transform.uses += 1
        return transform.uses

    transform.uses = 0
    return {"dataset": Applying(transform)}


@unsafe()
def collate_that_counts_in_a_closure(folder):
    batches = 0

    def collate(batch):
        nonlocal batches
        batches += 1
        return torch.tensor([*batch, batches])

    return {"dataset": list(range(SIZE)), "collate_fn": collate}


class LongestSoFar:
    """Pads to the longest that it has seen."""

    def __init__(self):
        self.longest = 0

    def __call__(self, batch):
        self.longest = max(self.longest, *(len(item) for item in batch))
        return torch.tensor([item + [0] * (self.longest - len(item)) for item in batch])


@unsafe()
def collate_that_remembers(folder):
    return {"dataset": [[1] * (29 * idx % 17 + 1) for idx in range(SIZE)], "collate_fn": LongestSoFar()}


class MultiScale:
    """Changes the size that the dataset loads with each batch, as multi-scale training does."""

    def __init__(self, dataset):
        self.dataset = dataset

    def __len__(self):
        return SIZE // 4

    def __iter__(self):
        for start in range(0, SIZE, 4):
            self.dataset.size = 8 + start
            yield range(start, start + 4)


class Resized(Plain):
    """Has a size that is set from outside."""

    size = 8

    def __getitem__(self, idx):
        return idx, self.size


@unsafe()
def sampler_that_changes_the_dataset(folder):
    dataset = Resized()
    return {"dataset": dataset, "batch_sampler": MultiScale(dataset), "batch_size": 1}
