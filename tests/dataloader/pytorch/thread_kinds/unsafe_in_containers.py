"""Datasets whose code changes what threads would share: through containers, and parts of them."""
# mypy: ignore-errors

import collections
import itertools
import operator
import random

from tests.dataloader.pytorch.thread_kinds.helpers import LOG, Sharing


class DefaultOfMax(Sharing):
    def __getitem__(self, i):
        max([], default=self.buf).append(1)
        return i


class ChosenFromAList(Sharing):
    def __getitem__(self, i):
        random.Random(i).choice([self.a, self.b]).append(1)
        return i


class SumOfLists(Sharing):
    def __getitem__(self, i):
        sum([[x] for x in self.lists], [])[0].append(1)
        return i


class StartOfASum(Sharing):
    def __getitem__(self, i):
        sum([], self.buf).append(1)
        return i


class Groups(Sharing):
    def __getitem__(self, i):
        for k, g in itertools.groupby(self.lists, key=len):
            for x in g:
                x.append(1)
        return i


class KeywordsOfADict(Sharing):
    def __getitem__(self, i):
        dict(**self.d)["x"].append(1)
        return i


class ItemsOfAnItemgetter(Sharing):
    def __getitem__(self, i):
        a, b = first_two(self.lists)
        a.append(1)
        return i


first_two = operator.itemgetter(0, 1)


class KeptSlice(Sharing):
    def __getitem__(self, i):
        self.lists[self.window][0].append(1)
        return i


class SliceOfAMadeList(Sharing):
    def __getitem__(self, i):
        x = [self.a, self.b]
        x[self.window][0].append(1)
        return i


class ListWithOwnGetitem(list):
    def __getitem__(self, i):
        return super().__getitem__(i)


class SliceThroughSuper(Sharing):
    def init(self):
        self.ll = ListWithOwnGetitem([[1], [2]])

    def __getitem__(self, i):
        self.ll[0:1][0].append(1)
        return i


class ListWithOwnIter(list):
    def __iter__(self):
        return iter([1])


class ElementBesideOwnIter(Sharing):
    def init(self):
        self.li = ListWithOwnIter([[1]])

    def __getitem__(self, i):
        self.li[0].append(1)
        return i


class HasAList:
    def __init__(self):
        self.data = [[1]]

    def __iter__(self):
        return self.data.__iter__()


class IteratorOfAHeldList(Sharing):
    def init(self):
        self.o = HasAList()

    def __getitem__(self, i):
        for x in self.o:
            x.append(1)
        return i


class CountingDict(collections.defaultdict):
    pass


class SubclassOfDefaultdict(Sharing):
    def init(self):
        self.ds = CountingDict(list)

    def __getitem__(self, i):
        return len(self.ds[i])


class DictThatFillsItself(dict):
    def __getitem__(self, k):
        return super().__getitem__(k)

    def __missing__(self, k):
        self[k] = 1
        return 1


class MissingThroughSuper(Sharing):
    def init(self):
        self.cm = DictThatFillsItself()

    def __getitem__(self, i):
        return self.cm[i]


class DictThatLogs(dict):
    def __missing__(self, k):
        LOG.append(k)
        return 1


class MissingOfAMadeDict(Sharing):
    def __getitem__(self, i):
        return DictThatLogs()[i]


class FormatMap(Sharing):
    def __getitem__(self, i):
        return len("{a}".format_map(self.dd))


class PercentOfADict(Sharing):
    def __getitem__(self, i):
        return len("%(a)s" % self.dd)


class OwnDict(dict):
    pass


class PairsOfADictSubclass(Sharing):
    def __getitem__(self, i):
        OwnDict([("a", self.buf)])["a"].append(1)
        return i


class DeletedPair(Sharing):
    def __getitem__(self, i):
        del (self.d["x"], self.d["y"])
        return i


class Mapping:
    def __iter__(self):
        return iter(["a"])

    def keys(self):
        return ["a"]

    def __getitem__(self, k):
        LOG.append(k)
        return 1


def count_keywords(**k):
    return 1


class MappingAsKeywords(Sharing):
    def init(self):
        self.m = Mapping()

    def __getitem__(self, i):
        return count_keywords(**self.m)


class PoppedItem(Sharing):
    def __getitem__(self, i):
        d = {}
        d["a"] = self.a
        k, v = d.popitem()
        v.append(1)
        return i


class StarredInAList(Sharing):
    def __getitem__(self, i):
        x = [[self.a]]
        y = [*x]
        y[0][0].append(1)
        return i


class PairsOfMap(Sharing):
    def __getitem__(self, i):
        for (x,) in map(lambda a: (a,), self.lists):
            x.append(1)
        return i


class ItemsGivenAway(Sharing):
    def init(self):
        self.names = ["a", "b"]

    def __getitems__(self, ix):
        return self.names
