"""A state that is loaded when there is an iterator already: it is heeded, or refused with the remedy."""

from __future__ import annotations

import copy
import io
import json
import pickle
import tarfile
import wave
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.io.av.media import clip
from tests.io.images import make_jpeg

from spdl.dataloader import ArrayLoader, ArrayRows, AudioLoader, ClipLoader, ImageLoader, ImageShards
from spdl.source import MediaList

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

COUNT, CUT, SIZE = 11, 3, 2
OPTIONS: dict[str, Any] = {"shuffle": True, "seed": 3, "output": "numpy", "num_threads": 2}


def _arrays(_root: Path) -> Any:
    rows = ArrayRows({"data": np.arange(COUNT).reshape(-1, 1), "label": np.arange(COUNT)})
    return ArrayLoader(rows, SIZE, data="data", label="label", **OPTIONS)


def _images(_root: Path) -> Any:
    images = [(make_jpeg(12, 10, seed=index), index) for index in range(COUNT)]
    return ImageLoader(images, SIZE, size=8, augment="train", **OPTIONS)


def _shards(root: Path) -> Any:
    path = root / "images.tar"
    if not path.exists():
        with tarfile.open(path, "w") as archive:
            for index in range(COUNT):
                for name, content in (("jpg", make_jpeg(12, 10, seed=index)), ("cls", b"%d" % index)):
                    member = tarfile.TarInfo(f"{index:02}.{name}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
    return ImageLoader(ImageShards(path), SIZE, size=8, **OPTIONS)


def _sounds(root: Path) -> Any:
    samples = np.random.default_rng(0).integers(-3000, 3000, (COUNT, 900), np.int16)
    # Written once: another loader may be reading them.
    for index in range(0 if (root / "00.wav").exists() else COUNT):
        with wave.open(str(root / f"{index:02}.wav"), "wb") as sound:
            sound.setparams((1, 2, 8000, 0, "NONE", ""))
            sound.writeframes(samples[index].tobytes())
    listed = MediaList([(root / f"{index:02}.wav", None, index) for index in range(COUNT)])
    return AudioLoader(listed, SIZE, sample_rate=8000, seconds=0.05, **OPTIONS)


def _clips(_root: Path) -> Any:
    listed = MediaList([(clip("h264.mp4"), None, index) for index in range(COUNT)])
    return ClipLoader(listed, SIZE, num_frames=2, fps=25, size=8, **OPTIONS)


LOADERS: dict[str, Callable[[Path], Any]] = {
    "arrays": _arrays,
    "images": _images,
    "shards": _shards,
    "sounds": _sounds,
    "clips": _clips,
}


@pytest.fixture(scope="module", params=LOADERS)
def make_any(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Any]:
    """Return a function that makes a loader of one kind."""
    root = tmp_path_factory.mktemp(request.param)
    return lambda: LOADERS[request.param](root)


@pytest.fixture
def make(tmp_path: Path) -> Callable[[], Any]:
    """Return a function that makes a loader of arrays."""
    return lambda: _arrays(tmp_path)


def plain(batches: Any) -> list[Any]:
    return [
        {name: it.tolist() if isinstance(it, np.ndarray) else it for name, it in batch.fields().items()}
        for batch in batches
    ]


def taken(loader: Any) -> Any:
    return json.loads(json.dumps(loader.state_dict()))


@pytest.mark.parametrize("cut", [0, CUT, 6])
def test_an_iterator_of_which_nothing_was_read_goes_on_from_the_state(make_any: Callable[[], Any], cut: int) -> None:
    loader = make_any()
    batches = iter(loader)
    plain(islice(batches, cut))
    state = taken(loader)
    rest, following = plain(batches), plain(loader)
    assert rest != following
    other = make_any()
    late = iter(other)
    other.load_state_dict(state)
    assert taken(other) == state
    assert plain(late) == rest
    assert plain(other) == following


def test_a_state_between_epochs_is_heeded_as_well(make_any: Callable[[], Any]) -> None:
    loader = make_any()
    plain(loader)
    state = taken(loader)
    late = iter(loader)
    following = plain(loader)
    loader.load_state_dict(state)
    assert plain(late) == following


def test_an_iterator_that_was_read_is_to_be_ended_first(make_any: Callable[[], Any]) -> None:
    loader = make_any()
    name = type(loader).__name__
    batches = iter(loader)
    state = taken(loader)
    first = plain(islice(batches, 1))
    with pytest.raises(RuntimeError, match=rf"this {name} was read, and has not come to its end.*`close\(\)`"):
        loader.load_state_dict(state)
    # It was not loaded.
    now = taken(loader)
    assert now["position"] == SIZE
    other = make_any()
    other.load_state_dict(now)
    rest = plain(islice(batches, 2))
    assert plain(islice(iter(other), 2)) == rest
    batches.close()
    loader.load_state_dict(state)
    assert plain(islice(iter(loader), 3)) == first + rest


@pytest.mark.parametrize("kept_before", [True, False])
def test_the_first_that_is_read_takes_the_state_up(make: Callable[[], Any], *, kept_before: bool) -> None:
    loader = make()
    batches = iter(loader)
    plain(islice(batches, CUT))
    state = taken(loader)
    rest, following = plain(batches), plain(loader)
    other = make()
    # Bars of progress make one iterator and read another.
    kept = iter(other) if kept_before else None
    other.load_state_dict(state)
    kept = kept or iter(other)
    assert plain(other) == rest
    assert plain(kept) == following


def left(loader: Any) -> Any:
    for number, _ in enumerate(loader):
        if number == CUT:
            break


def failed(loader: Any) -> Any:
    with pytest.raises(ZeroDivisionError):
        [1 // (CUT - number) for number, _ in enumerate(loader)]


def looked_at(loader: Any) -> Any:
    next(iter(loader))


def kept_from_before(loader: Any) -> Any:
    kept = iter(loader)
    next(kept)
    plain(loader)
    return kept


@pytest.mark.parametrize("read", [plain, left, failed, looked_at, kept_from_before])
def test_an_iterator_that_nobody_reads_does_not_stand_in_the_way(
    make: Callable[[], Any], read: Callable[[Any], Any]
) -> None:
    loader = make()
    batches = iter(loader)
    plain(islice(batches, CUT))
    state = taken(loader)
    rest = plain(batches)
    kept = read(loader)
    loader.load_state_dict(state)
    assert taken(loader) == state
    assert plain(loader) == rest
    del kept


def test_an_older_iterator_does_not_go_on_as_if_no_state_had_been_loaded(make: Callable[[], Any]) -> None:
    loader = make()
    older = iter(loader)
    next(older)
    plain(loader)
    state = taken(loader)
    loader.load_state_dict(state)
    with pytest.raises(RuntimeError, match=r"loaded after this iterator was begun.* ArrayLoader again"):
        next(older)
    assert taken(loader) == state
    assert loader.epoch == 2
    assert len(plain(loader)) == 6


def test_the_state_tells_of_the_iterator_that_is_read(make: Callable[[], Any]) -> None:
    whole = make()
    epochs = [plain(whole) for _ in range(3)]
    loader = make()
    batches = iter(loader)
    plain(islice(batches, 4))
    # A look at the first batch.
    assert plain([next(iter(loader))]) == epochs[1][:1]
    assert loader.epoch == 1
    next(batches)
    assert loader.epoch == 0
    other = make()
    other.load_state_dict(taken(loader))
    assert plain(other) == epochs[0][5:]
    assert plain(other) == epochs[1]
    assert plain(batches) == epochs[0][5:]
    other.load_state_dict(taken(loader))
    assert plain(other) == plain(loader) == epochs[2]


def test_a_chosen_epoch_is_begun_although_an_older_iterator_is_read_on(make: Callable[[], Any]) -> None:
    whole = make()
    epochs = [plain(whole) for _ in range(4)]
    loader = make()
    batches = iter(loader)
    next(batches)
    loader.set_epoch(3)
    assert taken(loader)["epoch"] == 3
    next(batches)
    state = taken(loader)
    assert (state["epoch"], state["position"]) == (0, 2 * SIZE)
    assert plain(batches) == epochs[0][2:]
    assert taken(loader)["epoch"] == 3
    assert plain(loader) == epochs[3]


class Refusing(list[Any]):
    """Cannot be had once, for a reason that looks like a loader's own timeout."""

    def __getitem__(self, index: Any) -> Any:
        if index == 4:
            raise TimeoutError(index)
        return super().__getitem__(index)


def test_a_timeout_of_the_source_ends_the_epoch_where_it_is() -> None:
    samples = Refusing([(make_jpeg(12, 10, seed=index), index) for index in range(COUNT)])
    loader = ImageLoader(samples, SIZE, size=8, output="numpy", num_threads=1)
    batches = iter(loader)
    assert len(plain(islice(batches, 2))) == 2
    with pytest.raises(TimeoutError, match="4"):
        next(batches)
    # Going on would leave out the batch that failed.
    assert list(batches) == []
    assert taken(loader)["position"] == 2 * SIZE
    loader.load_state_dict(taken(loader))


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])  # noqa: S301
def test_a_copy_has_iterators_of_its_own(make: Callable[[], Any], duplicate: Callable[[Any], Any]) -> None:
    loader = make()
    state = taken(loader)
    next(batches := iter(loader))
    other = duplicate(loader)
    other.load_state_dict(state)
    assert len(plain(other)) == 6
    assert len(plain(batches)) == 5
