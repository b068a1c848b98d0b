"""Loaders with an order that chooses samples: no others come, whatever fails, and what it gives is looked at."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from spdl.dataloader import ImageLoader, TextLoader
from spdl.source import BucketedOrder, MixedOrder, ShuffledOrder, WeightedOrder

PHOTO = b"P6 4 3 255 " + bytes(4 * 3 * 3)


class Chosen:
    """Some positions of a source, shuffled."""

    def __init__(self, chosen: list[int]) -> None:
        self.chosen = np.array(chosen, dtype=np.int64)
        self.order = ShuffledOrder(max(1, len(chosen)), seed=2)
        self.fingerprint = f"chosen({chosen})"

    def __len__(self) -> int:
        return len(self.chosen)

    def take(self, epoch: int, positions: Any) -> Any:
        return self.chosen[self.order.take(epoch, positions)]


def loader_of(order: Any, broken: set[int] | None = None, **options: Any) -> ImageLoader:
    photos = [(b"no photo" if number in (broken or ()) else PHOTO, number) for number in range(60)]
    return ImageLoader(photos, 4, size=8, output="numpy", order=order, **options)


def test_replacements_are_chosen_samples_too() -> None:
    chosen, broken = list(range(0, 60, 3)), {0, 9, 30, 33, 51}
    loader = loader_of(Chosen(chosen), broken, on_error="refill")
    for _ in range(3):
        labels = [label for batch in loader for label in batch.label.tolist()]
        assert len(labels) == len(chosen)
        assert set(labels) == set(chosen) - broken
    assert {failure.replacement for failure in loader.failures} <= set(chosen) - broken


def test_replacements_are_the_same_in_each_run() -> None:
    runs = [
        [batch.label.tolist() for batch in loader_of(Chosen(list(range(0, 60, 3))), {0, 9, 30}, on_error="refill")]
        for _ in range(2)
    ]
    assert runs[0] == runs[1]


def test_an_order_that_chooses_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"`order` must be an order of at least one sample.* It chooses none\."):
        loader_of(Chosen([]))


@pytest.mark.parametrize(
    "make_order",
    [
        lambda count: WeightedOrder([1] * count, num_draws=9),
        lambda count: BucketedOrder([1] * count, group=4),
        lambda count: MixedOrder([20, count - 20], weights=[1, 1], num_samples=9),
    ],
)
def test_an_order_of_another_number_of_samples_is_refused(make_order: Any) -> None:
    assert list(loader_of(make_order(60)))
    for count in (59, 61):
        with pytest.raises(ValueError, match=f"one of the 60 samples of `source`, .* This one is of {count} items"):
            loader_of(make_order(count))


@pytest.mark.parametrize(
    ("give", "message"),
    [
        (lambda positions: positions[:-1], "must return 8 integers for 8 positions"),
        (lambda positions: positions + 0.5, "must return 8 integers"),
        (lambda positions: [str(position) for position in positions], "must return 8 integers"),
        (lambda positions: positions - 2, "negative position -2"),
    ],
)
def test_what_an_order_gives_is_looked_at(give: Any, message: str) -> None:
    class Odd(Chosen):
        def take(self, epoch: int, positions: Any) -> Any:
            return give(positions)

    with pytest.raises((TypeError, IndexError), match=message):
        list(loader_of(Odd(list(range(8)))))


def test_a_mix_without_repetition_says_the_same_at_its_end_in_all_loaders() -> None:
    mix = MixedOrder([20, 40], repeat=False)
    text = TextLoader(["a"] * 60, 1, length=4, tokenizer=lambda _: [1], order=mix, output="numpy", num_threads=1)
    for loader in (loader_of(mix), text):
        list(loader)
        with pytest.raises(ValueError, match=r"^Epoch 1 of a MixedOrder with repeat=False.*Begin another stage"):
            list(loader)


def test_a_list_of_positions_is_as_good_as_an_array() -> None:
    class Listed(Chosen):
        def take(self, epoch: int, positions: Any) -> Any:
            return super().take(epoch, positions).tolist()

    labels = [label for batch in loader_of(Listed([5, 6, 7, 20])) for label in batch.label.tolist()]
    assert sorted(labels) == [5, 6, 7, 20]
