"""Ways past the search for what threads share that a reader of its code found: names, results and containers."""
# mypy: ignore-errors

import collections
import contextlib
import copy
import enum
import functools
import itertools
import json
import operator

import numpy as np
import torch

LOG = []
BUF = []


class B:
    def __init__(self):
        self.buf = []
        self.a = []
        self.b = []
        self.lists = [[1], [2]]
        self.tup = ([1], [2])
        self.arr = np.zeros((3, 3))
        self.t = torch.zeros(3, 3)
        self.imgs = torch.zeros(2, 3, 8, 8)
        self.d = {"x": [1]}
        self.dd = collections.defaultdict(list)
        self.window = slice(0, 2)
        self.objs = np.empty(2, object)
        self.objs[0] = [1]
        self.objs[1] = [2]
        self.od = collections.OrderedDict()
        self.seen = set()
        self.rec = np.zeros(1, dtype=[("a", int)])[0]
        self.init()

    def init(self):
        pass

    def __len__(self):
        return 2


class Mangled(B):
    def init(self):
        self.__cache = {}

    def __getitem__(self, i):
        self.__cache[i] = 1
        return i


class Mangled2(B):
    def init(self):
        self.__b = []

    def __getitem__(self, i):
        self.__b.append(i)
        return i


class SelfContent(B):
    def __getitem__(self, i):
        n = []
        for _ in range(3):
            n = [n, self.buf]
        n[0][1].append(i)
        return i


class Node:
    def __init__(self, p, buf):
        self.parent = p
        self.buf = buf


class SelfContent2(B):
    def __getitem__(self, i):
        n = None
        for _ in range(3):
            n = Node(n, self.buf)
        n.parent.buf.append(i)
        return i


class PutNoNote(B):
    def __getitem__(self, i):
        t = None
        a = None
        for _ in range(3):
            if t is not None and t[0] is not None:
                t[0].append(1)
            t = (a, self.buf)
            a = self.buf
        return i


class Recur(B):
    def walk(self, n):
        if n == 0:
            return self.buf
        x = self.walk(n - 1)
        x.append(1)
        return x

    def __getitem__(self, i):
        self.walk(3)
        return i


class LocalDefaults(B):
    def __getitem__(self, i):
        x = None
        for _ in range(2):

            def f(a=x):
                a.append(1)

            if x is not None:
                f()
            x = self.buf
        return i


def po(a, /, **kw):
    a.append(1)


class PosOnly(B):
    def __getitem__(self, i):
        po(self.buf, a=1)
        return i


class CompShadow(B):
    def __getitem__(self, i):
        x = self.lists
        [x.append(1) for x in x]
        return i


class Acc:
    def __init__(self, b):
        self.b = b

    def __iadd__(self, o):
        self.b.append(o)
        return self


class IAdd(B):
    def __getitem__(self, i):
        a = Acc(self.buf)
        a += 1
        return i


class Ordered:
    def __init__(self):
        self.stats = []
        self.n = 1

    def __lt__(self, o):
        o.stats.append(1)
        return False


class EscOther(B):
    def init(self):
        self.os = [Ordered(), Ordered()]

    def __getitem__(self, i):
        sorted(self.os)
        return i


class Proxy:
    def __init__(self, t):
        self.t = t

    def __getattr__(self, n):
        LOG.append(n)
        return 3


class MadeGetattr(B):
    def __getitem__(self, i):
        return Proxy(1).foo


class Wp:
    def __init__(self):
        self.process = self.other

    def process(self, x):
        return x

    def other(self, x):
        LOG.append(x)
        return x


class MadeOverride(B):
    def __getitem__(self, i):
        return Wp().process(i)


class Tr:
    def process(self, x):
        LOG.append(x)
        return x


class HeldMixed(B):
    def init(self):
        self.ts = [Tr(), Tr()]
        self.ts[0].process = len

    def __getitem__(self, i):
        self.ts[1].process("a")
        return i


class Desc:
    def __set_name__(self, o, n):
        self.n = n
        self.hits = []

    def __get__(self, o, t=None):
        self.hits.append(1)
        return o.__dict__[self.n]

    def __set__(self, o, v):
        o.__dict__[self.n] = v


class DataDesc(B):
    val = Desc()

    def init(self):
        self.val = 3

    def __getitem__(self, i):
        return i + self.val


class Mode(enum.Enum):
    A = []

    def transform(self, x):
        LOG.append(x)
        return x


class EnumVal(B):
    def __getitem__(self, i):
        Mode.A.value.append(i)
        return i


class EnumMeth(B):
    def __getitem__(self, i):
        return Mode.A.transform(i)


class NpVoid(B):
    def __getitem__(self, i):
        self.rec["a"] = i
        return i


class KwAlias(B):
    def __getitem__(self, i):
        x = torch.as_tensor(data=self.arr)
        x[0] = i
        return i


class KwAlias2(B):
    def __getitem__(self, i):
        x = np.asarray(a=self.arr)
        x[0] = i
        return i


class MaxDefault(B):
    def __getitem__(self, i):
        max([], default=self.buf).append(1)
        return i


UF = np.frompyfunc(lambda x: LOG.append(x) or 1, 1, 1)


