"""Datasets whose code changes what threads would share: by names, recursion and functions in functions."""
# mypy: ignore-errors

from tests.dataloader.pytorch.thread_kinds.helpers import Sharing


class MangledName(Sharing):
    def init(self):
        self.__cache = {}

    def __getitem__(self, i):
        self.__cache[i] = 1
        return i


class ListInItself(Sharing):
    def __getitem__(self, i):
        n = []
        for _ in range(3):
            n = [n, self.buf]
        n[0][1].append(i)
        return i


class Link:
    def __init__(self, p, buf):
        self.parent = p
        self.buf = buf


class ChainOfObjects(Sharing):
    def __getitem__(self, i):
        n = None
        for _ in range(3):
            n = Link(n, self.buf)
        n.parent.buf.append(i)
        return i


class TupleOfAnEarlierTurn(Sharing):
    def __getitem__(self, i):
        t = None
        a = None
        for _ in range(3):
            if t is not None and t[0] is not None:
                t[0].append(1)
            t = (a, self.buf)
            a = self.buf
        return i


class RecursiveResult(Sharing):
    def walk(self, n):
        if n == 0:
            return self.buf
        x = self.walk(n - 1)
        x.append(1)
        return x

    def __getitem__(self, i):
        self.walk(3)
        return i


class MutualRecursion(Sharing):
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


class DefaultOfALocalFunction(Sharing):
    def __getitem__(self, i):
        x = None
        for _ in range(2):

            def f(a=x):
                a.append(1)

            if x is not None:
                f()
            x = self.buf
        return i


class DefaultOfALambda(Sharing):
    def __getitem__(self, i):
        fs = [lambda x=b: x.append(1) for b in [self.a, self.b]]
        for f in fs:
            f()
        return i


def append_to_first(a, /, **count_keywords):
    a.append(1)


class PositionalOnly(Sharing):
    def __getitem__(self, i):
        append_to_first(self.buf, a=1)
        return i


class ComprehensionThatShadows(Sharing):
    def __getitem__(self, i):
        x = self.lists
        [x.append(1) for x in x]
        return i


class ElementOfAComprehension(Sharing):
    def __getitem__(self, i):
        return [j for j in [self.a]][0].append(1) or i


class NamedInAGenerator(Sharing):
    def __getitem__(self, i):
        if any((y := x) for x in self.lists):
            y.append(1)
        return i
