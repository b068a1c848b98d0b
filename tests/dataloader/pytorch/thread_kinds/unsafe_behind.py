"""State that is found behind indirection: names, tables, decorators, special methods, inheritance, other modules."""
# mypy: ignore-errors

import functools
import operator

from tests.dataloader.pytorch.thread_kinds.helpers import Indices, Plain
from tests.dataloader.pytorch.thread_kinds.registry import SIZE, unsafe


class Counting(Indices):
    """Counts what is loaded."""

    def __init__(self):
        self.count = 0

    def bump(self, idx):
        self.count += 1
        return idx, self.count

    def __getitem__(self, idx):
        return self.bump(idx)


@unsafe()
def counter_in_a_method(folder):
    return {"dataset": Counting()}


class ByName(Counting):
    """Calls a method by its name."""

    def __getitem__(self, idx):
        return getattr(self, "bu" + "mp")(idx)


@unsafe()
def method_by_name(folder):
    return {"dataset": ByName()}


class ByTable(Counting):
    """Looks its methods up in a dict."""

    def __init__(self):
        super().__init__()
        self.loaders = {0: self.bump, 1: lambda idx: (idx, -1)}

    def __getitem__(self, idx):
        return self.loaders[idx % 2](idx)


@unsafe()
def dict_of_methods(folder):
    return {"dataset": ByTable()}


class ByMethodCaller(Counting):
    """Calls with methodcaller."""

    def __getitem__(self, idx):
        return operator.methodcaller("bump", idx)(self)


@unsafe()
def methodcaller(folder):
    return {"dataset": ByMethodCaller()}


class ByMap(Counting):
    """Maps its method over numbers."""

    def __getitem__(self, idx):
        return [count for _, count in map(self.bump, range(2))]


@unsafe()
def method_in_a_map(folder):
    return {"dataset": ByMap()}


class ByKey(Counting):
    """Sorts by a key that counts."""

    def _key(self, number):
        self.count += 1
        return self.count * number % 7

    def __getitem__(self, idx):
        return sorted([3, 1, 2, idx], key=self._key)


@unsafe()
def key_of_sorted(folder):
    return {"dataset": ByKey()}


class BySuper(Counting):
    """Has its base count."""

    def __getitem__(self, idx):
        index, count = super().__getitem__(idx)
        return {"index": index, "count": count}


@unsafe()
def base_class(folder):
    return {"dataset": BySuper()}


class LogMixin:
    """Remembers the last index, for whatever is mixed with it."""

    last = -1

    def __getitem__(self, idx):
        before, self.last = self.last, idx
        return before, super().__getitem__(idx)


class Mixed(LogMixin, Plain):
    """Is both."""


@unsafe()
def mixed_in(folder):
    return {"dataset": Mixed()}


class SetAttributes(Plain):
    """Sets attributes in ways that are not assignments."""

    def __getitem__(self, idx):
        setattr(self, "first", getattr(self, "first", 0) + 1)
        vars(self)["second"] = vars(self).get("second", 0) + 2
        self.__dict__.update(third=self.__dict__.get("third", 0) + 3)
        object.__setattr__(self, "fourth", getattr(self, "fourth", 0) + 4)
        return self.first, self.second, self.third, self.fourth


@unsafe()
def attributes_without_assignments(folder):
    return {"dataset": SetAttributes()}


class ViaSetattr(Plain):
    """Sets one attribute with setattr."""

    def __getitem__(self, idx):
        setattr(self, "current", idx)
        return self.read()

    def read(self):
        return self.current * 2


@unsafe()
def setattr_alone(folder):
    return {"dataset": ViaSetattr()}


class ViaVars(ViaSetattr):
    """Sets one attribute through vars."""

    def __getitem__(self, idx):
        vars(self)["current"] = idx
        return self.read()


@unsafe()
def vars_alone(folder):
    return {"dataset": ViaVars()}


class Deleting(Plain):
    """Sets an attribute for the item, and deletes it."""

    def __getitem__(self, idx):
        again = hasattr(self, "current")
        self.current = idx
        try:
            return self.current, again
        finally:
            del self.current


@unsafe()
def attribute_deleted(folder):
    return {"dataset": Deleting()}


class Executing(Plain):
    """Runs text as code."""

    uses = 0

    def __getitem__(self, idx):
        exec("self.uses += 1", {"self": self})
        return self.uses


@unsafe()
def code_in_text(folder):
    return {"dataset": Executing()}


class ClassCounter(Plain):
    """Counts on the class."""

    total = 0

    @classmethod
    def add(cls):
        cls.total += 1
        return cls.total

    def __getitem__(self, idx):
        return self.add()


@unsafe()
def classmethod_that_counts(folder):
    return {"dataset": ClassCounter()}


class TypeCounter(Plain):
    """Counts on its type."""

    total = 0

    def __getitem__(self, idx):
        type(self).total += 1
        return self.total


@unsafe()
def attribute_of_the_type(folder):
    return {"dataset": TypeCounter()}


class PropertyCounter(Plain):
    """Has a property that is another each time."""

    uses = 0

    @property
    def token(self):
        self.uses += 1
        return self.uses

    def __getitem__(self, idx):
        return idx, self.token


@unsafe()
def property_that_counts(folder):
    return {"dataset": PropertyCounter()}


class LazyIndex(Plain):
    """Builds a list with the first item, which later items change."""

    @functools.cached_property
    def order(self):
        return list(range(SIZE))

    def __getitem__(self, idx):
        self.order[idx] += 1
        return self.order[idx]


@unsafe()
def cached_property_that_is_changed(folder):
    return {"dataset": LazyIndex()}


class AttributeCache(Plain):
    """Makes what is missing, and counts how often."""

    made = 0

    def __getattr__(self, name):
        if not name.startswith("part"):
            raise AttributeError(name)
        type(self).made += 1
        self.__dict__[name] = self.made
        return self.made

    def __getitem__(self, idx):
        return getattr(self, f"part{idx % 6}")


@unsafe()
def getattr_that_caches(folder):
    return {"dataset": AttributeCache()}


class Ticket:
    """Is a descriptor that gives the next number."""

    def __init__(self):
        self.next = 0

    def __get__(self, instance, owner=None):
        self.next += 1
        return self.next


class WithDescriptor(Plain):
    """Has such a descriptor."""

    ticket = Ticket()

    def __getitem__(self, idx):
        return idx, self.ticket


@unsafe()
def descriptor_that_counts(folder):
    return {"dataset": WithDescriptor()}


class CountingMeta(type):
    """Counts what is asked of its classes."""

    asked = 0

    def __getitem__(cls, key):
        cls.asked += 1
        return key, cls.asked


class Registry(metaclass=CountingMeta):
    """Is asked."""


class WithMetaclass(Plain):
    """Asks a class by index."""

    def __getitem__(self, idx):
        return Registry[idx]


@unsafe()
def metaclass_that_counts(folder):
    return {"dataset": WithMetaclass()}
