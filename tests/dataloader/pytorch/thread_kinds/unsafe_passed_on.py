"""Changes that are reached in roundabout ways: views, spread arguments, exceptions, methods that are passed on."""
# mypy: ignore-errors

import functools
import itertools
from collections import defaultdict

import numpy as np
import torch
from tests.dataloader.pytorch.thread_kinds.helpers import Indices
from tests.dataloader.pytorch.thread_kinds.registry import SIZE, unsafe


class Holding(Indices):
    """Works on arrays, tensors or lists that it holds."""

    def __init__(self, held, load):
        self.held = held
        self.load = load

    def __getitem__(self, idx):
        before = str(self.held[idx])
        self.load(self.held[idx], idx)
        return before, str(self.held[idx])


def of_arrays(load):
    return {"dataset": Holding(np.ones((SIZE, 4), np.float32), load)}


def of_tensors(load):
    return {"dataset": Holding(torch.ones(SIZE, 4), load)}


def of_lists(load):
    return {"dataset": Holding([[3, 1, 2] for _ in range(SIZE)], load)}


@unsafe()
def split_of_a_tensor(folder):
    return of_tensors(lambda x, idx: x.split(2)[0].add_(1))


@unsafe()
def expanded_tensor(folder):
    return of_tensors(lambda x, idx: x.expand(1, 4)[0].mul_(2))


@unsafe()
def einsum_of_one_tensor(folder):
    return of_tensors(lambda x, idx: torch.einsum("i->i", x).add_(1))


@unsafe()
def meshgrid_of_one_tensor(folder):
    return of_tensors(lambda x, idx: torch.meshgrid(x, indexing="ij")[0].add_(1))


@unsafe()
def activation_with_a_third_argument(folder):
    return {"dataset": Holding(-torch.ones(SIZE, 4), lambda x, idx: torch.nn.functional.leaky_relu(x, 0.5, True))}


@unsafe()
def random_numbers_into_a_tensor(folder):
    return of_tensors(lambda x, idx: torch.rand(4, generator=torch.Generator().manual_seed(idx), out=x))


@unsafe()
def moved_axis_of_an_array(folder):
    def load(x, idx):
        columns = np.rollaxis(x.reshape(2, 2), 1)
        columns[0] += 1

    return of_arrays(load)


@unsafe()
def squeezed_array(folder):
    def load(x, idx):
        np.squeeze(x[None])[...] += 1

    return of_arrays(load)


@unsafe()
def nan_to_num_without_a_copy(folder):
    def load(x, idx):
        numbers = np.nan_to_num(x, copy=False)
        numbers += 1

    return of_arrays(load)


@unsafe()
def conjugate_of_real_numbers(folder):
    def load(x, idx):
        conjugate = x.conjugate()
        conjugate += 1

    return of_arrays(load)


@unsafe()
def out_in_keywords(folder):
    def load(x, idx):
        options = {"out": x}
        np.multiply(x, 2, **options)

    return of_arrays(load)


@unsafe()
def out_in_spread_arguments(folder):
    return of_arrays(lambda x, idx: np.add(*[x, 1, x]))


@unsafe()
def out_of_a_reduction_of_another_array(folder):
    return of_arrays(lambda x, idx: (x[None] + 1).sum(0, None, x))


@unsafe()
def out_of_a_local_generator(folder):
    return of_arrays(lambda x, idx: np.random.default_rng(idx).random(out=x, dtype=np.float32))


@unsafe()
def arguments_that_are_handed_on(folder):
    def apply(function, *args, **options):
        function(*args, **options)

    return of_arrays(lambda x, idx: apply(np.add, x, 1, out=x))


@unsafe()
def method_in_a_map_of_builtins(folder):
    return of_lists(lambda x, idx: list(map(x.append, [idx])))


@unsafe()
def method_of_a_tensor_in_a_map(folder):
    return of_tensors(lambda x, idx: list(map(x.add_, [1])))


