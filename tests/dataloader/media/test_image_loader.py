"""The image loader delivers what its parts do one by one: labels stay with their images, whatever happens to others."""

from __future__ import annotations

import dataclasses
import gc
import itertools
import json
import pickle
import sys
import threading
import warnings
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest
import torch
from tests.io.images import make_jpeg, resize_with_pillow
from tests.pipeline.support import wait_until

from spdl.dataloader import ImageAugment, ImageBatch, ImageLoader
from spdl.io import (
    ImageOptions,
    LoadError,
    load_image_batch,
    random_color_jitter,
    random_flip,
    random_resized_crop,
    to_numpy,
)
from spdl.pipeline import ItemContext  # noqa: TC001 - the loader looks it up.
from spdl.source import EpochSampler, ImageFolder, ImageList, SequentialOrder, ShuffledOrder
from spdl.testing import assert_resumes_exactly

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
COUNT = 23


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> ImageFolder:
    """Photos of two classes, each of its own."""
    root = tmp_path_factory.mktemp("photos")
    for index in range(COUNT):
        name = root / ("cats" if index < 9 else "dogs") / f"{index:02}.jpg"
        name.parent.mkdir(exist_ok=True)
        name.write_bytes(make_jpeg(40 + index, 50 - index, seed=index))
    return ImageFolder(root)


@pytest.fixture(scope="module")
def broken(folder: ImageFolder, tmp_path_factory: pytest.TempPathFactory) -> ImageFolder:
    """The same photos, some of them damaged."""
    root = tmp_path_factory.mktemp("broken")
    for sample in folder:
        name = root / Path(sample.path).relative_to(folder.root)
        name.parent.mkdir(exist_ok=True)
        name.write_bytes(b"no photo" if sample.index in BROKEN else Path(sample.path).read_bytes())
    return ImageFolder(root)


BROKEN = (1, 2, 8, 20)


def make(source: Any, batch_size: int = 4, **options: Any) -> ImageLoader:
    return ImageLoader(source, batch_size, **{"size": 16, "output": "numpy", "num_threads": 2, **options})


def contents(batches: Any) -> list[tuple[int, bytes]]:
    return [
        (int(index), image.tobytes())
        for batch in batches
        for index, image in zip(batch.index, batch.image, strict=True)
    ]


def test_a_batch_unpacks_as_images_and_labels_and_has_more(folder: ImageFolder) -> None:
    loader = ImageLoader(folder, batch_size=4, size=16)
    assert len(loader) == 6
    seen = []
    for images, labels in loader:
        assert images.dtype == torch.float32
        assert images.shape[1:] == (3, 16, 16)
        assert labels.dtype == torch.int64
        seen += labels.tolist()
    assert seen == folder.targets
    batch = next(iter(loader))
    assert isinstance(batch, ImageBatch)
    assert batch[0] is batch.image is batch["image"]
    assert batch[1] is batch.label
    assert batch[:2] == (batch.image, batch.label) == tuple(batch)
    assert batch.path == [sample.path for sample in folder[:4]]
    assert batch.index.tolist() == [0, 1, 2, 3]
    assert (batch.epoch, batch.failures) == (1, ())
    with pytest.raises(KeyError, match="'mask' is no field"):
        batch["mask"]


def test_images_are_those_of_pillow(folder: ImageFolder) -> None:
    loader = make(folder, size=(20, 30), mode="stretch", layout="NHWC", dtype="uint8", batch_size=5)
    for batch in loader:
        for path, image in zip(batch.path, batch.image, strict=True):
            assert (image == resize_with_pillow(Path(str(path)).read_bytes(), 20, 30, "bilinear")).all()


def test_values_are_normalised(folder: ImageFolder) -> None:
    (batch,) = make(folder, batch_size=COUNT, mean=MEAN, std=STD)
    (raw,) = make(folder, batch_size=COUNT, dtype="uint8")
    mean, std = (np.array(each, np.float32).reshape(3, 1, 1) for each in (MEAN, STD))
    np.testing.assert_allclose(batch.image, (raw.image / np.float32(255) - mean) / std, atol=1e-5)


