"""Images of training are changed by seed, epoch and index alone, and mixed as their labels are."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.dataloader.media.image_loading import COUNT, MEAN, STD, contents, make

from spdl.dataloader import ImageAugment
from spdl.io import ImageOptions, load_image_batch, random_color_jitter, random_flip, random_resized_crop, to_numpy

if TYPE_CHECKING:
    from spdl.source import ImageFolder


def test_training_images_depend_on_seed_epoch_and_index_alone(photos: ImageFolder) -> None:
    whole = dict(contents(make(photos, COUNT, augment="train", seed=5)))
    expected = load_image_batch(
        [sample.path for sample in photos],
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
        assert dict(contents(make(photos, augment="train", seed=5, **options))) == whole
    loader = make(photos, augment="train", seed=5)
    list(loader)
    assert set(contents(loader)).isdisjoint(whole.items())
    assert set(contents(make(photos, augment="train", seed=6))).isdisjoint(whole.items())


def test_augmentation_can_be_chosen(photos: ImageFolder) -> None:
    plain = dict(contents(make(photos)))
    assert dict(contents(make(photos, augment=ImageAugment(scale=None, flip=0)))) == plain
    (batch,) = make(photos, COUNT, augment=ImageAugment(scale=None, flip=1.0))
    assert dict(contents([batch.replace(image=batch.image[..., ::-1])])) == plain


def test_colours_can_change(photos: ImageFolder) -> None:
    ranges: dict[str, Any] = {"brightness": 0.4, "contrast": 0.3, "saturation": (0.5, 1), "hue": 0.1}
    changed = dict(contents(make(photos, augment=ImageAugment(scale=None, flip=0, **ranges), seed=2)))
    expected = load_image_batch(
        [sample.path for sample in photos],
        options=make(photos).options,
        jitter=random_color_jitter(range(COUNT), seed=2, epoch=0, **ranges),
    )
    assert list(changed.values()) == [image.tobytes() for image in to_numpy(expected)]


def one_hot(labels: Any) -> Any:
    return np.eye(2, dtype=np.float32)[labels]


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_mixup_blends_images_and_labels(photos: ImageFolder, layout: str) -> None:
    options: dict[str, Any] = {"batch_size": COUNT, "shuffle": True, "layout": layout}
    (plain,) = make(photos, **options, augment=ImageAugment(scale=None, flip=0))
    (mixed,) = make(photos, **options, augment=ImageAugment(scale=None, flip=0, mixup=0.8))
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
def test_cutmix_puts_a_rectangle_of_one_image_into_another(photos: ImageFolder, layout: str, dtype: str) -> None:
    options: dict[str, Any] = {"batch_size": COUNT, "layout": layout, "dtype": dtype, "size": (24, 16)}
    (plain,) = make(photos, **options)
    (mixed,) = make(photos, **options, augment=ImageAugment(scale=None, flip=0, cutmix=1.0))
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


def test_mixing_does_not_depend_on_threads_and_changes_with_the_epoch(photos: ImageFolder) -> None:
    augment = ImageAugment(mixup=0.2, cutmix=1)
    one, two = (make(photos, augment=augment, num_threads=threads) for threads in (1, 5))
    first = contents(one)
    assert first == contents(two)
    assert set(first).isdisjoint(contents(one))
    # A batch of one has nobody to be mixed with.
    (alone,) = make([photos[0]], augment=ImageAugment(scale=None, flip=0, cutmix=1, num_classes=3))
    assert alone.label.tolist() == [[1, 0, 0]]


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"source": [("x", 1)]}, ValueError, "`num_classes`"),
        ({"dtype": "uint8"}, ValueError, "`dtype`.*`mixup`"),
    ],
)
def test_mistakes_in_mixing_are_explained(
    photos: ImageFolder, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        make(**{"source": photos, "augment": ImageAugment(mixup=1), **options})


@pytest.mark.parametrize(("label", "error"), [("cat", TypeError), (0.5, TypeError), (2, ValueError), (-1, ValueError)])
def test_labels_that_cannot_be_mixed_are_errors(photos: ImageFolder, label: Any, error: type[Exception]) -> None:
    source = [(photos[0].path, label)]
    with pytest.raises(error, match="`label`"):
        list(make(source, augment=ImageAugment(mixup=1, num_classes=2)))


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
