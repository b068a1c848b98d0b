"""Labels stay with their images, whatever happens to others."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.dataloader.media.image_loading import BROKEN, COUNT, contents, make
from tests.io.images import make_jpeg
from tests.pipeline.support import written_by_hand

from spdl.io import LoadError, load_image_batch, to_numpy
from spdl.source import ImageFolder, ImageList

if TYPE_CHECKING:
    from spdl.dataloader import ImageLoader


@pytest.mark.parametrize("shuffle", [False, True])
def test_broken_images_are_left_out_with_their_labels(
    broken: ImageFolder,
    shuffle: bool,  # noqa: FBT001
) -> None:
    loader = make(broken, on_error="skip", shuffle=shuffle)
    batches = list(loader)
    for batch in batches:
        assert len(batch.image) == len(batch.label) == len(batch.path) == len(batch.index)
        for image, label, path, index in zip(batch.image, batch.label, batch.path, batch.index, strict=True):
            assert (path, label) == broken.samples[index]
            alone = load_image_batch([path], options=loader.options)
            assert (to_numpy(alone)[0] == image).all()
    assert sorted(index for index, _ in contents(batches)) == sorted(set(range(COUNT)) - set(BROKEN))
    assert sorted(failure.index for failure in loader.failures) == list(BROKEN)
    for failure in loader.failures:
        assert failure.path == broken[failure.index].path
        assert "cannot read the image" in failure.reason
        assert failure.replacement is None


def test_others_take_the_place_of_broken_images(broken: ImageFolder) -> None:
    loader = make(broken, on_error="refill")
    batches = list(loader)
    assert [len(batch.image) for batch in batches] == [4, 4, 4, 4, 4, 3]
    for batch in batches:
        for image, label, path, index in zip(batch.image, batch.label, batch.path, batch.index, strict=True):
            assert (path, label) == broken.samples[index]
            assert (to_numpy(load_image_batch([path], options=loader.options))[0] == image).all()
    indices = [index for index, _ in contents(batches)]
    for place, index in enumerate(indices):
        assert (index == place) == (place not in BROKEN)
    failures = {failure.index: failure.replacement for failure in loader.failures}
    assert set(failures) == set(BROKEN)
    assert all(indices[place] == failures[place] for place in BROKEN)
    # Which ones does not depend on batches, ranks or threads.
    for batch_size, world_size in ((1, 1), (2, 3), (COUNT, 1)):
        again = [
            (int(failure.index), failure.replacement)
            for rank in range(world_size)
            for batch in make(broken, batch_size, on_error="refill", rank=rank, world_size=world_size)
            for failure in batch.failures
        ]
        assert {index: it for index, it in again if index in BROKEN}.items() == failures.items()


def test_a_batch_of_broken_images(broken: ImageFolder) -> None:
    source = ImageList([(b"no photo", 0), (b"nor this", 1), (broken[0].path, 2)])
    batches = list(make(source, 2, on_error="skip"))
    assert [batch.index.tolist() for batch in batches] == [[2]]
    assert len(make(source, 2, on_error="skip", rank=0, world_size=1)) == 2
    with pytest.raises(LoadError, match="one batch less than the others") as raised:
        list(make(source, 1, on_error="skip", rank=0, world_size=3))
    assert "refill" in str(raised.value)
    batches = list(make(source, 2, on_error="refill"))
    assert [batch.index.tolist() for batch in batches] == [[2, 2], [2]]
    assert [batch.label.tolist() for batch in batches] == [[2, 2], [2]]


@pytest.mark.parametrize(
    ("on_error", "message"), [("skip", "All images of epoch 0 failed"), ("refill", "other samples")]
)
def test_nothing_but_broken_images_is_an_error(on_error: str, message: str) -> None:
    loader = make(ImageList([(b"no photo", 0)] * 3), on_error=on_error)
    with pytest.raises(LoadError, match=message):
        list(loader)


@pytest.mark.parametrize("count", [1, 2])
def test_a_rank_with_nothing_but_broken_images(count: int) -> None:
    samples = ImageList(count * [(make_jpeg(8, 8), 0), (b"no photo", 0)])
    loaders = [
        make(samples, 1, on_error="skip", even_batches=False, rank=rank, world_size=2, shuffle=False)
        for rank in range(2)
    ]
    assert len(list(loaders[0])) == count
    if count == 1:
        # One batch may be broken by chance, and no other rank waits for it.
        assert list(loaders[1]) == []
        return
    with pytest.raises(LoadError, match="All images of epoch 0 that rank 1 of 2 takes failed"):
        list(loaders[1])


def test_what_is_left_of_an_epoch_may_be_broken() -> None:
    samples = [(make_jpeg(8, 8), 0)] * 3 + [(b"no photo", 0)] * 3

    def make_loader() -> ImageLoader:
        return make(ImageList(samples), 3, on_error="skip")

    loader = make_loader()
    assert len(list(loader)) == 1
    batches = iter(loader)
    next(batches)
    resumed = make_loader()
    resumed.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    assert list(resumed) == []
    # Also those of the epoch before.
    assert [(failure.epoch, failure.times) for failure in resumed.failures] == [(1, 2)] * 3


def test_an_error_names_the_images_and_comes_in_its_turn(broken: ImageFolder) -> None:
    loader = make(broken, 6, on_error="raise")
    with pytest.raises(LoadError) as raised:
        next(iter(loader))
    message = str(raised.value)
    assert message.startswith("2 of 6 images of a batch could not be loaded")
    assert f"sample 1, {broken[1].path!r}: cannot read" in message
    assert 'on_error="skip"' in message
    loader.load_state_dict(written_by_hand({**loader.state_dict(), "epoch": 0, "position": 12}))
    iterator = iter(loader)
    assert next(iterator).index.tolist() == list(range(12, 18))
    with pytest.raises(LoadError, match="sample 20"):
        next(iterator)
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(iterator)
    # What the loop has not received is still to come.
    assert (loader.state_dict()["epoch"], loader.state_dict()["position"]) == (0, 18)