def test_training_images_depend_on_seed_epoch_and_index_alone(folder: ImageFolder) -> None:
    whole = dict(contents(make(folder, COUNT, augment="train", seed=5)))
    expected = load_image_batch(
        [sample.path for sample in folder],
        width=16,
        height=16,
        mode="stretch",
        interpolation="bilinear",
        layout="NCHW",
        dtype="float32",
        crop=random_resized_crop(range(COUNT), seed=5, epoch=0),
        flip=random_flip(range(COUNT), seed=5, epoch=0),
    )
    assert list(whole.values()) == [image.tobytes() for image in to_numpy(expected)]
    for options in ({"batch_size": 3}, {"num_threads": 7}, {"shuffle": True}, {"prefetch": 9}):
        assert dict(contents(make(folder, augment="train", seed=5, **options))) == whole
    loader = make(folder, augment="train", seed=5)
    list(loader)
    assert set(contents(loader)).isdisjoint(whole.items())
    assert set(contents(make(folder, augment="train", seed=6))).isdisjoint(whole.items())


def test_augmentation_can_be_chosen(folder: ImageFolder) -> None:
    plain = dict(contents(make(folder)))
    assert dict(contents(make(folder, augment=ImageAugment(scale=None, flip=0)))) == plain
    (batch,) = make(folder, COUNT, augment=ImageAugment(scale=None, flip=1.0))
    assert dict(contents([batch.replace(image=batch.image[..., ::-1])])) == plain


def test_colours_can_change(folder: ImageFolder) -> None:
    ranges: dict[str, Any] = {"brightness": 0.4, "contrast": 0.3, "saturation": (0.5, 1), "hue": 0.1}
    changed = dict(contents(make(folder, augment=ImageAugment(scale=None, flip=0, **ranges), seed=2)))
    expected = load_image_batch(
        [sample.path for sample in folder],
        options=make(folder).options,
        jitter=random_color_jitter(range(COUNT), seed=2, epoch=0, **ranges),
    )
    assert list(changed.values()) == [image.tobytes() for image in to_numpy(expected)]


def one_hot(labels: Any) -> Any:
    return np.eye(2, dtype=np.float32)[labels]


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_mixup_blends_images_and_labels(folder: ImageFolder, layout: str) -> None:
    options: dict[str, Any] = {"batch_size": COUNT, "shuffle": True, "layout": layout}
    (plain,) = make(folder, **options, augment=ImageAugment(scale=None, flip=0))
    (mixed,) = make(folder, **options, augment=ImageAugment(scale=None, flip=0, mixup=0.8))
    others, labels = np.roll(plain.image, 1, axis=0), np.roll(one_hot(plain.label), 1, axis=0)
    # The share that leaves the least difference is the one that was drawn.
    shares = [
        np.clip(np.vdot(one - two, it - two) / np.vdot(one - two, one - two), 0, 1)
        for one, two, it in zip(plain.image, others, mixed.image, strict=True)
    ]
    for place, share in enumerate(shares):
        blend = share * plain.image[place] + (1 - share) * others[place]
        np.testing.assert_allclose(mixed.image[place], blend, atol=1e-5)
        label = share * one_hot(plain.label)[place] + (1 - share) * labels[place]
        np.testing.assert_allclose(mixed.label[place], label, atol=1e-4)
    assert len(set(shares)) == COUNT
    assert mixed.index.tolist() == plain.index.tolist()


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
def test_cutmix_puts_a_rectangle_of_one_image_into_another(folder: ImageFolder, layout: str, dtype: str) -> None:
    options: dict[str, Any] = {"batch_size": COUNT, "layout": layout, "dtype": dtype, "size": (24, 16)}
    (plain,) = make(folder, **options)
    (mixed,) = make(folder, **options, augment=ImageAugment(scale=None, flip=0, cutmix=1.0))
    channel = 3 if layout == "NHWC" else 1
    own = (mixed.image == plain.image).all(axis=channel)
    other = (mixed.image == np.roll(plain.image, 1, axis=0)).all(axis=channel)
    assert (own | other).all()
    labels = one_hot(plain.label)
    sizes = set()
    for place in range(COUNT):
        rows, columns = np.nonzero(~own[place])
        # Single pixels of both images may be the same by chance, but the rest is one rectangle.
        if len(rows):
            assert other[place][rows.min() : rows.max() + 1, columns.min() : columns.max() + 1].all()
        share = 1 - (len(rows) and np.ptp(rows) + 1) * (len(rows) and np.ptp(columns) + 1) / (24 * 16)
        expected = share * labels[place] + (1 - share) * np.roll(labels, 1, axis=0)[place]
        np.testing.assert_allclose(mixed.label[place], expected, atol=0.11)
        sizes.add(round(float(share), 3))
    assert len(sizes) > 10


