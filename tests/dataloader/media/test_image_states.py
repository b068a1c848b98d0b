"""An image loader goes on where its state was taken, on any number of ranks."""

from __future__ import annotations

import itertools
import json
import linecache
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.dataloader.media.image_loading import contents, contents_of, make

from spdl.source import ImageFolder, ImageList
from spdl.testing import assert_resumes_exactly

if TYPE_CHECKING:
    from spdl.dataloader import ImageLoader


def test_a_state_goes_on_in_the_middle(photos: ImageFolder) -> None:
    whole = make(photos, shuffle=True, augment="train")
    expected = [contents(whole), contents(whole)]
    for cut in range(7):
        loader = make(photos, shuffle=True, augment="train")
        first = contents(itertools.islice(iter(loader), cut)) if cut else []
        state = json.loads(json.dumps(loader.state_dict()))
        for _ in range(2):
            # Twice, since restoring must not depend on what was restored before.
            other = make(photos, shuffle=True, augment="train", num_threads=1)
            other.load_state_dict(state)
            other.set_epoch(0)
            assert other.state_dict() == state
            assert first + contents(other) == expected[0]
            assert other.epoch == 1
            assert contents(other) == expected[1]


def test_a_state_is_for_any_number_of_ranks_and_any_batch_size(photos: ImageFolder) -> None:
    everything = sorted(contents(make(photos, shuffle=True)))
    for (before, size), (after, next_size) in itertools.product([(1, 4), (2, 3), (3, 1)], repeat=2):
        loaders = [make(photos, size, shuffle=True, rank=rank, world_size=before) for rank in range(before)]
        iterators = [iter(loader) for loader in loaders]
        received = [entry for _ in range(2) for iterator in iterators for entry in contents([next(iterator)])]
        states = [loader.state_dict() for loader in loaders]
        assert all(state == states[0] for state in states)
        for rank in range(after):
            loader = make(photos, next_size, shuffle=True, rank=rank, world_size=after)
            loader.load_state_dict(states[0])
            received += contents(loader)
        assert set(received) == set(everything)
        # The last step may take images twice only if there are fewer than ranks.
        assert len(received) - len(everything) < after


@pytest.mark.parametrize("on_error", ["skip", "refill"])
def test_any_two_cuts_lose_nothing(broken: ImageFolder, on_error: str) -> None:
    def make_loader(batch_size: int) -> ImageLoader:
        return make(broken, batch_size, shuffle=True, on_error=on_error, num_threads=1, size=4)

    assert_resumes_exactly(make_loader, batch=(1, 4), epochs=2, items=contents_of)


def test_any_two_cuts_lose_nothing_on_other_ranks(photos: ImageFolder) -> None:
    def make_loader(batch_size: int, rank: int, world_size: int) -> ImageLoader:
        place = {"rank": rank, "world_size": world_size}
        return make(photos, batch_size, shuffle=True, augment="train", num_threads=1, size=4, **place)

    assert_resumes_exactly(make_loader, world=(1, 2, 3), batch=(1, 3), cuts=(0, 1, 3), items=contents_of)


def test_a_state_at_the_end_of_an_epoch(photos: ImageFolder) -> None:
    loader = make(photos, drop_last=True)
    states = [loader.state_dict() for _ in loader]
    other = make(photos, 1, drop_last=True)
    other.load_state_dict(states[-1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(other) == []
    assert other.epoch == 1
    assert loader.state_dict()["epoch"] == 1
    # What a loop that was left did not read is not read by the next one.
    next(iter(loader))
    assert next(iter(loader)).epoch == 2


def test_an_epoch_ends_once(photos: ImageFolder) -> None:
    loader = make(photos)
    iterator = iter(loader)
    assert len(list(iterator)) == 6
    for _ in range(3):
        assert next(iterator, None) is None
    assert loader.epoch == 1


def test_a_signal_handler_may_take_the_state(photos: ImageFolder) -> None:
    loader = make(photos, batch_size=1, num_threads=1)
    expected = [index for index, _ in contents(make(photos, batch_size=1))]
    received: list[int] = []
    states: list[tuple[int, int]] = []

    def note(frame: Any, event: str, argument: Any) -> Any:
        # Between any two lines of a read, as a handler may come; the last two call nothing, so none comes between them.
        file = frame.f_code.co_filename
        if "epoch_iterator" in file and linecache.getline(file, frame.f_lineno).strip() != "return batch":
            states.append((len(received), loader.state_dict()["position"]))
        return note

    sys.settrace(note)
    try:
        for batch in itertools.islice(loader, 5):
            received += batch.index.tolist()
    finally:
        sys.settrace(None)
    assert received == expected[:5]
    assert len(states) > 50
    assert all(count == position for count, position in states)


def test_two_loops_at_once_are_two_epochs(photos: ImageFolder) -> None:
    loader = make(photos)
    first = iter(loader)
    second = iter(loader)
    assert (next(first).epoch, next(second).epoch) == (0, 1)
    # The state is about the one that was read last.
    assert (loader.state_dict()["epoch"], loader.state_dict()["position"]) == (1, 4)
    next(first)
    assert (loader.state_dict()["epoch"], loader.state_dict()["position"]) == (0, 8)


def test_an_iterator_that_is_not_read_loses_nothing_of_a_restored_epoch(photos: ImageFolder) -> None:
    loader = make(photos)
    batches = iter(loader)
    next(batches)
    resumed = make(photos)
    resumed.load_state_dict(loader.state_dict())
    iter(resumed)
    assert [batch.index.tolist() for batch in resumed] == [batch.index.tolist() for batch in batches]
    assert next(iter(resumed)).epoch == 1


def test_other_states_are_refused(photos: ImageFolder, broken: ImageFolder) -> None:
    state = make(photos, seed=3).state_dict()
    other = ImageList(photos.samples)
    wrong: Any
    for source, options, message in (
        (photos, {"seed": 4}, "saved with seed=3, and this loader has seed=4"),
        (
            photos,
            {"seed": 3, "shuffle": True},
            r"saved with order=.sequential\(n=23\).*this loader has order=.shuffled\(n=23, seed=3\)",
        ),
        (other, {"seed": 3}, "another dataset: its fingerprint is 'ImageFolder:23:.*ImageLoader is 'ImageList:23:"),
    ):
        with pytest.raises(ValueError, match=message):
            make(source, **options).load_state_dict(state)
    loader = make(photos, seed=3)
    for wrong, message in (
        ({}, "is not a state that .*, and this is an ImageLoader"),
        ({"model": 1}, "is not a state that"),
        ({**state, "version": 99}, "version 99"),
        ({**state, "position": 2}, "is damaged: its 'checksum' is"),
        ({key: it for key, it in state.items() if key != "checksum"}, "is damaged: it has no 'checksum'"),
        ({**state, "spdl": "ClipLoader"}, "is of a ClipLoader, and this is an ImageLoader"),
        ({key: it for key, it in state.items() if key != "seed"}, "is damaged: its 'checksum' is"),
    ):
        with pytest.raises(ValueError, match=message):
            loader.load_state_dict(wrong)
    with pytest.raises(TypeError, match="must be a dict"):
        loader.load_state_dict([])  # type: ignore[arg-type]
    loader.load_state_dict(state)
    # The same photos elsewhere are the same.
    make(ImageFolder(photos.root + "/../" + Path(photos.root).name), seed=3).load_state_dict(state)
    assert broken.fingerprint() == photos.fingerprint()
