"""Items that change what lies in a shallow copy, and what other names name."""
# mypy: ignore-errors

import copy
import itertools

import numpy as np
from tests.dataloader.pytorch.thread_kinds.registry import unsafe
from tests.dataloader.pytorch.thread_kinds.unsafe_aliases import Held


class DictCopy(Held):
    """Copies the record, and changes what both records hold."""

    def __getitem__(self, idx):
        record = self.records[idx].copy()
        record["box"] *= 2
        return record["box"].sum()


@unsafe()
def array_in_a_copy_of_a_dict(folder):
    return {"dataset": DictCopy()}


class DictCall(Held):
    """Copies the record with `dict`."""

    def __getitem__(self, idx):
        record = dict(self.records[idx], index=idx)
        record["meta"]["uses"] += 1
        return record["meta"]["uses"], record["index"]


@unsafe()
def dict_in_a_copy_of_a_dict(folder):
    return {"dataset": DictCall()}


class DictDisplay(Held):
    """Copies the record with a display."""

    def __getitem__(self, idx):
        record = {**self.records[idx], "index": idx}
        record["tags"].append(idx)
        return len(record["tags"])


@unsafe()
def list_in_a_copy_of_a_dict(folder):
    return {"dataset": DictDisplay()}


class ShallowCopy(Held):
    """Copies with `copy.copy`."""

    def __getitem__(self, idx):
        record = copy.copy(self.records[idx])
        record["box"] -= 0.5
        return record["box"].mean()


@unsafe()
def copy_copy(folder):
    return {"dataset": ShallowCopy()}


class ListCopy(Held):
    """Copies the list, not those in it."""

    def __getitem__(self, idx):
        rows = list(self.lists[idx])
        for row in rows:
            row.append(0)
        return [len(row) for row in rows]


@unsafe()
def lists_in_a_copy_of_a_list(folder):
    return {"dataset": ListCopy()}


class SliceCopy(Held):
    """Copies the list with a slice."""

    def __getitem__(self, idx):
        rows = self.lists[idx][:]
        rows[0][1] += 10
        return rows[0][1]


@unsafe()
def list_in_a_slice_of_a_list(folder):
    return {"dataset": SliceCopy()}


class Unpacked(Held):
    """Changes the parts of a pair."""

    def __getitem__(self, idx):
        box, target = self.pairs[idx]
        box += 1
        target["uses"] += 1
        return box.sum(), target["uses"]


@unsafe()
def parts_of_a_pair(folder):
    return {"dataset": Unpacked()}


class Looping(Held):
    """Changes what loops give names to."""

    def __getitem__(self, idx):
        total = 0
        for number, (row, other) in enumerate(zip(self.lists[idx], reversed(self.lists[idx]))):
            row[1] += number + 1
            total += row[1] + other[0]
        return total


@unsafe()
def rows_of_a_loop(folder):
    return {"dataset": Looping()}


class Comprehension(Held):
    """Changes in a comprehension."""

    def __getitem__(self, idx):
        return sum(len(row) for row in self.lists[idx] if row.append(0) is None)


@unsafe()
def rows_of_a_comprehension(folder):
    return {"dataset": Comprehension()}


class Conditional(Held):
    """Changes its own array if there is no other."""

    def __getitem__(self, idx):
        box = np.zeros(4) if idx % 3 == 0 else self.records[idx]["box"]
        box += idx
        return box.sum()


@unsafe()
def one_of_two(folder):
    return {"dataset": Conditional()}


class Either(Held):
    """Changes what an `or` gives."""

    def __getitem__(self, idx):
        tags = self.records[idx].get("tags") or self.records[idx]["meta"].setdefault("list", [])
        tags.append(1)
        return len(tags)


@unsafe()
def either(folder):
    return {"dataset": Either()}


class Smallest(Held):
    """Changes what a builtin picks."""

    def __getitem__(self, idx):
        row = min(self.lists[idx], key=len)
        row.append(0)
        return [len(row) for row in self.lists[idx]]


@unsafe()
def picked_by_min(folder):
    return {"dataset": Smallest()}


class Chained(Held):
    """Changes what an iterator hands on."""

    def __getitem__(self, idx):
        first = next(itertools.chain(self.lists[idx], [[0]]))
        first[1] *= 2
        return first[1]


@unsafe()
def first_of_a_chain(folder):
    return {"dataset": Chained()}


class LocalList(Held):
    """Changes what lies in a list of its own."""

    def __getitem__(self, idx):
        parts = []
        parts.append(self.arrays[idx])
        parts[-1] += 1
        return parts[0].sum()


@unsafe()
def element_of_a_local_list(folder):
    return {"dataset": LocalList()}


class LocalObject(Held):
    """Changes what an attribute of a local object names."""

    class Sample:
        pass

    def __getitem__(self, idx):
        sample = self.Sample()
        sample.box = self.arrays[idx]
        sample.box *= 2
        return sample.box.sum()


@unsafe()
def attribute_of_a_local_object(folder):
    return {"dataset": LocalObject()}


class InnerFunction(Held):
    """Changes in a function of the item."""

    def __getitem__(self, idx):
        box = self.arrays[idx]

        def double():
            box[:] = box * 2

        double()
        return box.sum()


@unsafe()
def changed_by_an_inner_function(folder):
    return {"dataset": InnerFunction()}


class Returned(Held):
    """Changes what a method of its own returns."""

    def _get(self, idx):
        return self.records[idx]

    def _prepare(self, record, scale=2):
        record["box"] *= scale
        return record

    def __getitem__(self, idx):
        return self._prepare(self._get(idx))["box"].sum()


@unsafe()
def returned_by_a_method(folder):
    return {"dataset": Returned()}


class Items(Held):
    """Changes the values of a dict that it goes through."""

    def __getitem__(self, idx):
        for key, value in self.records[idx].items():
            if key == "box":
                value *= 2
        return self.records[idx]["box"].sum()


@unsafe()
def values_of_a_dict(folder):
    return {"dataset": Items()}


class Walrus(Held):
    """Changes what an expression names in passing."""

    def __getitem__(self, idx):
        if (box := self.records[idx]["box"]).sum() > 0:
            box += 1
        return box.sum()


@unsafe()
def named_in_passing(folder):
    return {"dataset": Walrus()}


class TupleOfAttributes(Held):
    """Swaps two of its own attributes."""

    first, second = 1, 2

    def __getitem__(self, idx):
        self.first, self.second = self.second, self.first
        return self.first


@unsafe()
def attributes_swapped(folder):
    return {"dataset": TupleOfAttributes()}


class LoopVariable(Held):
    """Has an attribute of its own as the variable of a loop."""

    def __getitem__(self, idx):
        total = getattr(self, "position", 0)
        for self.position in range(idx):
            total += self.position
        return total


@unsafe()
def attribute_as_a_loop_variable(folder):
    return {"dataset": LoopVariable()}


class ContextVariable(Held):
    """Has an attribute of its own as what a with block names."""

    def __init__(self, path):
        super().__init__()
        self.path = path
        path.write_text("text " * 100)

    def __getitem__(self, idx):
        with open(self.path) as self.file:
            self.file.seek(idx)
            return self.file.read(idx + 1)


@unsafe()
def attribute_that_a_with_block_names(folder):
    return {"dataset": ContextVariable(folder / "text.txt")}