def test_mixing_does_not_depend_on_threads_and_changes_with_the_epoch(folder: ImageFolder) -> None:
    augment = ImageAugment(mixup=0.2, cutmix=1)
    one, two = (make(folder, augment=augment, num_threads=threads) for threads in (1, 5))
    first = contents(one)
    assert first == contents(two)
    assert set(first).isdisjoint(contents(one))
    # A batch of one has nobody to be mixed with.
    (alone,) = make([folder[0]], augment=ImageAugment(scale=None, flip=0, cutmix=1, num_classes=3))
    assert alone.label.tolist() == [[1, 0, 0]]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"source": [("x", 1)]}, ValueError, "`num_classes`"),
        ({"dtype": "uint8"}, ValueError, "`dtype`.*`mixup`"),
    ],
)
def test_mistakes_in_mixing_are_explained(
    folder: ImageFolder, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make(**{"source": folder, "augment": ImageAugment(mixup=1), **options})


@pytest.mark.parametrize(("label", "error"), [("cat", TypeError), (0.5, TypeError), (2, ValueError), (-1, ValueError)])
def test_labels_that_cannot_be_mixed_are_errors(folder: ImageFolder, label: Any, error: type[Exception]) -> None:
    source = [(folder[0].path, label)]
    with pytest.raises(error, match="`label`"):
        list(make(source, augment=ImageAugment(mixup=1, num_classes=2)))


def test_each_epoch_has_its_order_and_repeats_with_the_seed(folder: ImageFolder) -> None:
    def orders(seed: int) -> list[list[int]]:
        loader = make(folder, shuffle=True, seed=seed)
        return [[index for index, _ in contents(loader)] for _ in range(3)]

    first = orders(3)
    assert all(sorted(order) == list(range(COUNT)) for order in first)
    assert len({tuple(order) for order in [*first, *orders(4)]}) == 6
    assert orders(3) == first
    loader = make(folder, shuffle=True, seed=3)
    loader.set_epoch(2)
    assert [index for index, _ in contents(loader)] == first[2]
    assert loader.epoch == 3


def test_options_can_be_a_record(folder: ImageFolder) -> None:
    options = ImageOptions(16, 16, "crop", "bilinear", layout="NCHW", dtype="float32", mean=MEAN, std=STD)
    assert contents(make(folder, size=None, options=options)) == contents(make(folder, mean=MEAN, std=STD))


@pytest.mark.parametrize("world_size", [1, 2, 3, 5, 8])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("batch_size", [1, 2, 4])
def test_ranks_share_an_epoch_in_equal_steps(
    folder: ImageFolder,
    world_size: int,
    drop_last: bool,  # noqa: FBT001
    batch_size: int,
) -> None:
    together = batch_size * world_size
    options: dict[str, Any] = {"world_size": world_size, "drop_last": drop_last, "shuffle": True, "num_threads": 1}
    if drop_last and together > COUNT:
        with pytest.raises(ValueError, match=f"{batch_size} on each of {world_size} ranks"):
            make(folder, batch_size, rank=0, **options)
        return
    loaders = [make(folder, batch_size, rank=rank, **options) for rank in range(world_size)]
    batches = [list(loader) for loader in loaders]
    steps = COUNT // together if drop_last else -(-COUNT // together)
    assert [len(each) for each in batches] == [len(loader) for loader in loaders] == [steps] * world_size
    indices = [index for each in batches for index, _ in contents(each)]
    left = 0 if drop_last else COUNT % together
    repeated = world_size - left if 0 < left < world_size else 0
    assert len(indices) == COUNT - (COUNT % together if drop_last else 0) + repeated
    assert len(set(indices)) == len(indices) - repeated


def test_a_place_in_torch_distributed_or_the_environment(folder: ImageFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    loader = make(folder, batch_size=3)
    assert (loader.rank, loader.world_size, len(loader)) == (1, 2, 4)
    assert next(iter(loader)).index.tolist() == [3, 4, 5]
    assert make(folder, rank=0, world_size=1).world_size == 1
    # What is initialised counts more, also if it is initialised after the loader was made.
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 2)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 4)
    assert (loader.rank, loader.world_size) == (2, 4)
    monkeypatch.undo()
    monkeypatch.setenv("RANK", "one")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match=r"RANK and WORLD_SIZE must be a number of a process.*'one'"):
        make(folder)
    monkeypatch.undo()
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "none")
    with pytest.raises(ValueError, match="LOCAL_WORLD_SIZE must be the number of processes"):
        list(make(folder, num_threads=None))


