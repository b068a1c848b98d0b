"""A DataLoader that chooses its numbers of threads."""

from __future__ import annotations

import pickle
import time
from typing import Any

import pytest

from spdl.dataloader import DataLoader


def read(item: int) -> int:
    time.sleep(0.01)
    return item


def gather(items: list[int]) -> list[int]:
    time.sleep(0.01)
    return items


def make(**options: Any) -> DataLoader[int, list[int]]:
    arguments: dict[str, Any] = {"preprocessor": read, "batch_size": 4, "aggregator": gather, **options}
    return DataLoader(range(400), num_threads="auto", **arguments)


def test_num_threads_auto_changes_no_result() -> None:
    loader = make(output_order="input")
    assert [item for batch in loader for item in batch] == list(range(400))
    assert loader.tuned().concurrency.keys() == {"read", "gather"}
    assert min(loader.tuned().concurrency.values()) >= 1


# What is found depends on how fast threads really are. The rules are tested with measures that are made up.
@pytest.mark.long
def test_an_epoch_goes_on_where_the_last_one_was() -> None:
    loader = make()
    list(loader)
    found = loader.tuned().concurrency
    for _ in loader:
        break
    assert loader.tuned().concurrency["read"] >= found["read"] > 1
    assert loader.tuned().concurrency["gather"] >= found["gather"]


@pytest.mark.parametrize("options", [{"aggregator": None}, {"preprocessor": None}, {"batch_size": None}])
def test_without_some_of_the_stages(options: dict[str, Any]) -> None:
    loader = make(**options)
    for _ in range(2):
        assert len(list(loader)) == (400 if "batch_size" in options else 100)
    assert len(loader.tuned().concurrency) == 2 - ("batch_size" not in options)


def test_the_transfer_keeps_its_thread() -> None:
    loader = make(transfer_fn=gather)
    assert len(list(loader)) == 100
    assert loader.tuned().concurrency["gather"] >= 1


def test_what_was_found_can_be_pickled() -> None:
    loader = make()
    list(loader)
    assert pickle.loads(pickle.dumps(loader)).tuned() == loader.tuned()  # noqa: S301 - our own.


def test_there_must_be_something_to_tell() -> None:
    with pytest.raises(RuntimeError, match="No iteration has ended"):
        make().tuned()
    with pytest.raises(RuntimeError, match='num_threads="auto"'):
        DataLoader(range(3)).tuned()


@pytest.mark.parametrize("wrong", ["automatic", "", None, 1.5])
def test_other_words_are_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match='`num_threads` must be an int of at least 1, or "auto"'):
        DataLoader(range(3), num_threads=wrong)
