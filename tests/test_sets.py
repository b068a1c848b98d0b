"""Sets, whose order is another one in each process, wherever ranks, rows or a resumed run depend on the order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from spdl.dataloader import ArrayLoader, DataLoader, MapIterator, TextLoader, Tokenize
from spdl.io import load_image_batch, pad
from spdl.pipeline import PipelineBuilder
from spdl.source import (
    JsonLines,
    MergeIterator,
    MixedOrder,
    ParquetFiles,
    StreamedJsonLines,
    TarShards,
    TokenFiles,
    shard,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def ids(text: str) -> list[int]:
    return list(map(ord, text))


WAYS: list[Callable[[Any], Any]] = [
    lambda given: TextLoader(given, 1, length=8, tokenizer=ids),
    Tokenize(ids),
    lambda given: shard(given, 0, 2),
    lambda given: MapIterator({"a": 1}, given),
    MergeIterator,
    MixedOrder,
    pad,
    lambda given: load_image_batch(given, width=1, height=1),
    TarShards,
    JsonLines,
    StreamedJsonLines,
    ParquetFiles,
    TokenFiles,
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", [set, frozenset])
def test_a_set_is_refused_where_order_matters(way: Callable[[Any], Any], kind: type) -> None:
    with pytest.raises(TypeError, match=r"must be in an order, such as a list, got .*pass it sorted"):
        way(kind(["a", "b"]))


def test_rows_of_arrays_refuse_a_set_of_files() -> None:
    with pytest.raises(TypeError, match=r"`source` must be a sequence"):
        ArrayLoader({"a.npz"}, 1)  # type: ignore[arg-type]


def test_a_pipeline_over_a_set_runs_but_is_not_resumed() -> None:
    def build() -> Any:
        return PipelineBuilder().add_source({"a", "b"}).add_sink().build(num_threads=1)

    with build().auto_stop() as pipeline:
        assert set(pipeline) == {"a", "b"}
        state = pipeline.state_dict()
    with pytest.raises(ValueError, match=r"the source is a set, .*Pass it sorted"):
        build().load_state_dict(state)
    loader: DataLoader[str, list[str]] = DataLoader({"a", "b"}, batch_size=1)
    next(iter(loader))
    resumed: DataLoader[str, list[str]] = DataLoader({"a", "b"}, batch_size=1)
    with pytest.raises(ValueError, match="the source is a set"):
        resumed.load_state_dict(loader.state_dict())
