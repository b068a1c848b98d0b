"""What an item leaves behind in a container for the items after it."""
# mypy: ignore-errors

import heapq
import random
from collections import Counter, OrderedDict, defaultdict, deque

import numpy as np
import torch
from tests.dataloader.pytorch.thread_kinds.registry import SIZE, unsafe


class History:
    """Stacks the last frames that were loaded."""

    def __init__(self):
        self.last = deque([0, 0, 0], maxlen=3)

    def __len__(self):
        return SIZE

    def __getitem__(self, idx):
        self.last.append(idx)
        return torch.tensor(list(self.last))


@unsafe()
def deque_of_the_last_items(folder):
    return {"dataset": History()}


class Recent:
    """Keeps a few items, and drops the oldest."""

    def __init__(self):
        self.cache = OrderedDict()

    def __len__(self):
        return SIZE

    def __getitem__(self, idx):
        key = idx % 6
        if key in self.cache:
            self.cache.move_to_end(key)
        else:
            self.cache[key] = {"key": key, "uses": 0}
            if len(self.cache) > 3:
                self.cache.popitem(last=False)
        self.cache[key]["uses"] += 1
        return self.cache[key]["uses"]


@unsafe()
def cache_that_drops_the_oldest(folder):
    return {"dataset": Recent()}


class Mosaic:
    """Mixes an item with one of those seen before, as YOLO does with its buffer of images."""

    def __init__(self):
        self.buffer = []

    def __len__(self):
        return SIZE

    def __getitem__(self, idx):
        self.buffer.append(idx)
        if len(self.buffer) > 8:
            self.buffer.pop(0)
        return [idx, self.buffer[0], len(self.buffer)]


@unsafe()
def list_of_items_seen(folder):
    return {"dataset": Mosaic()}


class Seen:
    """Loads every item once in full, later in brief."""

    def __init__(self):
        self.seen = set()

    def __len__(self):
        return SIZE

    def __getitem__(self, idx):
        group = idx % 5
        if group in self.seen:
            return group, "again"
        self.seen.add(group)
        return group, "first"


@unsafe()
def set_of_items_seen(folder):
    return {"dataset": Seen()}


class Frequencies:
    """Numbers the items of each class."""

    def __init__(self):
        self.counts = Counter()

    def __len__(self):
        return SIZE

    def __getitem__(self, idx):
        self.counts.update([idx % 3])
        return idx, self.counts[idx % 3]


@unsafe()
def counter_of_classes(folder):
    return {"dataset": Frequencies()}


class Groups:
    """Reads a defaultdict, which makes the entries that are not there."""

    def __init__(self):
        self.groups = defaultdict(list)
        self.groups[0].append("zero")

    def __len__(self):
        return SIZE

    def __getitem__(self, idx):
        self.groups[idx]
        return len(self.groups)


@unsafe()
def defaultdict_that_is_read(folder):
    return {"dataset": Groups()}


class Best:
    """Keeps the largest items in a heap."""

    def __init__(self):
        self.heap = []

    def __len__(self):
        return SIZE

    def __getitem__(self, idx):
        heapq.heappush(self.heap, (idx * 7) % SIZE)
        if len(self.heap) > 3:
            heapq.heappop(self.heap)
        return self.heap[0]


@unsafe()
def heap(folder):
    return {"dataset": Best()}


class Reshuffled:
    """Shuffles its own captions, with a generator made for the item."""

    def __init__(self):
        self.captions = [list(range(5)) for _ in range(SIZE)]

    def __len__(self):
        return SIZE

    def __getitem__(self, idx):
        captions = self.captions[idx]
        random.Random(idx).shuffle(captions)
        return captions[0]


@unsafe()
def list_that_is_shuffled(folder):
    return {"dataset": Reshuffled()}


class ReshuffledArray:
    """Has a local generator shuffle an array of its own."""

    def __init__(self):
        self.order = np.tile(np.arange(50), (SIZE, 1))

    def __len__(self):
        return SIZE

    def __getitem__(self, idx):
        rng = np.random.default_rng(idx)
        rng.shuffle(self.order[idx])
        return self.order[idx, :3].copy()


@unsafe()
def array_that_a_local_generator_shuffles(folder):
    return {"dataset": ReshuffledArray()}
