"""Ways past the search for what threads share that a reader of its code found: classes and special methods."""
# mypy: ignore-errors

import dataclasses
import enum
import random
from contextlib import ContextDecorator, contextmanager
from dataclasses import InitVar, dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from tests.dataloader.pytorch.thread_kinds.unsafe_details_1 import BUF, LOG, B, Tr


class cnt(ContextDecorator):
    def __enter__(self):
        LOG.append(1)

    def __exit__(self, *a):
        pass


@contextmanager
def timed(n):
    LOG.append(n)
    yield


class CtxDec(B):
    @cnt()
    def __getitem__(self, i):
        return i


class CtxDec2(B):
    @timed("x")
    def __getitem__(self, i):
        return i


class P(NamedTuple):
    x: int
    buf: list = []


class Q(P):
    def __new__(cls, x):
        LOG.append(x)
        return P.__new__(cls, x)


class NTdef(B):
    def __getitem__(self, i):
        P(i).buf.append(1)
        return i


class NTnew(B):
    def __getitem__(self, i):
        return Q(i).x


@dataclass(slots=True)
class S:
    x: int
    o: Tr = Tr()


class Opt:
    def __init__(self):
        self.l = []


@dataclass(slots=True)
class S2:
    x: int
    o: Opt = Opt()


class DCslots(B):
    def __getitem__(self, i):
        S2(i).o.l.append(1)
        return i


@dataclass
class Fa:
    x: int
    lists: list = field(default_factory=lambda: BUF)


class DCfac(B):
    def __getitem__(self, i):
        Fa(i).lists.append(1)
        return i


@dataclass
class Fr:
    x: int
    r: float = field(default_factory=random.random)


class DCrandom(B):
    def __getitem__(self, i):
        return Fr(i).r


@dataclass
class IV:
    x: int
    log: InitVar[list]

    def __post_init__(self, log):
        log.append(1)


class DCinitvar(B):
    def __getitem__(self, i):
        return IV(i, self.buf).x


@dataclass
class DS:
    x: int

    def __setattr__(self, n, v):
        LOG.append(n)
        object.__setattr__(self, n, v)


class DCsetattr(B):
    def __getitem__(self, i):
        return DS(i).x


class MyD(dict):
    pass


class DictSubPairs(B):
    def __getitem__(self, i):
        MyD([("a", self.buf)])["a"].append(1)
        return i


class EB(enum.Enum):
    @classmethod
    def _missing_(cls, v):
        LOG.append(v)
        return cls.A


class EC(EB):
    A = 1


class EnumMissing(B):
    def __getitem__(self, i):
        EC(5)
        return i


class Reg:
    items = {"a": []}

    def __class_getitem__(cls, k):
        LOG.append(k)
        return cls.items[k]


class ClassGetitem(B):
    def __getitem__(self, i):
        Reg["a"].append(1)
        return i


class lazy(property):
    def __get__(self, o, t=None):
        LOG.append(1)
        return super().__get__(o, t)


class PropSub(B):
    @lazy
    def v(self):
        return 1

    def __getitem__(self, i):
        return self.v


class GA:
    def __init__(self):
        self.x = 1

    def __getattribute__(self, n):
        LOG.append(n)
        return object.__getattribute__(self, n)


class GetAttribute(B):
    def init(self):
        self.g = GA()

    def __getitem__(self, i):
        return self.g.x


class DelTuple(B):
    def __getitem__(self, i):
        del (self.d["x"], self.d["y"])
        return i


class Uniform(B):
    def __getitem__(self, i):
        return torch.empty(3).uniform_()


class Multinom(B):
    def __getitem__(self, i):
        return torch.softmax(torch.tensor([1.0, 2.0]), 0).multinomial(1)


class PdSample(B):
    def __getitem__(self, i):
        return len(pd.read_csv("x.csv").sample(1))


class RChoice(B):
    def __getitem__(self, i):
        random.Random(i).choice([self.a, self.b]).append(1)
        return i


class MedianOv(B):
    def __getitem__(self, i):
        return np.median(self.arr, None, None, True)


class NpHist(B):
    def init(self):
        self.e = np.arange(4.0)

    def __getitem__(self, i):
        h, e = np.histogram([1, 2], self.e)
        e += 1
        return i


class Pos(B):
    def __getitem__(self, i):
        x = +self.t
        x[0] = 1
        return i


class CallDunder(B):
    def __getitem__(self, i):
        self.buf.append.__call__(1)
        return i


class NX:
    def __next__(self):
        return BUF


class NextOnly(B):
    def __getitem__(self, i):
        next(NX()).append(1)
        return i


class AbsO:
    def __abs__(self):
        return BUF


class Abs(B):
    def __getitem__(self, i):
        abs(AbsO()).append(1)
        return i


class ListIter(list):
    def __iter__(self):
        return iter([1])


class ListOwnIter(B):
    def init(self):
        self.li = ListIter([[1]])

    def __getitem__(self, i):
        self.li[0].append(1)
        return i


class MapObj:
    def __iter__(self):
        return iter(["a"])

    def keys(self):
        return ["a"]

    def __getitem__(self, k):
        LOG.append(k)
        return 1


def kw(**k):
    return 1


class StarMap(B):
    def init(self):
        self.m = MapObj()

    def __getitem__(self, i):
        return kw(**self.m)


class Itr:
    def __next__(self):
        LOG.append(1)
        raise StopIteration

    def __iter__(self):
        return self


class Cont:
    def __iter__(self):
        return Itr()


class AnyIter(B):
    def init(self):
        self.c = Cont()

    def __getitem__(self, i):
        return int(any(self.c))


class MadeGen(B):
    def __getitem__(self, i):
        g = torch.Generator() if i else None
        return torch.rand(2, generator=g)


class MyPath(type(Path())):
    def exists(self, **k):
        LOG.append(1)
        return True


class PathSub(B):
    def init(self):
        self.p = MyPath("/tmp")

    def __getitem__(self, i):
        return int(self.p.exists())


class Walr(B):
    def __getitem__(self, i):
        if any((y := x) for x in self.lists):
            y.append(1)
        return i


class ExitArg:
    def __enter__(self):
        return 1

    def __exit__(self, t, e, tb):
        e.args[0].append(1)
        return True


class ExitE(B):
    def __getitem__(self, i):
        with ExitArg():
            raise ValueError(self.buf)
        return i


class AttrErr(B):
    def __getitem__(self, i):
        try:
            self.buf.foo
        except AttributeError as e:
            e.obj.append(1)
        return i


class Meta(type):
    def __instancecheck__(c, o):
        LOG.append(1)
        return True


class MC(metaclass=Meta):
    pass


class InstTuple(B):
    def __getitem__(self, i):
        return int(isinstance(i, (MC, int)))


class DCcls(B):
    def __getitem__(self, i):
        return [j for j in [self.a]][0].append(1) or i


class AsTuple(B):
    def init(self):
        self.iv = Fa(1)

    def __getitem__(self, i):
        return i if dataclasses.asdict(self.iv) else i


class ImgSpread(B):
    def __getitem__(self, i):
        from PIL import Image

        return np.asarray(Image.new("L", (4, 4)).effect_spread(2))