@pytest.mark.parametrize(("batch_size", "world_size", "drop_last"), [(1, 1, False), (4, 3, False), (3, 5, True)])
def test_samples_are_shared_as_the_sampler_shares_them(
    folder: ImageFolder,
    batch_size: int,
    world_size: int,
    drop_last: bool,  # noqa: FBT001
) -> None:
    options: dict[str, Any] = {"batch_size": batch_size, "world_size": world_size, "drop_last": drop_last}
    for rank in range(world_size):
        sampler = EpochSampler(COUNT, shuffle=True, seed=4, rank=rank, **options)
        loader = make(folder, shuffle=True, seed=4, rank=rank, **options)
        for _ in range(2):
            assert [batch.index.tolist() for batch in loader] == [list(map(int, it)) for it in sampler.batch_sampler]


class Dogs:
    """Only the second class, each image twice."""

    fingerprint = "dogs"

    def __len__(self) -> int:
        return 28

    def take(self, epoch: int, positions: Any, /) -> Any:
        return 9 + (positions + epoch) % 14


def test_an_order_of_ones_own(folder: ImageFolder) -> None:
    loader = make(folder, order=Dogs())
    for epoch in range(2):
        batches = list(loader)
        assert len(batches) == len(loader) == 7
        assert [label for batch in batches for label in batch.label.tolist()] == [1] * 28
        assert batches[0].index.tolist() == [9 + epoch, 10 + epoch, 11 + epoch, 12 + epoch]
    with pytest.raises(ValueError, match="order='dogs', and this loader has order='sequential"):
        make(folder).load_state_dict(loader.state_dict())


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