@unsafe()
def method_as_a_key(folder):
    def load(x, idx):
        before = len(x)
        min([1, 2], key=lambda number: x.append(number) or number + before)

    return of_lists(load)


@unsafe()
def method_in_a_starmap(folder):
    return of_lists(lambda x, idx: list(itertools.starmap(x.insert, [(0, idx)])))


@unsafe()
def method_in_a_partial_of_a_defaultdict(folder):
    return of_lists(lambda x, idx: defaultdict(functools.partial(x.append, idx))["missing"])


class Carrying(Exception):
    """Carries what was being worked on."""


@unsafe()
def carried_by_an_exception(folder):
    def load(x, idx):
        try:
            raise Carrying(x)
        except Carrying as error:
            error.args[0].append(idx)

    return of_lists(load)


@unsafe()
def returned_by_a_generator(folder):
    def parts(x):
        yield 1
        return x

    def load(x, idx):
        def work():
            whole = yield from parts(x)
            whole.append(idx)

        list(work())

    return of_lists(load)


@unsafe()
def put_into_a_slice(folder):
    def load(x, idx):
        batch = [None]
        batch[:] = [x]
        batch[0] += 1

    return of_arrays(load)


@unsafe()
def merged_into_a_local_dict(folder):
    def load(x, idx):
        record = {}
        record |= [("image", x)]
        record["image"] += 1

    return of_arrays(load)


@unsafe()
def destructor(folder):
    def load(x, idx):
        class Closing:
            def __del__(self):
                x.append(idx)

        Closing()

    return of_lists(load)


class Counted:
    """Counts in the methods that Python calls by itself."""

    def __init__(self):
        self.uses = 0

    def _use(self):
        self.uses += 1
        return self.uses

    def __hash__(self):
        return self._use() * 0

    def __lt__(self, other):
        return self._use() < 0

    def __eq__(self, other):
        return self._use() < 0

    def __index__(self):
        return self._use() * 0

    def __iter__(self):
        return iter([self._use()])

    def __reduce__(self):
        return int, (self._use(),)

    def keys(self):
        self._use()
        return []

    def __getitem__(self, key):
        return self._use()

    def read(self, size=-1):
        self._use()
        return "{}"


class Counts(Holding):
    """Says how often an object was used."""

    def __getitem__(self, idx):
        self.load(self.held[idx], idx)
        return self.held[idx].uses


def of_objects(load):
    return {"dataset": Counts([Counted() for _ in range(SIZE)], load)}


@unsafe()
def hash_in_a_set(folder):
    return of_objects(lambda x, idx: {x, idx})


@unsafe()
def order_of_a_local_list(folder):
    return of_objects(lambda x, idx: [x, x].sort())


@unsafe()
def equality_in_a_count(folder):
    return of_objects(lambda x, idx: [x, x].count(1))


@unsafe()
def index_into_a_list(folder):
    return of_objects(lambda x, idx: [1, 2][x])


@unsafe()
def index_of_a_slice(folder):
    return of_objects(lambda x, idx: "text"[x:])


@unsafe()
def keys_of_a_mapping(folder):
    return of_objects(lambda x, idx: {**x})


@unsafe()
def pickled_object(folder):
    import pickle

    return of_objects(lambda x, idx: pickle.dumps(x))


@unsafe()
def file_like_object(folder):
    import json

    return of_objects(lambda x, idx: json.load(x))


@unsafe()
def hash_of_a_key(folder):
    def load(x, idx):
        found = {}
        found[x] = idx

    return of_objects(load)


@unsafe()
def order_of_keys(folder):
    return of_objects(lambda x, idx: sorted([1, 2], key=lambda number: x))


@unsafe()
def index_that_is_assigned_to(folder):
    def load(x, idx):
        numbers = [1, 2]
        numbers[x] = idx

    return of_objects(load)


@unsafe()
def iterator_in_a_slice_assignment(folder):
    def load(x, idx):
        numbers = []
        numbers[:] = x

    return of_objects(load)
