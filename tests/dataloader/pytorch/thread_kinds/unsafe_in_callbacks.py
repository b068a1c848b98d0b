"""Datasets whose code changes what threads would share: in functions that others call, and through copies."""
# mypy: ignore-errors

import contextlib
import copy
import functools
import json
import operator

import numpy as np
from tests.dataloader.pytorch.thread_kinds.helpers import LOG, Sharing


class Compared:
    def __init__(self):
        self.stats = []
        self.n = 1

    def __lt__(self, o):
        o.stats.append(1)
        return False


class ComparedWhenSorted(Sharing):
    def init(self):
        self.os = [Compared(), Compared()]

    def __getitem__(self, i):
        sorted(self.os)
        return i


ufunc = np.frompyfunc(lambda x: LOG.append(x) or 1, 1, 1)


class UfuncOfPython(Sharing):
    def __getitem__(self, i):
        return int(ufunc(i))


class ObjectHook(Sharing):
    def __getitem__(self, i):
        x = json.loads('{"a":1}', object_hook=lambda d: self.d)
        x["q"] = 1
        return i


class CopyOfItself:
    def __init__(self):
        self.buf = []

    def __deepcopy__(self, memo):
        return self

    def transform(self, x):
        LOG.append(x)
        return x


class DeepcopyThatReturnsItself(Sharing):
    def init(self):
        self.res = CopyOfItself()

    def __getitem__(self, i):
        copy.deepcopy(self.res).buf.append(1)
        return i


class Logger:
    def transform(self, x):
        LOG.append(x)
        return x


class MethodOfADeepcopy(Sharing):
    def init(self):
        self.res = Logger()

    def __getitem__(self, i):
        return copy.deepcopy(self.res).transform(i)


class Nullcontext(Sharing):
    def __getitem__(self, i):
        with contextlib.nullcontext(self.buf) as b:
            b.append(1)
        return i


class LogsKeys:
    def __getitem__(self, k):
        LOG.append(k)
        return 1


first = operator.itemgetter(0)


class ItemgetterOfAnObject(Sharing):
    def init(self):
        self.o = LogsKeys()

    def __getitem__(self, i):
        return first(self.o)


class ReducedLists(Sharing):
    def __getitem__(self, i):
        functools.reduce(lambda a, b: a, self.lists).append(1)
        return i


class PartialInMap(Sharing):
    def f(self, b, x):
        b.append(x)
        return x

    def __getitem__(self, i):
        list(map(functools.partial(self.f, self.buf), [1, 2]))
        return i


class Appends:
    def __init__(self, b):
        self.b = b

    def __call__(self, x):
        self.b.append(x)
        return x


class MadeCallableInMap(Sharing):
    def __getitem__(self, i):
        list(map(Appends(self.buf), [1, 2]))
        return i


class MadeCallableAsKey(Sharing):
    def __getitem__(self, i):
        sorted([1, 2], key=Appends(self.buf))
        return i


class CallOfAMethod(Sharing):
    def __getitem__(self, i):
        self.buf.append.__call__(1)
        return i