@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE"])
def test_half_an_environment_is_an_error_when_the_place_is_needed(
    folder: ImageFolder, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for it in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(it, raising=False)
    monkeypatch.setenv(name, "2")
    # torch.distributed may be initialised after it, and knows both.
    loader = make(folder)
    uses: list[Any] = [lambda it: next(iter(it)), len, lambda it: it.rank]
    for use in uses:
        with pytest.raises(ValueError, match=f"{name} is set and .* is not"):
            use(loader)
    monkeypatch.delenv(name)
    assert len(loader) == 6
    assert make(folder, rank=1, world_size=2).rank == 1


@pytest.mark.parametrize("name", ["epoch", "failures", "fields", "replace"])
def test_a_field_by_a_name_of_the_batch_is_refused(name: str) -> None:
    samples = [{"image": make_jpeg(8, 8), "label": 0, name: 1}]
    with pytest.raises(ValueError, match=f"rename '{name}'"):
        next(iter(make(samples, 1)))


@pytest.mark.parametrize("output", ["numpy", "torch"])
@pytest.mark.parametrize("labels", [list(np.array(["cat", "dog"])), [2**70, 1], [np.bytes_(b"x"), np.bytes_(b"y")]])
def test_labels_that_make_no_array_make_a_list(labels: list[Any], output: str) -> None:
    _, got = next(iter(make([(make_jpeg(8, 8), label) for label in labels], 2, output=output)))
    assert got == labels


def test_an_error_names_the_images_and_comes_in_its_turn(broken: ImageFolder) -> None:
    loader = make(broken, 6, on_error="raise")
    with pytest.raises(LoadError) as raised:
        next(iter(loader))
    message = str(raised.value)
    assert message.startswith("2 of 6 images of a batch could not be loaded")
    assert f"sample 1, {broken[1].path!r}: cannot read" in message
    assert 'on_error="skip"' in message
    loader.load_state_dict({**loader.state_dict(), "epoch": 0, "position": 12})
    iterator = iter(loader)
    assert next(iterator).index.tolist() == list(range(12, 18))
    with pytest.raises(LoadError, match="sample 20"):
        next(iterator)
    for _ in range(2):
        with pytest.raises(StopIteration):
            next(iterator)
    # What the loop has not received is still to come.
    assert (loader.state_dict()["epoch"], loader.state_dict()["position"]) == (0, 18)


class Extra(NamedTuple):
    image: Any
    label: str
    box: tuple[float, ...]
    weight: float


def test_any_record_is_a_sample(folder: ImageFolder) -> None:
    paths = [sample.path for sample in folder]
    batch = next(iter(make([Extra(path, "cat", (1.0, 2.0), 0.5) for path in paths])))
    assert (batch.label, batch.box) == (["cat"] * 4, [(1.0, 2.0)] * 4)
    assert batch.weight.tolist() == [0.5] * 4
    assert batch.weight.dtype == np.float32
    assert batch.path == paths[:4]
    plain = make(paths, on_error="skip")
    images, labels = next(iter(plain))
    assert labels is None
    assert (images == batch.image).all()
    dicts = [{"image": Path(path).read_bytes(), "label": np.arange(2), "id": path} for path in paths]
    batch = next(iter(make(dicts)))
    assert (batch.label.tolist(), batch.id, batch.path) == ([[0, 1]] * 4, paths[:4], [None] * 4)
    with pytest.raises(TypeError, match=r"`source\[1\]` must be a sample with the fields image, label"):
        list(make([{"image": paths[0], "label": 1}, {"image": paths[1]}]))
    with pytest.raises(TypeError, match=r"`source\[0\]`.*a field `image`"):
        list(make([{"picture": paths[0]}]))


def test_transforms_follow(folder: ImageFolder) -> None:
    def spoil(image: torch.Tensor, context: ItemContext) -> torch.Tensor:
        contexts.append((context.epoch, context.position, context.index))
        noise = torch.Generator().manual_seed(context.key(seed=7) % 2**63)
        return image[:, ::2] + torch.rand((), generator=noise)

    kinds = set()
    contexts: list[tuple[int, int, int]] = []

    def halve(batch: ImageBatch) -> dict[str, Any]:
        kinds.add(threading.current_thread())
        return {"pixels": batch.image / 2, "label": batch.label}

    options: dict[str, Any] = {"output": "torch", "shuffle": True, "transform": spoil, "batch_transform": halve}
    loader = make(folder, **options)
    batches = list(loader)
    order = ShuffledOrder(COUNT, seed=0).take(0, np.arange(COUNT))
    assert sorted(contexts) == [(0, position, int(index)) for position, index in enumerate(order)]
    assert batches[0]["pixels"].shape == (4, 3, 8, 16)
    assert threading.current_thread() not in kinds
    again = list(make(folder, **{**options, "num_threads": 5}))
    assert all((one["pixels"] == two["pixels"]).all() for one, two in zip(batches, again, strict=True))
    mirrored = make(folder, transform=lambda image: image[:, ::-1])
    for one, two in zip(mirrored, make(folder), strict=True):
        assert (one.image == two.image[..., ::-1]).all()


def test_the_errors_of_transforms_and_sources_say_where(folder: ImageFolder) -> None:
    def fail(image: Any) -> Any:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError) as raised:
        list(make(folder, transform=fail, on_error="skip"))
    assert f"transforming sample 0, {folder[0].path!r}" in raised.value.__notes__[0]
    with pytest.raises(TypeError, match="`batch_transform` returned None"):
        list(make(folder, batch_transform=lambda batch: None))

    class Lost(list[Any]):
        def __getitem__(self, index: Any) -> Any:
            raise LookupError("gone")

    with pytest.raises(LookupError) as raised_too:
        list(make(Lost([1, 2])))
    assert "looking up sample 0 of Lost" in raised_too.value.__notes__[0]


def test_a_state_goes_on_in_the_middle(folder: ImageFolder) -> None:
    whole = make(folder, shuffle=True, augment="train")
    expected = [contents(whole), contents(whole)]
    for cut in range(7):
        loader = make(folder, shuffle=True, augment="train")
        first = contents(itertools.islice(iter(loader), cut)) if cut else []
        state = json.loads(json.dumps(loader.state_dict()))
        for _ in range(2):
            # Twice, since restoring must not depend on what was restored before.
            other = make(folder, shuffle=True, augment="train", num_threads=1)
            other.load_state_dict(state)
            other.set_epoch(0)
            assert other.state_dict() == state
            assert first + contents(other) == expected[0]
            assert other.epoch == 1
            assert contents(other) == expected[1]


