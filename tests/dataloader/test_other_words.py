"""Arguments that other libraries have are refused, and the message says what to use here."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spdl.dataloader import ArrayLoader, AudioLoader, ClipLoader, DataLoader, ImageLoader, TableLoader, TextLoader
from spdl.pipeline import PipelineBuilder
from spdl.source import DistributedDeterministicSampler, DistributedRandomSampler, ImageFolder

if TYPE_CHECKING:
    from collections.abc import Callable

OF_ALL_LOADERS = {
    "batch_sampler": ["order", "batch_size"],
    "collate_fn": ["batch_transform"],
    "dataset": ["source"],
    "drop_remainder": ["drop_last"],
    "generator": ["seed"],
    "multiprocessing_context": [],
    "num_workers": ["num_threads"],
    "persistent_workers": [],
    "pin_memory": ["device"],
    "prefetch_factor": ["prefetch"],
    "sampler": ["shuffle", "order"],
    "worker_count": ["num_threads"],
    "worker_init_fn": [],
}
OF_MEDIA_LOADERS = {**OF_ALL_LOADERS, "target_transform": [], "transforms": ["transform"]}

CASES: list[tuple[Callable[..., Any], dict[str, list[str]]]] = [
    (ImageLoader, {**OF_MEDIA_LOADERS, "image_size": ["size"]}),
    (ClipLoader, {**OF_MEDIA_LOADERS, "frame_rate": ["fps"], "frames_per_clip": ["num_frames"]}),
    (AudioLoader, OF_MEDIA_LOADERS),
    (ArrayLoader, OF_MEDIA_LOADERS),
    (TableLoader, OF_ALL_LOADERS),
    (TextLoader, {**OF_ALL_LOADERS, "max_length": ["length"], "seq_length": ["length"]}),
    (
        DataLoader,
        {
            "collate_fn": ["aggregator"],
            "dataset": ["src", "preprocessor"],
            "num_workers": ["num_threads"],
            "pin_memory": ["transfer_fn"],
            "prefetch_factor": ["buffer_size"],
            "sampler": ["src"],
            "shuffle": ["src"],
            "transform": ["preprocessor"],
        },
    ),
    (PipelineBuilder().add_source([1]).pipe, {"num_threads": ["concurrency"], "num_workers": ["concurrency"]}),
    (PipelineBuilder().add_source([1]).build, {"concurrency": ["num_threads"], "num_workers": ["num_threads"]}),
    (DistributedRandomSampler, {"num_replicas": ["world_size"]}),
    (DistributedDeterministicSampler, {"num_replicas": ["world_size"]}),
]


@pytest.mark.parametrize(
    ("made", "word", "ours"), [(made, word, ours) for made, words in CASES for word, ours in words.items()]
)
def test_an_argument_of_another_library_is_refused_with_ours(
    made: Callable[..., Any], word: str, ours: list[str]
) -> None:
    with pytest.raises(TypeError) as caught:
        made([], 2, **{word: 2})
    message = str(caught.value)
    assert f"has no argument `{word}`: " in message
    assert re.search(rf"\({re.escape(__file__)}:\d+\)", message), "the line is that of the call"
    # Each of our words is an argument here, and theirs is none.
    assert re.findall(r"`(\w+)`", message)[1:] == ours
    assert inspect.signature(made).parameters.keys() >= set(ours) - {word}
    assert word not in inspect.signature(made).parameters


def test_several_are_refused_at_once() -> None:
    with pytest.raises(TypeError, match=r"^ImageLoader has no argument `num_workers`: use .*; no `pin_memory`: use "):
        ImageLoader([], 2, size=8, num_workers=4, pin_memory=True)  # type: ignore[call-arg]


@pytest.mark.parametrize(
    ("source", "remedy"),
    [
        ("photos", r"ImageFolder\(path\)"),
        (Path("photos"), r"ImageFolder\(path\)"),
        (Path().glob("*.jpg"), "a list of what it yields"),
        ({"a": 1}, "keys, not positions"),
    ],
)
def test_a_source_that_is_no_sequence_comes_with_a_remedy(source: Any, remedy: str) -> None:
    with pytest.raises(TypeError, match=rf"`source` must be a sequence of samples, .*{remedy}"):
        ImageLoader(source, 2, size=8)


@pytest.mark.parametrize("word", ["target_transform", "transform"])
def test_a_folder_refers_to_its_loader(word: str) -> None:
    with pytest.raises(TypeError, match=rf"^ImageFolder has no argument `{word}`: pass `transform` to the loader"):
        ImageFolder("photos", **{word: str})  # type: ignore[arg-type]


def test_an_argument_that_nobody_has_is_refused_by_python() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'nonsense'"):
        ImageLoader([], 2, nonsense=1)  # type: ignore[call-arg]
