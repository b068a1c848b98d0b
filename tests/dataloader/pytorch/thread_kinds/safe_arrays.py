"""Arrays and tensors that are read, and copies that are worked on in place."""
# mypy: ignore-errors

import struct
from copy import deepcopy

import numpy as np
import torch
import torch.nn.functional as F
from tests.dataloader.pytorch.thread_kinds import helpers
from tests.dataloader.pytorch.thread_kinds.helpers import Indices
from tests.dataloader.pytorch.thread_kinds.registry import SIZE, safe
from torch.utils.data import Dataset


class Images(Dataset):
    """Has images and labels in memory."""

    def __init__(self):
        self.images = np.arange(SIZE * 108, dtype=np.uint8).reshape(SIZE, 6, 6, 3)
        self.labels = [idx % 10 for idx in range(SIZE)]
        self.tensors = torch.arange(SIZE * 36, dtype=torch.float32).reshape(SIZE, 6, 6)

    def __len__(self):
        return len(self.images)


class Normalised(Images):
    """Normalises as CIFAR's readers do."""

    mean = np.array([0.49, 0.48, 0.45], dtype=np.float32)
    std = np.array([0.25, 0.24, 0.26], dtype=np.float32)

    def __getitem__(self, index):
        img, target = self.images[index], self.labels[index]
        img = (img.astype(np.float32) / 255.0 - self.mean) / self.std
        return torch.from_numpy(img.transpose((2, 0, 1))), target


@safe()
def normalised_images(folder):
    return {"dataset": Normalised(), "shuffle": True}


class Copied(Images):
    """Changes a copy."""

    def __getitem__(self, index):
        image = self.images[index].copy()
        image[:2] = 0
        image //= 2
        image += 1
        return image


@safe()
def copy_that_is_changed(folder):
    return {"dataset": Copied()}


class Cloned(Images):
    """Changes a clone."""

    def __getitem__(self, index):
        image = self.tensors[index].clone().add_(1)
        image.mul_(0.5)
        image[0] = 7
        return image.clamp_(0, 100)


@safe()
def clone_that_is_changed(folder):
    return {"dataset": Cloned()}


class DeepCopied(Images):
    """Changes a deep copy of a record."""

    def __init__(self):
        super().__init__()
        self.records = [{"box": np.ones(4) * idx, "tags": [idx]} for idx in range(SIZE)]

    def __getitem__(self, index):
        record = deepcopy(self.records[index])
        record["box"] *= 2
        record["tags"].append(1)
        return record


@safe()
def deep_copy_that_is_changed(folder):
    return {"dataset": DeepCopied()}


class Flipped(Images):
    """Flips, crops and rolls."""

    def __getitem__(self, index):
        image = self.images[index][:, ::-1]
        top = index % 3
        crop = np.ascontiguousarray(image[top : top + 3, 1:4])
        return crop, np.roll(self.images[index], 1, axis=0)[0], np.pad(crop, ((1, 1), (1, 1), (0, 0)))


@safe()
def flips_and_crops(folder):
    return {"dataset": Flipped()}


class OneHot(Images):
    """Makes one-hot vectors and masks."""

    def __getitem__(self, index):
        target = torch.zeros(10)
        target[self.labels[index]] = 1
        mask = np.zeros((6, 6), dtype=bool)
        mask[index % 6, :] = True
        vector = np.eye(10, dtype=np.float32)[self.labels[index]]
        return target, mask, vector, F.one_hot(torch.tensor(self.labels[index]), 10), np.where(mask)[0][:2]


@safe()
def one_hot(folder):
    return {"dataset": OneHot()}


class Windows(Dataset):
    """Cuts windows of a series."""

    def __init__(self, series, length=8, horizon=2):
        self.series = torch.as_tensor(series, dtype=torch.float32)
        self.length, self.horizon = length, horizon

    def __len__(self):
        return len(self.series) - self.length - self.horizon + 1

    def __getitem__(self, i):
        x = self.series[i : i + self.length]
        y = self.series[i + self.length : i + self.length + self.horizon]
        return (x - x.mean()) / (x.std() + 1e-6), y


@safe()
def windows_of_a_series(folder):
    return {"dataset": Windows(np.sin(np.arange(33)))}


class Blocks(Dataset):
    """Takes blocks of tokens from a file that is mapped into memory, as nanoGPT does."""

    def __init__(self, path, block):
        self.data = np.memmap(path, dtype=np.uint16, mode="r")
        self.block = block

    def __len__(self):
        return (len(self.data) - 1) // self.block

    def __getitem__(self, i):
        start = i * self.block
        x = torch.from_numpy(self.data[start : start + self.block].astype(np.int64))
        y = torch.from_numpy(self.data[start + 1 : start + 1 + self.block].astype(np.int64))
        return x, y


@safe()
def tokens_in_a_mapped_file(folder):
    np.arange(SIZE * 8 + 1, dtype=np.uint16).tofile(folder / "train.bin")
    return {"dataset": Blocks(folder / "train.bin", 8), "shuffle": True}


class Mapped(Dataset):
    """Reads an npy file that is mapped."""

    def __init__(self, path):
        np.save(path, np.arange(SIZE * 6, dtype=np.float32).reshape(SIZE, 6))
        self.array = np.load(path, mmap_mode="r")

    def __len__(self):
        return self.array.shape[0]

    def __getitem__(self, idx):
        return torch.tensor(np.array(self.array[idx]))


@safe()
def mapped_array(folder):
    return {"dataset": Mapped(folder / "x.npy")}


