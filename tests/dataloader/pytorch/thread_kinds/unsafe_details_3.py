"""Ways past the search for what threads share that a reader of its code found: objects of libraries."""
# mypy: ignore-errors

import datasets
import numpy as np
from PIL import Image
from tests.dataloader.pytorch.thread_kinds.unsafe_details_1 import LOG, B


class Sp(B):
    def __getitem__(self, i):
        return np.array(Image.new("L", (4, 4)).effect_spread(2))


class Names(B):
    def init(self):
        self.names = ["a", "b"]

    def __getitems__(self, ix):
        return self.names


class HFSub(datasets.Dataset):
    def __getitem__(self, i):
        LOG.append(i)
        return super().__getitem__(i)


class HF(B):
    def init(self):
        self.h = HFSub.from_dict({"a": [1, 2]})
        if type(self.h) is not HFSub:
            self.h.__class__ = HFSub

    def __getitem__(self, i):
        return self.h[i]


class CMs:
    pass


class MixedProp(B):
    def __getitem__(self, i):
        d = {}
        d["a"] = self.a
        k, v = d.popitem()
        v.append(1)
        return i


class ClosureLoop(B):
    def __getitem__(self, i):
        fs = [lambda x=b: x.append(1) for b in [self.a, self.b]]
        for f in fs:
            f()
        return i


class Mutual(B):
    def f(self, n):
        if n == 0:
            return self.buf
        return self.g(n - 1)

    def g(self, n):
        x = self.f(n)
        x.append(1)
        return x

    def __getitem__(self, i):
        self.f(3)
        return i


class CondMethod(B):
    def __getitem__(self, i):
        x = [[self.a]]
        y = [*x]
        y[0][0].append(1)
        return i


class MapStar(B):
    def __getitem__(self, i):
        for (x,) in map(lambda a: (a,), self.lists):
            x.append(1)
        return i