def test_a_state_is_for_any_number_of_ranks_and_any_batch_size(folder: ImageFolder) -> None:
    everything = sorted(contents(make(folder, shuffle=True)))
    for (before, size), (after, next_size) in itertools.product([(1, 4), (2, 3), (3, 1)], repeat=2):
        iterators = [iter(make(folder, size, shuffle=True, rank=rank, world_size=before)) for rank in range(before)]
        loaders = [make(folder, size, shuffle=True, rank=rank, world_size=before) for rank in range(before)]
        iterators = [iter(loader) for loader in loaders]
        received = [entry for _ in range(2) for iterator in iterators for entry in contents([next(iterator)])]
        states = [loader.state_dict() for loader in loaders]
        assert all(state == states[0] for state in states)
        for rank in range(after):
            loader = make(folder, next_size, shuffle=True, rank=rank, world_size=after)
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


def test_any_two_cuts_lose_nothing_on_other_ranks(folder: ImageFolder) -> None:
    def make_loader(batch_size: int, rank: int, world_size: int) -> ImageLoader:
        place = {"rank": rank, "world_size": world_size}
        return make(folder, batch_size, shuffle=True, augment="train", num_threads=1, size=4, **place)

    assert_resumes_exactly(make_loader, world=(1, 2, 3), batch=(1, 3), cuts=(0, 1, 3), items=contents_of)


def contents_of(batch: ImageBatch) -> list[tuple[int, bytes]]:
    return contents([batch])


