"""Items that change what the dataset holds through another name: a view, a shallow copy, a part of a copy."""
# mypy: ignore-errors

import numpy as np
import torch
from tests.dataloader.pytorch.thread_kinds.helpers import Indices
from tests.dataloader.pytorch.thread_kinds.registry import SIZE, unsafe


class Held(Indices):
    """Holds arrays, tensors, lists and records."""

    def __init__(self):
        self.arrays = np.ones((SIZE, 4), np.float32)
        self.tensors = torch.ones(SIZE, 4)
        self.lists = [[[idx, 1], [idx, 2]] for idx in range(SIZE)]
        self.records = [{"box": np.ones(4), "meta": {"uses": 0}, "tags": []} for _ in range(SIZE)]
        self.pairs = [(np.ones(2), {"uses": 0}) for _ in range(SIZE)]


class AsArray(Held):
    """Changes an array that is the same after `asarray`."""

    def __getitem__(self, idx):
        array = np.asarray(self.arrays[idx])
        array += 1
        return array.sum()


@unsafe()
def asarray(folder):
    return {"dataset": AsArray()}


class AsType(Held):
    """Changes an array that `astype` does not copy."""

    def __getitem__(self, idx):
        array = self.arrays[idx].astype(np.float32, copy=False)
        array *= 2
        return array.sum()


@unsafe()
def astype_without_a_copy(folder):
    return {"dataset": AsType()}


class Reshaped(Held):
    """Changes a reshaped view."""

    def __getitem__(self, idx):
        square = self.arrays[idx].reshape(2, 2).T[::-1]
        square[0, 0] += 1
        return square.copy()


@unsafe()
def reshaped_view(folder):
    return {"dataset": Reshaped()}


class FromNumpy(Held):
    """Changes a tensor that shares the array's memory."""

    def __getitem__(self, idx):
        tensor = torch.from_numpy(self.arrays[idx])
        tensor *= 2
        return tensor.clone()


@unsafe()
def torch_from_numpy(folder):
    return {"dataset": FromNumpy()}


class AsTensor(Held):
    """Changes what `as_tensor` shares."""

    def __getitem__(self, idx):
        image = torch.as_tensor(self.arrays[idx], dtype=torch.float32)
        image[0] = image[0] + 1
        return image.sum()


@unsafe()
def torch_as_tensor(folder):
    return {"dataset": AsTensor()}


class ToNumpy(Held):
    """Changes a tensor through its array."""

    def __getitem__(self, idx):
        array = self.tensors[idx].numpy()
        array[1:] *= 3
        return array.tolist()


@unsafe()
def tensor_numpy(folder):
    return {"dataset": ToNumpy()}


class Cast(Held):
    """Changes what `float`, `contiguous` and `to` give back as it is."""

    def __getitem__(self, idx):
        tensor = self.tensors[idx].float().contiguous().to("cpu")
        tensor += 1
        return tensor.sum()


@unsafe()
def casts_that_copy_nothing(folder):
    return {"dataset": Cast()}


class ViewOfATensor(Held):
    """Changes a view of a tensor."""

    def __getitem__(self, idx):
        view = self.tensors[idx].view(2, 2).t()
        view.mul_(2)
        return view.sum()


@unsafe()
def view_of_a_tensor(folder):
    return {"dataset": ViewOfATensor()}


class Unbound(Held):
    """Changes parts that were split off."""

    def __getitem__(self, idx):
        left, right = torch.chunk(self.tensors[idx], 2)
        left += right
        return left.sum()


@unsafe()
def chunks_of_a_tensor(folder):
    return {"dataset": Unbound()}


class SplitArray(Held):
    """Changes a part of an array that was split."""

    def __getitem__(self, idx):
        left, right = np.split(self.arrays[idx], 2)
        left += right
        return left.sum()


@unsafe()
def parts_of_an_array(folder):
    return {"dataset": SplitArray()}
