"""Targets move with each view of an image as with a loader of that view alone."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.dataloader.media.image_loading import BROKEN, COUNT, make
from tests.dataloader.media.test_geometry import moving, places
from tests.dataloader.media.test_image_views import seed_of

from spdl.dataloader import Boxes, ImageAugment, Jagged, Keypoints, Mask, Polygons, RandAugment, Values

if TYPE_CHECKING:
    from spdl.source import ImageFolder

TARGETS = {
    "mask": Mask(dtype="uint8"),
    "boxes": Boxes(),
    "labels": Values(of="boxes", pad_value=-1),
    "points": Keypoints(),
    "outlines": Polygons(),
}
GLOBAL = [
    ImageAugment(scale=(0.3, 1), vertical_flip=0.5, policy=RandAugment()),
    ImageAugment(scale=None, quarter_turns=True, rotate=20, blur=0.5),
]
LOCAL = [ImageAugment(scale=None, zoom=(0.5, 1.5), flip=0.5, size=(12, 8))] * 2
VIEWS = {"image": GLOBAL, "local": LOCAL}


def sample(index: int) -> dict[str, Any]:
    width, height = 24 + index, 30 - index
    boxes = [[1, 2, 6 + index, 9], [10, 10, 20, 20], [0, 0, 3, 3]][: index % 4]
    return {
        "image": places(width, height),
        "mask": (np.arange(width * height).reshape(height, width) + index) % 200,
        "boxes": boxes,
        "labels": list(range(len(boxes))),
        "points": [[3, 4], [20, 2]][: index % 3],
        "outlines": [[[0, 0, 10, 0, 10, 10]]],
    }


SOURCE = [sample(index) for index in range(6)]


def alone(augment: ImageAugment, view: int, **options: Any) -> Any:
    """Return the batch of a loader of that view."""
    size = options.pop("size", 16) if augment.size is None else augment.size
    bare = ImageAugment(**{**vars(augment), "size": None})
    seed = seed_of(view, options.pop("seed", 0))
    (batch,) = make(SOURCE, len(SOURCE), targets=TARGETS, augment=bare, size=size, seed=seed, **options)
    return batch


def flat(value: Any) -> Any:
    """Return all numbers of lists of arrays, and their shapes."""
    if isinstance(value, list):
        return [flat(each) for each in value]
    return value.dtype, value.shape, value.tobytes()


@given(views=st.lists(moving(), min_size=1, max_size=3), seed=st.integers(0, 99))
def test_views_move_targets_as_loaders_of_one_view_do(views: list[ImageAugment], seed: int) -> None:
    (batch,) = make(SOURCE, len(SOURCE), targets=TARGETS, views=views, seed=seed)
    count = len(SOURCE)
    assert batch.image.shape[:2] == batch.mask.shape[:2] == (len(views), count)
    assert batch.size.tolist() == [[24 + index, 30 - index] for index in range(count)]
    for number, augment in enumerate(views):
        expected = alone(augment, number, seed=seed)
        assert batch.image[number].tobytes() == expected.image.tobytes()
        for name in TARGETS:
            assert flat(batch[name][number]) == flat(expected[name])
        for found, own in zip(batch.geometry[number], expected.geometry, strict=True):
            assert (found.matrix == own.matrix).all()


@pytest.mark.parametrize("ragged", ["list", "pad", "offsets"])
@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_views_of_two_sizes_have_targets_of_their_own(ragged: Any, output: str) -> None:
    (batch,) = make(SOURCE, len(SOURCE), targets=TARGETS, views=VIEWS, ragged=ragged, output=output)
    kind: Any = np.ndarray if output == "numpy" else torch.Tensor
    for (group, views), first in zip(VIEWS.items(), (0, len(GLOBAL)), strict=True):
        prefix = "" if group == "image" else f"{group}_"
        fields = {name: batch[f"{prefix}{name}"] for name in (*TARGETS, "geometry")}
        assert type(fields["mask"]) is kind
        for number, augment in enumerate(views):
            expected = alone(augment, first + number)
            assert np.array_equal(batch[group][number], expected.image)
            assert np.array_equal(fields["mask"][number], expected.mask)
            assert [each.size for each in fields["geometry"][number]] == [each.size for each in expected.geometry]
            for name in ("boxes", "labels", "points"):
                rows = expected[name]
                found = fields[name][number]
                if ragged == "list":
                    assert [type(each) for each in found] == [kind] * len(rows)
                    assert all(np.array_equal(each, own) for each, own in zip(found, rows, strict=True))
                elif ragged == "offsets":
                    assert type(found) is Jagged
                    assert np.array_equal(found.values, np.concatenate(rows))
                    assert found.lengths.tolist() == [len(each) for each in rows]
                else:
                    mask = batch[f"{prefix}{name}_mask"]
                    assert type(fields[name]) is type(mask) is kind
                    assert mask.shape == fields[name].shape[:3]
                    for each, has, own in zip(found, mask[number], rows, strict=True):
                        assert np.array_equal(each[has], own)
                        assert (each[~has] == (-1 if name == "labels" else 0)).all()


class Labelled:
    """The photos with a box each, which says which photo it is; some have none that can be read."""

    def __init__(self, photos: ImageFolder, faults: tuple[int, ...] = ()) -> None:
        self.photos = photos
        self.faults = faults

    def __len__(self) -> int:
        return len(self.photos)

    def __getitem__(self, index: int) -> dict[str, Any]:
        box = [9, 9, 3, 3] if index in self.faults else [-99, -99, 999, 999]
        return {"image": self.photos[index].image, "boxes": [box], "ids": [index]}

    def fingerprint(self) -> str:
        return "labelled"


def contents(batches: Any) -> list[tuple[int, bytes]]:
    found = []
    for batch in batches:
        for place, index in enumerate(batch.index):
            parts = []
            for prefix, images in (("", batch.image), ("local_", batch.local)):
                ids = [rows[place].tolist() for rows in batch[f"{prefix}ids"]]
                assert ids == [[index]] * 2
                parts += [images[:, place].tobytes(), *(rows[place].tobytes() for rows in batch[f"{prefix}boxes"])]
            found.append((int(index), b"".join(parts)))
    return found


@pytest.mark.parametrize("on_error", ["skip", "refill"])
def test_targets_of_views_stay_with_their_images_at_every_cut(
    broken: ImageFolder, photos: ImageFolder, on_error: str
) -> None:
    targets = {"boxes": Boxes(), "ids": Values(of="boxes")}
    options: dict[str, Any] = {"targets": targets, "views": VIEWS, "shuffle": True, "seed": 2}
    faults = (0, 5)
    whole = dict(contents(make(Labelled(photos), COUNT, **options)))

    def loader() -> Any:
        return make(Labelled(broken, faults), 4, **options, on_error=on_error)

    expected = contents(loader())
    assert all(whole[index] == content for index, content in expected)
    assert len(expected) == (COUNT if on_error == "refill" else COUNT - len(BROKEN) - len(faults))
    for cut in (1, 3):
        first = loader()
        received = contents(itertools.islice(iter(first), cut))
        rest = loader()
        rest.load_state_dict(json.loads(json.dumps(first.state_dict())))
        assert received + contents(rest) == expected


@pytest.mark.parametrize(
    ("names", "targets", "field"),
    [
        (["geometry"], ["boxes"], "geometry"),
        (["size"], ["boxes"], "size"),
        (["local", "local_boxes"], ["boxes"], "local_boxes"),
        (["a", "a_b"], ["boxes", "b_boxes"], "a_b_boxes"),
    ],
)
def test_views_and_targets_never_share_the_name_of_a_field(names: list[str], targets: list[str], field: str) -> None:
    views = {"image": [ImageAugment()], **{name: [ImageAugment(size=8)] for name in names}}
    with pytest.raises(ValueError, match=f"two fields of a batch would be called '{field}': rename the view"):
        make(SOURCE, views=views, targets={name: Boxes() for name in targets})
