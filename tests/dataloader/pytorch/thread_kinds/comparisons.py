"""Methods that compare, hash, add up or count what a container holds.

Rows of the tables are what a dataset holds, and what it does with that and the index.
"""
# mypy: ignore-errors

import bisect
import collections
import functools
import heapq
import operator
import statistics
import types
from dataclasses import dataclass, field

import numpy as np


class Counted:
    """Counts how often it is compared, hashed, added and asked."""

    calls = []

    def _count(self, *_):
        Counted.calls.append(1)
        return False

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = _count
    __hash__ = lambda self: len(self.calls) and 0  # noqa: E731

    def __bool__(self):
        return self._count()

    def __len__(self):
        self._count()
        return 0

    def __add__(self, other):
        self._count()
        return 0

    __radd__ = __mul__ = __rmul__ = __sub__ = __and__ = __or__ = __add__

    def __index__(self):
        self._count()
        return 0

    __int__ = __round__ = __abs__ = __index__

    def __float__(self):
        self._count()
        return 0.0

    def sqrt(self):
        self._count()
        return 0


class Same:
    """Counts how often it is compared for equality. Its hash is that of 3."""

    calls = []

    def __eq__(self, other):
        Same.calls.append(1)
        return other is self

    def __hash__(self):
        return 3


class Ordered(Same):
    """Counts how often it is compared in order."""

    def __lt__(self, other):
        Same.calls.append(1)
        return False

    __gt__ = __lt__


class Rooted:
    """Counts square roots."""

    calls = []

    def sqrt(self):
        Rooted.calls.append(1)
        return len(Rooted.calls)

    def conjugate(self):
        return self.sqrt()


Pair = collections.namedtuple("Pair", "first second")


class ListOfTheUser(list):
    """Is a list."""


class UserList(collections.UserList):
    """Keeps a list."""


class DictOfTheUser(dict):
    """Is a dict."""


class UserDict(collections.UserDict):
    """Keeps a dict."""


@dataclass
class Record:
    """Is compared and shown by code that dataclasses write."""

    part: object = field(default_factory=Same)
    size: int = 1


@dataclass(frozen=True, order=True)
class Key:
    """Is compared and hashed by code that dataclasses write."""

    name: str
    number: int = 0


class Fixed:
    """Is compared by what it holds."""

    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return isinstance(other, Fixed) and self.number == other.number

    def __lt__(self, other):
        return self.number < other.number

    def __hash__(self):
        return hash(self.number)

    def sqrt(self):
        return self.number


def counts():
    return len(Counted.calls) + len(Same.calls) + len(Rooted.calls)


def counted(operate):
    """Return a load that says how often something was counted."""

    def load(held, i):
        operate(held, i)
        return counts()

    return load


def found(operate):
    """Return a load that passes if there is none."""

    def load(held, i):
        try:
            operate(held, i)
        except (ValueError, KeyError, TypeError, IndexError):
            pass
        return counts()

    return load


def many(kind=list, of=Same):
    return lambda: kind([of(), of()])


def keyed(kind=dict, of=Same):
    return lambda: kind({of(): 1})


def array_of(kind):
    def make():
        array = np.empty(2, object)
        array[:] = [kind(), kind()]
        return array

    return make


