"""Buffers that each item fills anew, and what an item leaves behind in a container."""
# mypy: ignore-errors

import array
import ctypes
import struct

import numpy as np
import torch
from tests.dataloader.pytorch.thread_kinds.helpers import Indices
from tests.dataloader.pytorch.thread_kinds.registry import SIZE, unsafe


class Clips:
    """Cuts clips of a signal."""

    def __init__(self):
        self.signal = np.arange(SIZE * 1000, dtype=np.float32)

    def __len__(self):
        return SIZE


class NumpyBuffer(Clips):
    """Copies each clip into one array before it is worked on."""

    def __init__(self):
        super().__init__()
        self.buffer = np.zeros(1000, np.float32)

    def __getitem__(self, idx):
        self.buffer[:] = self.signal[idx * 1000 : (idx + 1) * 1000]
        self.buffer -= self.buffer.mean()
        return torch.from_numpy(self.buffer.copy())


@unsafe()
def numpy_buffer(folder):
    return {"dataset": NumpyBuffer()}


class OutArgument(NumpyBuffer):
    """Has numpy write into its buffer."""

    def __getitem__(self, idx):
        clip = self.signal[idx * 1000 : (idx + 1) * 1000]
        np.multiply(clip, 0.5, out=self.buffer)
        return self.buffer.sum()


@unsafe()
def numpy_out_argument(folder):
    return {"dataset": OutArgument()}


class PositionalOut(NumpyBuffer):
    """Has numpy write into its buffer, which is the third argument."""

    def __getitem__(self, idx):
        np.add(self.signal[idx * 1000 : (idx + 1) * 1000], 1, self.buffer)
        return self.buffer.copy()


@unsafe()
def numpy_positional_out(folder):
    return {"dataset": PositionalOut()}


class CopyTo(NumpyBuffer):
    """Copies with copyto."""

    def __getitem__(self, idx):
        np.copyto(self.buffer, self.signal[idx * 1000 : (idx + 1) * 1000])
        return self.buffer.tolist()


@unsafe()
def numpy_copyto(folder):
    return {"dataset": CopyTo()}


class BufferOfAFile:
    """Reads into one bytearray."""

    def __init__(self, path):
        np.arange(SIZE * 512, dtype=np.int32).tofile(path)
        self.path = path
        self.buffer = bytearray(2048)

    def __len__(self):
        return SIZE

    def __getitem__(self, idx):
        with open(self.path, "rb") as file:
            file.seek(idx * 2048)
            file.readinto(self.buffer)
        return np.frombuffer(self.buffer, np.int32).copy()


@unsafe()
def bytearray_that_a_file_fills(folder):
    return {"dataset": BufferOfAFile(folder / "data.bin")}


class TensorBuffer(Indices):
    """Pads into one tensor."""

    def __init__(self):
        self.tokens = [list(range(idx % 7 + 1)) for idx in range(SIZE)]
        self.padded = torch.zeros(8, dtype=torch.long)

    def __getitem__(self, idx):
        tokens = self.tokens[idx]
        self.padded.zero_()
        self.padded[: len(tokens)] = torch.tensor(tokens)
        return self.padded.clone()


@unsafe()
def tensor_buffer(folder):
    return {"dataset": TensorBuffer()}


class TorchOut(TensorBuffer):
    """Has torch write into its tensor."""

    def __getitem__(self, idx):
        torch.add(torch.full((8,), idx), 1, out=self.padded)
        return self.padded.tolist()


@unsafe()
def torch_out_argument(folder):
    return {"dataset": TorchOut()}


class Packed:
    """Packs into one bytearray."""

    def __init__(self):
        self.scratch = bytearray(16)

    def __len__(self):
        return SIZE

    def __getitem__(self, idx):
        struct.pack_into("<qq", self.scratch, 0, idx, idx * idx)
        return bytes(self.scratch)


@unsafe()
def struct_pack_into(folder):
    return {"dataset": Packed()}


class CtypesBuffer:
    """Hands a C function one buffer."""

    def __init__(self):
        self.buffer = ctypes.create_string_buffer(8)

    def __len__(self):
        return SIZE

    def __getitem__(self, idx):
        data = idx.to_bytes(8, "little")
        ctypes.memmove(self.buffer, data, 8)
        return int.from_bytes(self.buffer.raw, "little")


@unsafe()
def ctypes_buffer(folder):
    return {"dataset": CtypesBuffer()}


class ArrayOfNumbers:
    """Gathers numbers in one array."""

    def __init__(self):
        self.numbers = array.array("i")

    def __len__(self):
        return SIZE

    def __getitem__(self, idx):
        del self.numbers[:]
        for number in range(idx % 5 + 1):
            self.numbers.append(number)
        return sum(self.numbers)


@unsafe()
def array_of_the_standard_library(folder):
    return {"dataset": ArrayOfNumbers()}


class View:
    """Writes through a memoryview."""

    def __init__(self):
        self.view = memoryview(bytearray(4))

    def __len__(self):
        return SIZE

    def __getitem__(self, idx):
        self.view[:] = bytes([idx, idx, idx, idx])
        return sum(self.view)


@unsafe()
def memoryview_of_a_buffer(folder):
    return {"dataset": View()}


class Canvas:
    """Draws each item on one image."""

    def __init__(self):
        from PIL import Image

        self.canvas = Image.new("L", (32, 32))

    def __len__(self):
        return SIZE

    def __getitem__(self, idx):
        self.canvas.paste(idx, (idx, 0, idx + 4, 16))
        return np.array(self.canvas)


@unsafe("PIL")
def image_that_is_drawn_on(folder):
    return {"dataset": Canvas()}
