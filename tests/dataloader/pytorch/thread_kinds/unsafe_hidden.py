"""Readers that are not attributes: in closures, globals, defaults, partials, caches, slots and containers."""
# mypy: ignore-errors

import functools
import io
from collections import deque

import numpy as np
import torch
from tests.dataloader.pytorch.thread_kinds.helpers import numbers_as_bytes
from tests.dataloader.pytorch.thread_kinds.registry import SIZE, unsafe
from torch.utils.data import Dataset


def make_closure_dataset(data):
    reader = io.BytesIO(data)

    def load(idx):
        reader.seek(idx * 32)
        return torch.frombuffer(bytearray(reader.read(32)), dtype=torch.int64)

    class ClosureDataset(Dataset):
        def __len__(self):
            return SIZE

        def __getitem__(self, idx):
            return load(idx)

    return ClosureDataset()


@unsafe()
def reader_in_a_closure(folder):
    return {"dataset": make_closure_dataset(numbers_as_bytes())}


def make_lazy_loader(path):
    handle = None

    def load(idx):
        nonlocal handle
        if handle is None:
            handle = open(path, "rb")
        handle.seek(idx * 32)
        return np.frombuffer(handle.read(32), np.int64).copy()

    return load


class Loading:
    """Calls a loader with each index."""

    def __init__(self, loader):
        self.loader = loader

    def __len__(self):
        return SIZE

    def __getitem__(self, idx):
        return self.loader(idx)


@unsafe()
def nonlocal_handle(folder):
    (folder / "data.bin").write_bytes(numbers_as_bytes())
    return {"dataset": Loading(make_lazy_loader(folder / "data.bin"))}


def read_record(file, size, idx):
    file.seek(idx * size)
    return file.read(size)


@unsafe()
def reader_in_a_partial(folder):
    return {"dataset": Loading(functools.partial(read_record, io.BytesIO(b"abcdefgh" * SIZE), 3))}


@functools.lru_cache(maxsize=None)
def get_file(path):
    return open(path, "rb")


class CachedHandles:
    """Opens each file once."""

    def __init__(self, path):
        self.path = str(path)

    def __len__(self):
        return SIZE

    def __getitem__(self, idx):
        file = get_file(self.path)
        file.seek(idx * 32)
        return np.frombuffer(file.read(32), dtype=np.int64).sum()


@unsafe()
def handle_in_an_lru_cache(folder):
    (folder / "data.bin").write_bytes(numbers_as_bytes())
    return {"dataset": CachedHandles(folder / "data.bin")}


_handle = None


def _get_handle(path):
    global _handle
    if _handle is None or _handle.name != path:
        _handle = open(path, "rb")
    return _handle


class GlobalHandle(CachedHandles):
    """Has one handle for each process."""

    def __getitem__(self, idx):
        handle = _get_handle(self.path)
        handle.seek(idx * 32)
        return np.frombuffer(handle.read(32), dtype=np.int64).sum()


@unsafe()
def handle_in_a_global(folder):
    (folder / "data.bin").write_bytes(numbers_as_bytes())
    return {"dataset": GlobalHandle(folder / "data.bin")}


CAPTIONS = io.StringIO("".join(f"{idx:07d}\n" for idx in range(SIZE)))


def collate_with_captions(indices):
    captions = []
    for idx in indices:
        CAPTIONS.seek(idx * 8)
        captions.append(CAPTIONS.readline().strip())
    return torch.tensor(indices), captions


@unsafe()
def global_that_collate_fn_names(folder):
    return {"dataset": list(range(SIZE)), "collate_fn": collate_with_captions}


class ClassHandle:
    """Has its reader on the class."""

    reader = io.BytesIO(numbers_as_bytes())

    def __len__(self):
        return SIZE

    def __getitem__(self, idx):
        self.reader.seek(idx * 32)
        return np.frombuffer(self.reader.read(32), np.int64).copy()


@unsafe()
def reader_on_the_class(folder):
    return {"dataset": ClassHandle()}


class SlotHandle:
    """Has its reader in a slot."""

    __slots__ = ("_reader", "count")

    def __init__(self, data):
        self._reader = io.BytesIO(data)
        self.count = len(data) // 32

    def __len__(self):
        return self.count

    def __getitem__(self, idx):
        self._reader.seek(idx * 32)
        return torch.tensor(list(self._reader.read(32)))


@unsafe()
def reader_in_a_slot(folder):
    return {"dataset": SlotHandle(numbers_as_bytes())}


class DefaultArgument:
    """Keeps its handles in a default argument."""

    def __init__(self, path):
        self.path = path

    def __len__(self):
        return SIZE

    def __getitem__(self, idx, _open={}):
        if self.path not in _open:
            _open[self.path] = open(self.path, "rb")
        file = _open[self.path]
        file.seek(idx * 32)
        return np.frombuffer(file.read(32), np.int64).copy()


@unsafe()
def mutable_default_argument(folder):
    (folder / "data.bin").write_bytes(numbers_as_bytes())
    return {"dataset": DefaultArgument(str(folder / "data.bin"))}


class ReaderPool:
    """Takes the next reader of a deque in turn."""

    def __init__(self, data):
        self.readers = deque(io.BytesIO(data) for _ in range(2))

    def __len__(self):
        return SIZE

    def __getitem__(self, idx):
        self.readers.rotate(1)
        self.readers[0].seek(idx * 32)
        return np.frombuffer(self.readers[0].read(32), np.int64).copy()


@unsafe()
def readers_in_a_deque(folder):
    return {"dataset": ReaderPool(numbers_as_bytes())}


class ReaderByName:
    """Has its reader below a dict, a list and a tuple."""

    def __init__(self, data):
        self.splits = {"train": [("first", io.BytesIO(data))]}

    def __len__(self):
        return SIZE

    def __getitem__(self, idx):
        _, reader = self.splits["train"][0]
        reader.seek(32 * idx)
        return list(reader.read(32))


@unsafe()
def reader_in_nested_containers(folder):
    return {"dataset": ReaderByName(numbers_as_bytes())}
