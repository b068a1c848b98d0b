"""What a worker thread changes in its indices is its own, as in PyTorch's worker processes."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

torch = pytest.importorskip("torch")
from torch.utils.data import BatchSampler, DataLoader, SubsetRandomSampler  # noqa: E402

from spdl.dataloader import PyTorchDataLoader  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SIZE = 6


class Items:
    """Loads an item with a function of its index."""

    def __init__(self, load: Callable[[Any], Any]) -> None:
        self.load = load

    def __len__(self) -> int:
        return SIZE

    def __getitem__(self, index: Any) -> Any:
        return self.load(index)


class Batches(Items):
    """Loads the items of a batch with a function of its indices."""

    def __getitems__(self, indices: Any) -> Any:
        return self.load(indices)


class Keeping:
    """Yields indices that it keeps."""

    def __init__(self, indices: list[Any]) -> None:
        self.indices = indices

    def __len__(self) -> int:
        return len(self.indices)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.indices)


def append(index: list[int]) -> int:
    index.append(1)
    return len(index)


def reverse(indices: list[int]) -> list[int]:
    indices.reverse()
    return indices


def pop(indices: list[int]) -> list[int]:
    indices.pop()
    return indices


def clear(indices: list[int]) -> list[int]:
    items = list(indices)
    indices.clear()
    return items


def sort(indices: list[int]) -> list[int]:
    indices.sort(reverse=True)
    return indices


def count(index: dict[str, int]) -> int:
    index["n"] = index.get("n", 0) + 1
    return index["n"]


def append_below(index: tuple[int, list[int]]) -> int:
    index[1].append(0)
    return len(index[1])


def same(index: Any) -> Any:
    return index


def lists() -> list[Any]:
    return [[number] for number in range(SIZE)]


def batches() -> list[Any]:
    return [[0, 1, 2], [3, 4, 5]]


def dicts() -> list[Any]:
    return [{"number": number} for number in range(SIZE)]


def tuples() -> list[Any]:
    return [(number, [number]) for number in range(SIZE)]


CASES = {
    "item_appends": (Items, append, lambda: {"sampler": lists(), "batch_size": 2}),
    "item_appends_to_what_a_sampler_keeps": (Items, append, lambda: {"sampler": Keeping(lists()), "batch_size": 2}),
    "item_appends_below_a_tuple": (Items, append_below, lambda: {"sampler": tuples(), "batch_size": 2}),
    "item_changes_a_dict": (Items, count, lambda: {"sampler": dicts(), "batch_size": 2}),
    "item_changes_an_element": (Items, append, lambda: {"sampler": lists(), "batch_size": None}),
    "item_changes_what_pytorch_draws": (
        Items,
        append,
        lambda: {"sampler": SubsetRandomSampler(lists(), generator=torch.Generator()), "batch_size": 2},
    ),
    "item_changes_what_pytorch_batches": (
        Items,
        append,
        lambda: {"batch_sampler": BatchSampler(lists(), 2, drop_last=False)},
    ),
    "batch_is_reversed": (Batches, reverse, lambda: {"batch_sampler": batches()}),
    "batch_is_shortened": (Batches, pop, lambda: {"batch_sampler": batches()}),
    "batch_is_cleared": (Batches, clear, lambda: {"batch_sampler": batches()}),
    "batch_is_sorted": (Batches, sort, lambda: {"batch_sampler": batches()}),
    "batch_of_what_a_sampler_keeps_is_reversed": (Batches, reverse, lambda: {"batch_sampler": Keeping(batches())}),
    "loop_changes_the_indices": (Batches, same, lambda: {"batch_sampler": batches(), "collate_fn": same}),
    "loop_changes_the_index": (Items, same, lambda: {"sampler": lists(), "batch_size": None, "collate_fn": same}),
    "collation_changes_the_indices": (Batches, same, lambda: {"batch_sampler": batches(), "collate_fn": reverse}),
    "collation_appends": (Batches, same, lambda: {"batch_sampler": batches(), "collate_fn": append}),
}


def _epochs(loader: Any) -> list[str]:
    """Return what four epochs yield, to a loop that changes what it gets."""
    found = []
    for _ in range(4):
        for batch in loader:
            found.append(repr(batch))
            if isinstance(batch, list):
                batch.append(0)
    return found


@pytest.mark.parametrize(("kind", "load", "arguments"), [pytest.param(*it, id=name) for name, it in CASES.items()])
def test_changed_indices_are_the_workers_own(
    kind: type[Items], load: Callable[[Any], Any], arguments: Callable[[], dict[str, Any]]
) -> None:
    loader = PyTorchDataLoader(kind(load), num_workers=2, **arguments())
    assert loader.worker_choice.kind == "thread", loader.worker_choice.reason
    torch.manual_seed(3)
    expected = _epochs(DataLoader(kind(load), num_workers=1, **arguments()))
    torch.manual_seed(3)
    assert _epochs(loader) == expected


class Reusing(Keeping):
    """Yields the same list each time, with other numbers."""

    def __iter__(self) -> Iterator[Any]:
        batch: list[int] = []
        for number in self.indices:
            batch.clear()
            batch.extend([number, number + 1])
            yield batch


def test_a_list_that_a_sampler_fills_again_is_what_it_was() -> None:
    # PyTorch's workers get it as it is when it is sent, which is later: this is what PyTorch's loop gives by itself.
    expected = [batch.tolist() for batch in DataLoader(Items(same), batch_sampler=Reusing([0, 2, 4]))]
    loader = PyTorchDataLoader(Items(same), batch_sampler=Reusing([0, 2, 4]), num_workers=2)
    assert loader.worker_choice.kind == "thread"
    assert [batch.tolist() for batch in loader] == expected


def test_an_index_that_cannot_be_copied_is_an_error_in_its_turn() -> None:
    loader = PyTorchDataLoader(Items(type), sampler=[0, threading.Lock()], batch_size=None, num_workers=1)
    batches = iter(loader)
    assert next(batches) is int
    with pytest.raises(TypeError, match="pickle"):
        next(batches)