UNSAFE = {
    "count_in_a_list": (many(), counted(lambda o, i: o.count(3))),
    "count_in_a_tuple": (many(tuple), counted(lambda o, i: o.count(3))),
    "count_in_a_deque": (many(collections.deque), counted(lambda o, i: o.count(3))),
    "count_in_a_users_list": (many(ListOfTheUser), counted(lambda o, i: o.count(3))),
    "count_in_a_list_that_the_user_keeps": (many(UserList), counted(lambda o, i: o.count(3))),
    "count_below_a_list": (lambda: [[Same()]], counted(lambda o, i: o.count([3]))),
    "count_in_a_list_of_the_call": (Same, counted(lambda o, i: [o].count(3))),
    "count_by_the_class": (many(), counted(lambda o, i: list.count(o, 3))),
    "count_that_is_passed_on": (many(), counted(lambda o, i: list(map(o.count, [3])))),
    "index_in_a_list": (many(), found(lambda o, i: o.index(3))),
    "index_in_a_tuple": (many(tuple), found(lambda o, i: o.index(3))),
    "index_in_a_deque": (many(collections.deque), found(lambda o, i: o.index(3))),
    "index_in_a_users_list": (many(ListOfTheUser), found(lambda o, i: o.index(3))),
    "index_by_the_class": (many(), found(lambda o, i: list.index(o, 3))),
    "remove_from_a_list_of_the_call": (Same, found(lambda o, i: [o].remove(3))),
    "remove_from_a_copy": (many(), found(lambda o, i: list(o).remove(3))),
    "in_a_list": (many(), counted(lambda o, i: 3 in o)),
    "in_a_tuple": (many(tuple), counted(lambda o, i: 3 in o)),
    "in_a_deque": (many(collections.deque), counted(lambda o, i: 3 in o)),
    "in_a_dict": (keyed(), counted(lambda o, i: 3 in o)),
    "in_a_set": (many(set), counted(lambda o, i: 3 in o)),
    "in_a_users_list": (many(ListOfTheUser), counted(lambda o, i: 3 in o)),
    "in_a_list_that_the_user_keeps": (many(UserList), counted(lambda o, i: 3 in o)),
    "in_a_dict_that_the_user_keeps": (keyed(UserDict), counted(lambda o, i: 3 in o)),
    "in_values_of_a_dict": (lambda: {1: Same()}, counted(lambda o, i: 3 in o.values())),
    "in_items_of_a_dict": (lambda: {1: Same()}, counted(lambda o, i: (1, 3) in o.items())),
    "in_by_name": (many(), counted(lambda o, i: o.__contains__(3))),
    "not_in_a_list": (many(), counted(lambda o, i: 3 not in o)),
    "contains_of_operator": (many(), counted(lambda o, i: operator.contains(o, 3))),
    "count_of_operator": (many(), counted(lambda o, i: operator.countOf(o, 3))),
    "equal_lists": (many(), counted(lambda o, i: o == [1, 2])),
    "equal_dicts": (lambda: {1: Same()}, counted(lambda o, i: o == {1: 3})),
    "equal_tuples": (many(tuple), counted(lambda o, i: o == (1, 2))),
    "equal_lists_that_the_user_keeps": (many(UserList), counted(lambda o, i: o == [1, 2])),
    "unequal_lists": (many(), counted(lambda o, i: o != [1, 2])),
    "equal_by_name": (many(), counted(lambda o, i: o.__eq__([1, 2]))),
    "lists_in_order": (many(of=Ordered), counted(lambda o, i: o < [1, 2])),
    "look_up_in_a_dict": (keyed(), found(lambda o, i: o[3])),
    "look_up_in_an_ordered_dict": (keyed(collections.OrderedDict), found(lambda o, i: o[3])),
    "look_up_in_a_users_dict": (keyed(DictOfTheUser), found(lambda o, i: o[3])),
    "look_up_in_a_dict_that_the_user_keeps": (keyed(UserDict), found(lambda o, i: o[3])),
    "look_up_below_a_dict": (lambda: {"a": {Same(): 1}}, found(lambda o, i: o["a"][3])),
    "look_up_a_tuple": (lambda: {(Same(), 1): 1}, found(lambda o, i: o[(3, 1)])),
    "look_up_by_the_user": (lambda: ({3: 1}, Same()), found(lambda o, i: o[0][o[1]])),
    "get_of_a_dict": (keyed(), counted(lambda o, i: o.get(3))),
    "get_of_a_counter": (keyed(collections.Counter), counted(lambda o, i: o.get(3))),
    "get_of_a_users_dict": (keyed(DictOfTheUser), counted(lambda o, i: o.get(3))),
    "get_by_the_class": (keyed(), counted(lambda o, i: dict.get(o, 3))),
    "get_that_is_passed_on": (keyed(), counted(lambda o, i: list(map(o.get, [3])))),
    "get_as_a_key": (keyed(), counted(lambda o, i: max([3, 4], key=lambda k: o.get(k, 0)))),
    "get_of_what_the_user_asks_for": (lambda: ({3: 1}, Same()), counted(lambda o, i: o[0].get(o[1]))),
    "item_getter": (keyed(), found(lambda o, i: operator.itemgetter(3)(o))),
    "dict_of_the_call": (Same, counted(lambda o, i: {o: 1}.get(3))),
    "dict_of_pairs": (Same, counted(lambda o, i: dict([(o, 1), (3, 2)]))),
    "dict_comprehension": (many(), counted(lambda o, i: {key: 1 for key in o})),
    "dict_of_keys": (many(), counted(lambda o, i: dict.fromkeys(o))),
    "set_of_the_call": (Same, counted(lambda o, i: {o, 3})),
    "set_of_a_list": (many(), counted(lambda o, i: set(o))),
    "frozen_set_of_a_list": (many(), counted(lambda o, i: frozenset(o))),
    "counter_of_a_list": (many(), counted(lambda o, i: collections.Counter(o))),
    "union": (many(set), counted(lambda o, i: o.union({3}))),
    "union_of_the_call": (many(), counted(lambda o, i: {3}.union(o))),
    "union_by_operator": (many(set), counted(lambda o, i: o | {3})),
    "intersection": (many(set), counted(lambda o, i: o.intersection({3}))),
    "intersection_by_operator": (many(frozenset), counted(lambda o, i: o & {3})),
    "difference": (many(set), counted(lambda o, i: o.difference({3}))),
    "symmetric_difference": (many(frozenset), counted(lambda o, i: o.symmetric_difference({3}))),
    "disjoint": (many(set), counted(lambda o, i: o.isdisjoint({3}))),
    "subset": (many(set), counted(lambda o, i: o.issubset({3}))),
    "superset": (many(set), counted(lambda o, i: o.issuperset({3}))),
    "difference_by_the_class": (many(set), counted(lambda o, i: set.difference(o, {3}))),
    "keys_of_two_dicts": (keyed(), counted(lambda o, i: o.keys() & {3: 1}.keys())),
    "keys_that_are_disjoint": (keyed(), counted(lambda o, i: o.keys().isdisjoint({3}))),
    "sorted_list": (many(of=Ordered), counted(lambda o, i: sorted(o))),
    "sorted_keys": (many(of=Ordered), counted(lambda o, i: sorted([1, 2], key=lambda k: o[k % 2]))),
    "sorted_tuples": (many(of=Ordered), counted(lambda o, i: sorted([(o[0], 1), (o[1], 2)]))),
    "sort_of_a_copy": (many(of=Ordered), counted(lambda o, i: list(o).sort())),
    "minimum": (many(of=Ordered), counted(lambda o, i: min(o))),
    "maximum_of_two": (many(of=Ordered), counted(lambda o, i: max(o[0], o[1]))),
    "maximum_of_keys": (many(of=Ordered), counted(lambda o, i: max([0, 1], key=o.__getitem__))),
    "bisection": (many(of=Ordered), counted(lambda o, i: bisect.bisect(o, 3))),
    "bisection_to_the_left": (many(of=Ordered), counted(lambda o, i: bisect.bisect_left(o, 3))),
    "bisection_with_a_key": (many(of=Ordered), counted(lambda o, i: bisect.bisect([0, 1], o[0], key=lambda k: o[k]))),
    "largest_of_a_heap": (many(of=Ordered), counted(lambda o, i: heapq.nlargest(1, o))),
    "smallest_of_a_heap": (many(of=Ordered), counted(lambda o, i: heapq.nsmallest(1, o))),
    "merged_lists": (many(of=Ordered), counted(lambda o, i: list(heapq.merge(o, o)))),
    "most_common": (
        lambda: collections.Counter({"a": Ordered(), "b": Ordered()}),
        counted(lambda o, i: o.most_common()),
    ),
    "sum_of_a_list": (many(of=Counted), counted(lambda o, i: sum(o))),
    "any_of_a_list": (many(of=Counted), counted(lambda o, i: any(o))),
    "filter_of_a_list": (many(of=Counted), counted(lambda o, i: list(filter(None, o)))),
    "not_of_an_element": (many(of=Counted), counted(lambda o, i: not o[0])),
    "length_of_an_element": (many(of=Counted), counted(lambda o, i: len(o[0]))),
    "lengths_in_map": (many(of=Counted), counted(lambda o, i: list(map(len, o)))),
    "integer_of_an_element": (many(of=Counted), counted(lambda o, i: int(o[0]))),
    "index_of_a_list_by_an_element": (many(of=Counted), counted(lambda o, i: [1, 2][o[0]])),
    "slice_by_an_element": (many(of=Counted), counted(lambda o, i: [1, 2][o[0] :])),
    "range_of_an_element": (many(of=Counted), counted(lambda o, i: range(o[0]))),
    "mean_of_a_list": (many(of=Counted), found(lambda o, i: statistics.mean(o))),
    "product_of_an_element": (many(of=Counted), counted(lambda o, i: o[0] * 2)),
    "reduction_by_an_operator": (many(of=Counted), counted(lambda o, i: functools.reduce(operator.add, o))),
    "maximum_of_an_array": (array_of(Counted), counted(lambda o, i: o.max())),
    "sum_of_an_array": (array_of(Counted), counted(lambda o, i: o.sum())),
    "equal_arrays": (array_of(Counted), counted(lambda o, i: o == 3)),
    "order_of_an_array": (array_of(Counted), counted(lambda o, i: o.argsort())),
    "truth_of_an_array": (array_of(Counted), counted(lambda o, i: o.any())),
    "places_in_an_array": (array_of(Counted), counted(lambda o, i: o.nonzero())),
    "numbers_of_an_array": (array_of(Counted), counted(lambda o, i: o.astype(float))),
    "search_in_an_array": (array_of(Counted), counted(lambda o, i: o.searchsorted(3))),
    "unique_in_an_array": (array_of(Counted), counted(lambda o, i: np.unique(o))),
    "root_of_an_array": (array_of(Rooted), counted(lambda o, i: np.sqrt(o))),
    "root_of_an_element": (array_of(Rooted), counted(lambda o, i: np.sqrt(o[0]))),
    "root_of_a_list": (many(of=Rooted), counted(lambda o, i: np.sqrt(o))),
    "equal_dataclasses": (Record, counted(lambda o, i: o == Record(3))),
    "equal_namespaces": (
        lambda: types.SimpleNamespace(a=Same()),
        counted(lambda o, i: o == types.SimpleNamespace(a=3)),
    ),
    "equal_named_tuples": (lambda: Pair(Same(), 1), counted(lambda o, i: o == (3, 1))),
    "dataclasses_in_a_list": (lambda: [Record()], counted(lambda o, i: o.count(Record(3)))),
}