class FromPy(B):
    def __getitem__(self, i):
        return int(UF(i))


class NpObjTake(B):
    def __getitem__(self, i):
        np.copy(self.objs)[0].append(1)
        return i


class NpObjTake2(B):
    def __getitem__(self, i):
        np.take(self.objs, 0).append(1)
        return i


class NpArrObj(B):
    def __getitem__(self, i):
        np.array([self.buf, 1], dtype=object)[0].append(1)
        return i


class NpArrSet(B):
    def __getitem__(self, i):
        np.array([self.seen])[0].add(1)
        return i


class NpItem(B):
    def __getitem__(self, i):
        self.objs.item(0).append(1)
        return i


class FloatT(B):
    def __getitem__(self, i):
        x = torch.FloatTensor(self.t)
        x[0] = 1
        return i


class JsonHook(B):
    def __getitem__(self, i):
        x = json.loads('{"a":1}', object_hook=lambda d: self.d)
        x["q"] = 1
        return i


class DC:
    def __init__(self):
        self.buf = []

    def __deepcopy__(self, memo):
        return self

    def transform(self, x):
        LOG.append(x)
        return x


class DeepSelf(B):
    def init(self):
        self.res = DC()

    def __getitem__(self, i):
        copy.deepcopy(self.res).buf.append(1)
        return i


class DC2:
    def transform(self, x):
        LOG.append(x)
        return x


class DeepMeth(B):
    def init(self):
        self.res = DC2()

    def __getitem__(self, i):
        return copy.deepcopy(self.res).transform(i)


class NullCtx(B):
    def __getitem__(self, i):
        with contextlib.nullcontext(self.buf) as b:
            b.append(1)
        return i


GET = operator.itemgetter(0, 1)


class ItemG2(B):
    def __getitem__(self, i):
        a, b = GET(self.lists)
        a.append(1)
        return i


class Other:
    def __getitem__(self, k):
        LOG.append(k)
        return 1


G1 = operator.itemgetter(0)


class ItemGObj(B):
    def init(self):
        self.o = Other()

    def __getitem__(self, i):
        return G1(self.o)


class Reduce(B):
    def __getitem__(self, i):
        functools.reduce(lambda a, b: a, self.lists).append(1)
        return i


class SumFlat(B):
    def __getitem__(self, i):
        sum([[x] for x in self.lists], [])[0].append(1)
        return i


class SumStart(B):
    def __getitem__(self, i):
        sum([], self.buf).append(1)
        return i


class GroupBy(B):
    def __getitem__(self, i):
        for k, g in itertools.groupby(self.lists, key=len):
            for x in g:
                x.append(1)
        return i


class DictKw(B):
    def __getitem__(self, i):
        dict(**self.d)["x"].append(1)
        return i


class DictKw2(B):
    def __getitem__(self, i):
        dict({}, **self.d)["x"].append(1)
        return i


class MapPartial(B):
    def f(self, b, x):
        b.append(x)
        return x

    def __getitem__(self, i):
        list(map(functools.partial(self.f, self.buf), [1, 2]))
        return i


class CallM:
    def __init__(self, b):
        self.b = b

    def __call__(self, x):
        self.b.append(x)
        return x


class MapMade(B):
    def __getitem__(self, i):
        list(map(CallM(self.buf), [1, 2]))
        return i


class SortKeyMade(B):
    def __getitem__(self, i):
        sorted([1, 2], key=CallM(self.buf))
        return i


class DunderIter(B):
    def __getitem__(self, i):
        for x in self.lists.__iter__():
            x.append(1)
        return i


class IterObj:
    def __init__(self):
        self.data = [[1]]

    def __iter__(self):
        return self.data.__iter__()


class DunderIter2(B):
    def init(self):
        self.o = IterObj()

    def __getitem__(self, i):
        for x in self.o:
            x.append(1)
        return i


class SliceHeld(B):
    def __getitem__(self, i):
        self.lists[self.window][0].append(1)
        return i


class SliceMade(B):
    def __getitem__(self, i):
        x = [self.a, self.b]
        x[self.window][0].append(1)
        return i


class LL(list):
    def __getitem__(self, i):
        return super().__getitem__(i)


class SuperSlice(B):
    def init(self):
        self.ll = LL([[1], [2]])

    def __getitem__(self, i):
        self.ll[0:1][0].append(1)
        return i


class DDs(collections.defaultdict):
    pass


class DDSub(B):
    def init(self):
        self.ds = DDs(list)

    def __getitem__(self, i):
        return len(self.ds[i])


class CM(dict):
    def __getitem__(self, k):
        return super().__getitem__(k)

    def __missing__(self, k):
        self[k] = 1
        return 1


class SuperMissing(B):
    def init(self):
        self.cm = CM()

    def __getitem__(self, i):
        return self.cm[i]


class MM(dict):
    def __missing__(self, k):
        LOG.append(k)
        return 1


class MadeMissing(B):
    def __getitem__(self, i):
        return MM()[i]


class FmtMap(B):
    def __getitem__(self, i):
        return len("{a}".format_map(self.dd))


class PctMap(B):
    def __getitem__(self, i):
        return len("%(a)s" % self.dd)