class LocalGenerators(Images):
    """Makes a generator for each item."""

    seed = 17

    def __getitem__(self, index):
        rng = np.random.default_rng([self.seed, index])
        noise = rng.normal(size=3)
        order = rng.permutation(6)
        flip = rng.random() < 0.5
        image = self.images[index][order]
        return (image[:, ::-1].copy() if flip else image), noise


@safe()
def numpy_generator_of_the_item(folder):
    return {"dataset": LocalGenerators()}


class LocalTorchGenerators(Images):
    """Makes a generator of torch for each item."""

    def __getitem__(self, index):
        generator = torch.Generator()
        generator.manual_seed(index)
        permutation = torch.randperm(6, generator=generator)
        return self.tensors[index][permutation] + torch.rand(6, 6, generator=generator)


@safe()
def torch_generator_of_the_item(folder):
    return {"dataset": LocalTorchGenerators()}


class LocalPythonGenerators(Images):
    """Makes a generator of Python for each item."""

    def __getitem__(self, index):
        import random

        rng = random.Random(index)
        order = list(range(6))
        rng.shuffle(order)
        return order, rng.choice("abc"), rng.uniform(0, 1), self.images[index][rng.randint(0, 5)]


@safe()
def python_generator_of_the_item(folder):
    return {"dataset": LocalPythonGenerators()}


class Helped(Images):
    """Calls functions of a module."""

    def __getitem__(self, index):
        image = helpers.normalise(helpers.center_crop(self.images[index], 4))
        return image, helpers.name_of(index)


@safe()
def helpers_of_another_module(folder):
    return {"dataset": Helped()}


def box_area(boxes):
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


class Detection(Dataset):
    """Makes the target of a detector."""

    def __init__(self):
        self.annotations = [
            [{"bbox": [n, n, n + 2, idx + 4], "category_id": n} for n in range(idx % 3 + 1)] for idx in range(SIZE)
        ]

    def __len__(self):
        return len(self.annotations)

    def __getitem__(self, idx):
        anns = self.annotations[idx]
        boxes = torch.as_tensor([ann["bbox"] for ann in anns], dtype=torch.float32)
        boxes[:, 2:] += boxes[:, :2]
        boxes[:, 0::2].clamp_(min=0, max=20)
        target = {}
        target["boxes"] = boxes
        target["labels"] = torch.tensor([ann["category_id"] for ann in anns], dtype=torch.int64)
        target["image_id"] = torch.tensor([idx])
        target["area"] = box_area(boxes)
        return torch.zeros(3, 2, 2), target


def collate_detection(batch):
    return tuple(zip(*batch))


@safe()
def targets_of_a_detector(folder):
    return {"dataset": Detection(), "collate_fn": collate_detection}


class Records(Dataset):
    """Unpacks records from bytes."""

    def __init__(self):
        self.data = b"".join(struct.pack("<Hf3B", idx, idx / 2, 1, 2, idx) for idx in range(SIZE))
        self.record = struct.Struct("<Hf3B")

    def __len__(self):
        return len(self.data) // self.record.size

    def __getitem__(self, idx):
        number, score, *rest = struct.unpack_from("<Hf3B", self.data, idx * self.record.size)
        return number, score, rest, int.from_bytes(self.data[:2], "little")


@safe()
def packed_records(folder):
    return {"dataset": Records()}


class Mnist(Dataset):
    """Reads images of bytes, as MNIST's files hold them."""

    def __init__(self):
        raw = bytes((idx * 7) % 256 for idx in range(SIZE * 16))
        self.images = np.frombuffer(raw, dtype=np.uint8).reshape(-1, 4, 4)
        self.labels = np.frombuffer(bytes(range(SIZE)), dtype=np.uint8)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, idx):
        image = torch.from_numpy(self.images[idx].copy()).float().div_(255).unsqueeze(0)
        return image, int(self.labels[idx])


@safe()
def bytes_as_arrays(folder):
    return {"dataset": Mnist()}


class Signals(Dataset):
    """Computes spectra."""

    def __init__(self):
        self.signals = np.sin(np.arange(SIZE * 64).reshape(SIZE, 64) / 5)
        self.window = np.hanning(64)

    def __len__(self):
        return len(self.signals)

    def __getitem__(self, idx):
        spectrum = np.abs(np.fft.rfft(self.signals[idx] * self.window))
        features = np.log1p(spectrum).astype("float32")
        features -= features.mean()
        features /= features.std() + 1e-5
        return torch.from_numpy(features), np.argmax(spectrum)


@safe()
def spectra(folder):
    return {"dataset": Signals()}


class Interpolated(Images):
    """Resizes and pads with torch."""

    def __getitem__(self, index):
        image = self.tensors[index][None, None]
        image = F.interpolate(image, size=(4, 4), mode="bilinear", align_corners=False)[0]
        image = F.pad(image, (1, 1, 0, 0))
        return torch.cat([image, torch.ones_like(image)]), image.mean().item()


@safe()
def torch_functions(folder):
    return {"dataset": Interpolated()}


class Pairs(Indices):
    """Makes triplets, by a table of the items of each class."""

    def __init__(self):
        self.data = torch.arange(SIZE * 2.0).reshape(SIZE, 2)
        self.labels = np.arange(SIZE) % 4
        self.by_label = {label: np.where(self.labels == label)[0] for label in set(self.labels.tolist())}

    def __getitem__(self, idx):
        label = self.labels[idx].item()
        positives = self.by_label[label]
        positive = positives[(idx + 1) % len(positives)]
        negative = next(other for other in self.by_label if other != label)
        return self.data[idx], self.data[positive], self.data[self.by_label[negative][0]]


@safe()
def triplets(folder):
    return {"dataset": Pairs()}