SAFE = {
    "count_in_a_list": (lambda: [1, 2, 1], lambda o, i: o.count(1) + i),
    "index_in_a_list": (lambda: ["a", "b"], lambda o, i: o.index("b") + i),
    "index_in_a_tuple": (lambda: ("a", "b"), lambda o, i: o.index("b") + i),
    "index_in_a_deque": (lambda: collections.deque("ab"), lambda o, i: o.index("b") + i),
    "index_in_a_users_list": (lambda: ListOfTheUser("ab"), lambda o, i: o.index("b") + i),
    "count_of_fixed_objects": (lambda: [Fixed(1), Fixed(2)], lambda o, i: o.count(Fixed(2))),
    "in_a_list_of_fixed_objects": (lambda: [Fixed(1), Fixed(2)], lambda o, i: Fixed(2) in o),
    "look_up_a_fixed_object": (lambda: {Fixed(1): 5}, lambda o, i: o[Fixed(1)] + i),
    "look_up_a_dataclass": (lambda: {Key("a"): 5}, lambda o, i: o[Key("a")] + i),
    "look_up_a_text": (lambda: {"a": 5}, lambda o, i: o["a"] + i),
    "look_up_a_tuple": (lambda: {("a", 1): 5}, lambda o, i: o["a", 1] + i),
    "look_up_the_value_of_an_object": (lambda: {"a": Fixed(3)}, lambda o, i: o["a"].number + i),
    "get_of_a_dict": (lambda: {"a": 5}, lambda o, i: o.get("b", i)),
    "get_of_fixed_objects": (lambda: {Fixed(1): 5}, lambda o, i: o.get(Fixed(1)) + i),
    "get_of_a_value_that_counts": (lambda: {"a": Same()}, lambda o, i: i if o.get("a") is None else i + 1),
    "item_of_a_value_that_counts": (lambda: {"a": Same()}, lambda o, i: i if o["a"] is None else i + 1),
    "length_of_a_list_of_those_that_count": (lambda: [Same()], lambda o, i: len(o) + i),
    "union_of_sets": (lambda: {1, 2}, lambda o, i: sorted(o.union({i}))),
    "intersection_of_fixed_objects": (lambda: {Fixed(1)}, lambda o, i: len(o.intersection({Fixed(1)}))),
    "keys_of_dicts": (lambda: {"a": 1}, lambda o, i: sorted(o.keys() & {"a", "b"})),
    "sorted_fixed_objects": (lambda: [Fixed(2), Fixed(1)], lambda o, i: sorted(o)[0].number),
    "sorted_dataclasses": (lambda: [Key("b"), Key("a")], lambda o, i: sorted(o)[0].name),
    "smallest_fixed_object": (lambda: [Fixed(2), Fixed(1)], lambda o, i: min(o).number),
    "bisection": (lambda: [1, 4, 9], lambda o, i: bisect.bisect(o, i)),
    "bisection_of_fixed_objects": (lambda: [Fixed(1), Fixed(4)], lambda o, i: bisect.bisect_left(o, Fixed(i))),
    "count_of_a_counter": (lambda: collections.Counter("aab"), lambda o, i: o["a"] + o["c"] + i),
    "most_common": (lambda: collections.Counter("aab"), lambda o, i: o.most_common(1)[0][0]),
    "maximum_by_a_dict": (lambda: {"a": 1, "b": 2}, lambda o, i: str(max(o, key=o.get))),
    "maximum_of_an_array": (lambda: np.arange(5), lambda o, i: int(o.max()) + i),
    "root_of_an_array": (lambda: np.arange(5.0), lambda o, i: float(np.sqrt(o).sum()) + i),
    "texts_in_an_array": (lambda: np.array(["a", "b"], object), lambda o, i: str(o[i % 2] + "c")),
}
