"""Several views of each image come from one decode, and each is what a loader of that view alone gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from PIL import Image
from tests.dataloader.media.image_loading import BROKEN, COUNT, make
from tests.hammer import assert_agree, hammer
from tests.io.images import encode, make_image, make_jpeg

from spdl.dataloader import ImageAugment, RandAugment
from spdl.io import ImageOptions
from spdl.pipeline import ItemContext

if TYPE_CHECKING:
    from spdl.source import ImageFolder

PLAIN = ImageAugment(scale=None, flip=0)
CROPS = ImageAugment(scale=(0.3, 1))
WRONG: Any = (1, 2, 3)
LOCAL = ImageAugment(scale=(0.05, 0.3), size=(12, 8), grayscale=0.5, blur=0.5)


def seed_of(view: int, seed: int) -> int:
    """Return the seed that draws a view. It is a part of what users get, and stays."""
    return ItemContext(view, 0, 5).key(seed) if view else seed


def assert_alike(field: Any, views: list[ImageAugment], source: Any, first: int = 0, **options: Any) -> None:
    assert len(field) == len(views)
    for number, (found, augment) in enumerate(zip(field, views, strict=True), first):
        size = options["size"] if augment.size is None else augment.size
        bare = ImageAugment(**{**vars(augment), "size": None})
        alone = {**options, "size": size, "augment": bare, "seed": seed_of(number, options.get("seed", 0))}
        (expected,) = make(source, len(source), **alone)
        assert found.shape == expected.image.shape
        assert (found == expected.image).all()


def test_views_are_those_of_loaders_of_one_view(photos: ImageFolder) -> None:
    options: dict[str, Any] = {"size": (20, 16), "seed": 7}
    views = [PLAIN, CROPS, ImageAugment(brightness=0.4, solarize=0.5, erase=0.5, policy=RandAugment())]
    (batch,) = make(photos, COUNT, views=views, **options)
    assert batch.image.shape == (3, COUNT, 3, 16, 20)
    assert_alike(batch.image, views, photos, **options)
    first, second, third = batch.image
    assert first.flags.c_contiguous
    assert not (second == third).all()


def test_number_of_views_takes_the_augment(photos: ImageFolder) -> None:
    (batch,) = make(photos, COUNT, views=2, augment="train", seed=3)
    assert_alike(batch.image, [ImageAugment()] * 2, photos, size=16, seed=3)
    images, labels = batch
    assert images is batch.image
    assert len(labels) == COUNT


def test_views_of_two_sizes_are_fields(photos: ImageFolder) -> None:
    options: dict[str, Any] = {"size": 24, "seed": 1, "dtype": "uint8", "layout": "NHWC"}
    (batch,) = make(photos, COUNT, views={"image": [CROPS] * 2, "local": [LOCAL] * 3}, **options)
    assert batch.image.shape == (2, COUNT, 24, 24, 3)
    assert batch.local.shape == (3, COUNT, 8, 12, 3)
    assert_alike(batch.image, [CROPS] * 2, photos, **options)
    assert_alike(batch.local, [LOCAL] * 3, photos, first=2, **options)


@pytest.mark.parametrize("exif", [1, 6, 7])
@pytest.mark.parametrize("kind", ["jpeg", "png", "progressive", "gray"])
def test_views_have_the_pixels_of_every_format(kind: str, exif: int) -> None:
    image = make_image(203, 151)
    data = {
        "jpeg": lambda: make_jpeg(203, 151),
        "png": lambda: encode(image, "PNG"),
        "progressive": lambda: encode(image, "JPEG", progressive=True),
        "gray": lambda: encode(image.convert("L"), "JPEG"),
    }[kind]()
    if exif != 1 and kind != "png":
        tags = Image.Exif()
        tags[0x0112] = exif
        data = encode(image, "JPEG", exif=tags)
    small = ImageAugment(scale=(0.01, 0.02))
    for views in ([small], [small, small], [PLAIN, small, CROPS]):
        for mode in ("pad", "crop"):
            (batch,) = make([(data, 0)], views=views, size=(40, 24), mode=mode)
            assert_alike(batch.image, views, [(data, 0)], size=(40, 24), mode=mode)


def test_inexact_views_are_near_the_exact_ones() -> None:
    data = make_jpeg(803, 603)
    record = ImageOptions(48, 40, exact=False, interpolation="bilinear")
    views = [ImageAugment(scale=(0.5, 1)), ImageAugment(scale=(0.02, 0.03)), PLAIN]
    source = [(data, 0)]
    (near,) = make(source, views=views, size=None, options=record)
    (exact,) = make(source, views=views, size=(48, 40), dtype="uint8", layout="NHWC", mode="pad")
    error = np.mean((near.image.astype(float) - exact.image) ** 2, axis=(1, 2, 3, 4))
    assert (10 * np.log10(255**2 / np.maximum(error, 1e-9)) > 32).all()


def test_view_of_a_broken_image_is_left_out_or_replaced(broken: ImageFolder) -> None:
    views = {"image": [CROPS] * 2, "local": [LOCAL]}
    (left,) = make(broken, COUNT, views=views, on_error="skip")
    whole = [index for index in range(COUNT) if index not in BROKEN]
    assert left.index.tolist() == whole
    good = [broken[index] for index in whole]
    (full,) = make(broken, COUNT, views=views, on_error="refill")
    assert full.index[whole].tolist() == whole
    for name in views:
        assert left[name].shape[1] == len(whole)
        assert (full[name][:, whole] == left[name]).all()
        # What took a place has its own views.
        for place in BROKEN:
            other = int(full.index[place])
            assert (full[name][:, place] == left[name][:, whole.index(other)]).all()
    assert len(good) == len(whole)


def test_views_go_on_where_a_run_was_cut(photos: ImageFolder) -> None:
    options: dict[str, Any] = {"views": {"image": [CROPS] * 2, "local": [LOCAL]}, "shuffle": True, "seed": 2}
    expected = [(batch.image.tobytes(), batch.local.tobytes()) for batch in make(photos, 4, **options)]
    loader = make(photos, 4, **options)
    iterator = iter(loader)
    found = [next(iterator) for _ in range(2)]
    state = loader.state_dict()
    again = make(photos, 4, **options)
    again.load_state_dict(state)
    found += list(again)
    assert [(batch.image.tobytes(), batch.local.tobytes()) for batch in found] == expected


def test_views_are_the_same_in_many_threads_at_once() -> None:
    source = [(make_jpeg(40, 30, seed=index), 0) for index in range(3)]
    views = [CROPS, ImageAugment(policy=RandAugment(), blur=0.5, erase=0.5)]

    def load() -> Any:
        (batch,) = make(source, views=views, num_threads=1)
        return batch.image.tobytes()

    assert_agree(hammer(load))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"views": 2}, ValueError, "`augment`.*the same"),
        ({"views": 0, "augment": "train"}, ValueError, "`views`"),
        ({"views": True, "augment": "train"}, TypeError, "`views`"),
        ({"views": []}, TypeError, "`views`"),
        ({"views": ["train"]}, TypeError, "`views`"),
        ({"views": [CROPS], "augment": "train"}, ValueError, "`augment`"),
        ({"views": [CROPS, LOCAL]}, ValueError, "`views`.*one size"),
        ({"views": {"local": [LOCAL]}}, ValueError, "`views`.*'image'"),
        ({"views": {"image": [CROPS], "label": [LOCAL]}}, ValueError, "label"),
        ({"views": {"image": [CROPS], "epoch": [LOCAL]}}, ValueError, "epoch"),
        ({"views": [ImageAugment(mixup=1)]}, ValueError, "`views`.*mixup"),
        ({"views": [CROPS], "transform": lambda image: image}, ValueError, "`transform`.*`batch_transform`"),
        ({"views": [ImageAugment(size=WRONG)]}, ValueError, "`size`"),
    ],
)
def test_views_that_make_no_sense_are_errors(options: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make([(make_jpeg(8, 8), 0)], **options)


def test_views_do_not_take_the_place_of_a_field_of_samples() -> None:
    loader = make([{"image": make_jpeg(8, 8), "local": 3}], views={"image": [CROPS], "local": [LOCAL]})
    with pytest.raises(ValueError, match=r"with `views`, some fields of sample 0 .* rename 'local'"):
        next(iter(loader))
