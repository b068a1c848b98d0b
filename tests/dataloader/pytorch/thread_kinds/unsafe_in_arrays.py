"""Datasets whose code changes what threads would share: memory of arrays, and what libraries draw."""
# mypy: ignore-errors

import datasets
import numpy as np
import pandas as pd
import torch
from tests.dataloader.pytorch.thread_kinds.helpers import LOG, Sharing


class FieldOfARecord(Sharing):
    def __getitem__(self, i):
        self.rec["a"] = i
        return i


class TensorByKeyword(Sharing):
    def __getitem__(self, i):
        x = torch.as_tensor(data=self.arr)
        x[0] = i
        return i


class ArrayByKeyword(Sharing):
    def __getitem__(self, i):
        x = np.asarray(a=self.arr)
        x[0] = i
        return i


class CopyOfAnArrayOfObjects(Sharing):
    def __getitem__(self, i):
        np.copy(self.objs)[0].append(1)
        return i


class TakenFromAnArrayOfObjects(Sharing):
    def __getitem__(self, i):
        np.take(self.objs, 0).append(1)
        return i


class ArrayOfLists(Sharing):
    def __getitem__(self, i):
        np.array([self.buf, 1], dtype=object)[0].append(1)
        return i


class ArrayOfSets(Sharing):
    def __getitem__(self, i):
        np.array([self.seen])[0].add(1)
        return i


class ItemOfAnArray(Sharing):
    def __getitem__(self, i):
        self.objs.item(0).append(1)
        return i


class FloatTensorOfATensor(Sharing):
    def __getitem__(self, i):
        x = torch.FloatTensor(self.t)
        x[0] = 1
        return i


class PlusOfATensor(Sharing):
    def __getitem__(self, i):
        x = +self.t
        x[0] = 1
        return i


class MedianThatOverwrites(Sharing):
    def __getitem__(self, i):
        return np.median(self.arr, None, None, True)


class EdgesOfAHistogram(Sharing):
    def init(self):
        self.e = np.arange(4.0)

    def __getitem__(self, i):
        h, e = np.histogram([1, 2], self.e)
        e += 1
        return i


class UniformInPlace(Sharing):
    def __getitem__(self, i):
        return torch.empty(3).uniform_()


class Multinomial(Sharing):
    def __getitem__(self, i):
        return torch.softmax(torch.tensor([1.0, 2.0]), 0).multinomial(1)


class GeneratorThatMayBeNone(Sharing):
    def __getitem__(self, i):
        g = torch.Generator() if i else None
        return torch.rand(2, generator=g)


class SampleOfAFrame(Sharing):
    def __getitem__(self, i):
        return len(pd.read_csv("x.csv").sample(1))


class SpreadImage(Sharing):
    def __getitem__(self, i):
        from PIL import Image

        return np.asarray(Image.new("L", (4, 4)).effect_spread(2))


class LogsRows(datasets.Dataset):
    def __getitem__(self, i):
        LOG.append(i)
        return super().__getitem__(i)


class SubclassOfHuggingFace(Sharing):
    def init(self):
        self.h = LogsRows.from_dict({"a": [1, 2]})
        if type(self.h) is not LogsRows:
            self.h.__class__ = LogsRows

    def __getitem__(self, i):
        return self.h[i]