def test_a_state_at_the_end_of_an_epoch(folder: ImageFolder) -> None:
    loader = make(folder, drop_last=True)
    states = [loader.state_dict() for _ in loader]
    other = make(folder, 1, drop_last=True)
    other.load_state_dict(states[-1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert list(other) == []
    assert other.epoch == 1
    assert loader.state_dict()["epoch"] == 1
    # What a loop that was left did not read is not read by the next one.
    next(iter(loader))
    assert next(iter(loader)).epoch == 2


def test_an_epoch_ends_once(folder: ImageFolder) -> None:
    loader = make(folder)
    iterator = iter(loader)
    assert len(list(iterator)) == 6
    for _ in range(3):
        assert next(iterator, None) is None
    assert loader.epoch == 1


def test_a_signal_handler_may_take_the_state(folder: ImageFolder) -> None:
    loader = make(folder, batch_size=1, num_threads=1)
    expected = [index for index, _ in contents(make(folder, batch_size=1))]
    received: list[int] = []
    states: list[tuple[int, int]] = []

    def note(frame: Any, event: str, argument: Any) -> Any:
        # Between any two lines of a read, as a handler may come.
        if "media_iterator" in frame.f_code.co_filename:
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


def test_two_loops_at_once_are_two_epochs(folder: ImageFolder) -> None:
    loader = make(folder)
    first = iter(loader)
    second = iter(loader)
    assert (next(first).epoch, next(second).epoch) == (0, 1)
    # The state is about the one that was read last.
    assert (loader.state_dict()["epoch"], loader.state_dict()["position"]) == (1, 4)
    next(first)
    assert (loader.state_dict()["epoch"], loader.state_dict()["position"]) == (0, 8)


def test_an_iterator_that_is_not_read_loses_nothing_of_a_restored_epoch(folder: ImageFolder) -> None:
    loader = make(folder)
    batches = iter(loader)
    next(batches)
    resumed = make(folder)
    resumed.load_state_dict(loader.state_dict())
    iter(resumed)
    assert [batch.index.tolist() for batch in resumed] == [batch.index.tolist() for batch in batches]
    assert next(iter(resumed)).epoch == 1


def test_other_states_are_refused(folder: ImageFolder, broken: ImageFolder) -> None:
    state = make(folder, seed=3).state_dict()
    other = ImageList(folder.samples)
    wrong: Any
    for source, options, message in (
        (folder, {"seed": 4}, "saved with seed=3, and this loader has seed=4"),
        (
            folder,
            {"seed": 3, "shuffle": True},
            r"saved with order=.sequential\(n=23\).*this loader has order=.shuffled\(n=23, seed=3\)",
        ),
        (other, {"seed": 3}, "another dataset: its fingerprint is 'ImageFolder:23:.*ImageLoader is 'ImageList:23:"),
    ):
        with pytest.raises(ValueError, match=message):
            make(source, **options).load_state_dict(state)
    loader = make(folder, seed=3)
    for wrong, message in (
        ({}, "no state of ImageLoader"),
        ({"model": 1}, "'model'"),
        ({**state, "version": 99}, "version 99"),
        ({**state, "kind": "ClipLoader"}, "kind='ClipLoader'"),
        ({key: it for key, it in state.items() if key != "seed"}, "'seed' is missing"),
        ({**state, "position": -1}, "'position' must be"),
        ({**state, "position": 24}, "'position' must be"),
        ({**state, "epoch": "0"}, "'epoch' must be"),
        ({key: it for key, it in state.items() if key != "epoch"}, "'epoch' must be"),
    ):
        with pytest.raises(ValueError, match=message):
            loader.load_state_dict(wrong)
    with pytest.raises(TypeError, match="got list"):
        loader.load_state_dict([])  # type: ignore[arg-type]
    loader.load_state_dict(state)
    # The same photos elsewhere are the same.
    make(ImageFolder(folder.root + "/../" + Path(folder.root).name), seed=3).load_state_dict(state)
    assert broken.fingerprint() == folder.fingerprint()


def test_statistics_say_what_limits(folder: ImageFolder) -> None:
    loader = make(folder)
    with pytest.raises(RuntimeError, match="no statistics before its first batch"):
        loader.statistics()
    assert len(list(loader)) == 6
    assert [stage.name for stage in loader.statistics().stages] == ["src", "load", "sink"]
    assert loader.statistics().stages[1].num_completed == 6


def test_a_loop_that_is_left_ends_its_threads(folder: ImageFolder) -> None:
    before = threading.active_count()
    for _ in make(folder):
        break
    gc.collect()
    assert wait_until(lambda: threading.active_count() == before)


def test_batches_and_loaders_can_be_pickled(folder: ImageFolder) -> None:
    loader = make(folder, shuffle=True)
    first = next(iter(loader))
    copy = pickle.loads(pickle.dumps(loader))  # noqa: S301 - our own.
    assert copy.state_dict() == loader.state_dict()
    assert next(iter(copy)).epoch == 1
    batch = pickle.loads(pickle.dumps(first))  # noqa: S301 - our own.
    assert type(batch) is ImageBatch
    assert contents([batch]) == contents([first])
    assert batch.path == first.path
    assert "float32[4, 3, 16, 16]" in repr(batch)


def test_batches_move_to_a_device(folder: ImageFolder) -> None:
    loader = ImageLoader(folder, 4, size=16, device="meta")
    batch = next(iter(loader))
    assert (batch.image.device.type, batch.label.device.type, len(batch.path)) == ("meta", "meta", 4)
    assert [stage.name for stage in loader.statistics().stages] == ["src", "load", "transfer", "sink"]
    options: dict[str, Any] = {"size": 16, "device": "meta", "batch_transform": lambda it: {"x": [it.image, it.path]}}
    images, paths = next(iter(ImageLoader(folder, 4, **options)))["x"]
    assert (images.device.type, len(paths)) == ("meta", 4)
    local = next(iter(ImageLoader(folder, 4, size=16)))
    assert local.to("meta").image.device.type == "meta"
    assert local.to("cpu").image is local.image


def test_a_timeout_can_be_read_again(folder: ImageFolder) -> None:
    gate = threading.Event()

    def wait(batch: ImageBatch) -> ImageBatch:
        gate.wait(30)
        return batch

    iterator = iter(make(folder, batch_transform=wait, timeout=0.05))
    with pytest.raises(TimeoutError):
        next(iterator)
    gate.set()
    while True:
        try:
            assert next(iterator).index.tolist() == [0, 1, 2, 3]
            break
        except TimeoutError:
            continue


class Backwards:
    """An order as someone might write it, whose fingerprint is no property."""

    def __init__(self, size: int = 0, fingerprint: Any = "backwards") -> None:
        self.size = size
        self.fingerprint = fingerprint

    def __len__(self) -> int:
        return self.size

    def take(self, epoch: int, positions: Any, /) -> Any:
        return self.size - 1 - positions


def test_an_order_may_be_of_any_class(folder: ImageFolder) -> None:
    loader = make(folder, order=Backwards(COUNT))
    assert [index for batch in loader for index in batch.index.tolist()] == list(range(COUNT))[::-1]
    assert loader.state_dict()["order"] == "backwards"


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"source": 3}, TypeError, "`source`"),
        ({"source": "photos"}, TypeError, "`source`"),
        ({"source": {"a": 1}}, TypeError, "`source`.*keys"),
        ({"source": []}, ValueError, "`source` must be not empty"),
        ({"batch_size": 0}, ValueError, "`batch_size`"),
        ({"batch_size": 24, "drop_last": True}, ValueError, "leave out everything.*23 samples"),
        ({"size": None}, TypeError, "`size`"),
        ({"size": (1, 2, 3)}, ValueError, "`size`"),
        ({"size": 0}, ValueError, "`width`"),
        ({"augment": "none"}, ValueError, "`augment`"),
        ({"options": ImageOptions(8, 8)}, TypeError, "`size`"),
        ({"options": ImageOptions(8, None), "size": None}, ValueError, "`options`"),
        ({"options": 3, "size": None}, TypeError, "`options`"),
        ({"mode": "fit"}, ValueError, "`mode`"),
        ({"dtype": "uint8", "mean": MEAN}, ValueError, "`dtype`"),
        ({"mean": (1, 2)}, ValueError, "`mean`"),
        ({"seed": -1}, ValueError, "`seed`"),
        ({"on_error": "ignore"}, ValueError, "`on_error`"),
        ({"transform": 3}, TypeError, "`transform`"),
        ({"batch_transform": 3}, TypeError, "`batch_transform`"),
        ({"output": "jax"}, ValueError, "`output`"),
        ({"device": "cuda"}, ValueError, "`device`.*tensors"),
        ({"device": "nowhere", "output": "torch"}, ValueError, "`device`"),
        ({"device": 3.5, "output": "torch"}, TypeError, "`device`"),
        ({"rank": 0}, ValueError, "`world_size`"),
        ({"rank": 2, "world_size": 2}, ValueError, "`rank`"),
        ({"num_threads": 0}, ValueError, "`num_threads`"),
        ({"prefetch": 0}, ValueError, "`prefetch`"),
        ({"timeout": "soon"}, TypeError, "`timeout`"),
        ({"shuffle": "yes"}, TypeError, "`shuffle`"),
        (
            {"order": [1, 2]},
            TypeError,
            r"`order` must be .*`take\(epoch, positions\)`.*got \[1, 2\].*For chosen positions",
        ),
        ({"order": SequentialOrder}, TypeError, "`order` must be"),
        ({"order": Backwards(fingerprint=None)}, TypeError, "`order` must be .* a text `fingerprint`"),
        ({"order": 3}, TypeError, r"`order` must be .* an array of positions in the source, got 3 \(.*\)\.$"),
        ({"order": SequentialOrder(3), "shuffle": True}, ValueError, "`shuffle`"),
    ],
)
def test_mistakes_are_explained(
    folder: ImageFolder, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make(**{"source": folder, **options})


def test_records_of_options_are_checked() -> None:
    record = ImageOptions(8, 8, mean=list(MEAN), std=list(STD), dtype="float32")
    assert hash(record) == hash(dataclasses.replace(record))
    assert record.mean == MEAN
    wrong: Any
    for wrong in (
        {"scale": (0, 1)},
        {"scale": 3},
        {"ratio": (2, 1)},
        {"flip": 2},
        {"flip": "no"},
        {"hue": 1},
        {"mixup": -1},
        {"cutmix": "1"},
        {"num_classes": 0},
    ):
        with pytest.raises((TypeError, ValueError), match=r"`(scale|ratio|flip|hue|mixup|cutmix|num_classes)`"):
            ImageAugment(**wrong)


class Batched(list[Any]):
    """A source that is asked for whole batches."""

    asked: ClassVar[list[list[int]]] = []
    missing = 0

    def __getitem__(self, index: Any) -> Any:
        raise AssertionError("one by one")

    def __getitems__(self, indices: list[int]) -> list[Any]:
        self.asked.append(indices)
        return [super(Batched, self).__getitem__(index) for index in indices[self.missing :]]


def test_a_batch_is_looked_up_at_once() -> None:
    source = Batched([(make_jpeg(16, 16, seed=number), number) for number in range(5)])
    labels = [label for batch in ImageLoader(source, 2, size=8, output="numpy", num_threads=1) for label in batch.label]
    assert labels == list(range(5))
    assert sorted(source.asked) == [[0, 1], [2, 3], [4]]
    source.missing = 1
    with pytest.raises(RuntimeError, match=r"`Batched\.__getitems__` returned 1 samples for 2 positions"):
        list(ImageLoader(source, 2, size=8, output="numpy", num_threads=1))
