"""A module of functions that datasets call, as projects have them, and of datasets that several kinds share."""
# mypy: ignore-errors

import collections

import numpy as np
import torch
from tests.dataloader.pytorch.thread_kinds.registry import SIZE
from torch.utils.data import Dataset

SCALE = 1
MEAN = np.array([0.5, 0.25, 0.125], np.float32)
NAMES = ("cat", "dog", "bird")

_calls = []


def scale(number):
    return number * SCALE


def count(name):
    """Count calls, and say how many there were."""
    _calls.append(name)
    return _descend(3)


def _descend(depth):
    return len(_calls) if depth == 0 else _descend(depth - 1)


def normalise(image):
    """Return a normalised image."""
    return (image.astype(np.float32) / 255 - MEAN) / 2


def normalise_in_place(image):
    """Normalise the image itself."""
    image -= MEAN
    return image


def name_of(label):
    return NAMES[label % len(NAMES)]


def center_crop(image, size):
    height, width = image.shape[:2]
    top, left = (height - size) // 2, (width - size) // 2
    return image[top : top + size, left : left + size]


class Cache:
    """Keeps what a function returned."""

    def __init__(self, function):
        self.function = function
        self.hits = 0
        self.values = {}

    def __call__(self, key):
        if key in self.values:
            self.hits += 1
        else:
            self.values[key] = self.function(key)
        return self.values[key], self.hits


class Holding(Dataset):
    """Loads with an object that it holds."""

    def __init__(self, held, load):
        self.held = held
        self.load = load

    def __len__(self):
        return SIZE

    def __getitem__(self, idx):
        return self.load(self.held, idx)


class Indices(Dataset):
    """Has an item for each index."""

    def __len__(self):
        return SIZE


class Plain(Dataset):
    """Squares the index."""

    def __len__(self):
        return SIZE

    def __getitem__(self, idx):
        return idx * idx


class Transformed(Dataset):
    """Applies a transform to the records that it holds."""

    def __init__(self, records, transform):
        self.records = records
        self.transform = transform

    def __len__(self):
        return len(self.records)

    def __getitem__(self, idx):
        return self.transform(self.records[idx])


class Compose:
    """Applies transforms in turn."""

    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, image):
        for transform in self.transforms:
            image = transform(image)
        return image


def numbers_as_bytes():
    return np.arange(SIZE * 4, dtype=np.int64).tobytes()


LOG = []
BUF = []


class Sharing:
    """Holds a little of everything. Threads would share it."""

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


class Logs:
    def process(self, x):
        LOG.append(x)
        return x
