"""A transform may return a record or a tuple, which is collated part by part, and it gets the targets if it wants."""

from __future__ import annotations

import collections
import dataclasses
import functools
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.dataloader.media.image_loading import MEAN, STD, make
from torch.utils.data import default_collate

from spdl.dataloader import Boxes, ImageAugment, ImageLoader, InstanceMasks, Keypoints, Mask, Polygons, Values
from spdl.testing import assert_resumes_exactly

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.pipeline import ItemContext

WIDTH, HEIGHT, COUNT = 24, 18, 6
SIZE = (WIDTH, HEIGHT)


def photo(seed: int) -> bytes:
    pixels = np.random.default_rng(seed).integers(0, 256, (HEIGHT, WIDTH, 3), np.uint8)
    return b"P6 %d %d 255 " % SIZE + pixels.tobytes()


SAMPLES = [(photo(number), number % 3) for number in range(COUNT)]


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclasses.dataclass(frozen=True)
class Record:
    image: Any
    angle: Any


LEAVES: dict[str, Callable[[torch.Tensor], Any]] = {
    "image": lambda image: image,
    "crop": lambda image: image[:, 2:9, 3:8],
    "means": lambda image: image.double().mean((1, 2)),
    "number": lambda image: int(image[0, 0, 0]),
    "text": lambda image: f"{image[0, 0, 0]}",
}
SHAPES = st.recursive(
    st.sampled_from(sorted(LEAVES)),
    lambda inner: st.one_of(
        st.dictionaries(st.sampled_from("abc"), inner, min_size=1),
        st.lists(inner, min_size=1, max_size=3).map(tuple),
        st.builds(Pair, inner, inner),
    ),
    max_leaves=5,
).filter(lambda shape: not isinstance(shape, str))


def build(shape: Any, leaf: Callable[[str], Any]) -> Any:
    if isinstance(shape, str):
        return leaf(shape)
    if isinstance(shape, dict):
        return {name: build(inner, leaf) for name, inner in shape.items()}
    parts = [build(inner, leaf) for inner in shape]
    return Pair(*parts) if isinstance(shape, Pair) else tuple(parts)


def same(own: Any, other: Any) -> None:
    if type(own) in (tuple, list):
        # PyTorch makes lists of tuples, and tuples of texts.
        other = type(own)(other)
    assert type(own) is type(other)
    if isinstance(own, torch.Tensor):
        assert own.dtype == other.dtype
        assert torch.equal(own, other)
    elif isinstance(own, dict):
        assert own.keys() == other.keys()
        for name in own:
            same(own[name], other[name])
    elif isinstance(own, tuple):
        for mine, theirs in zip(own, other, strict=True):
            same(mine, theirs)
    else:
        assert own == other


@settings(max_examples=40, deadline=None)
@given(shape=SHAPES)
def test_transform_returns_what_pytorch_collates(shape: Any) -> None:
    seen: list[Any] = []

    def transform(image: torch.Tensor) -> Any:
        seen.append(build(shape, lambda name: LEAVES[name](image)))
        return seen[-1]

    (batch,) = make(SAMPLES, COUNT, size=SIZE, output="torch", dtype="uint8", transform=transform, num_threads=1)
    same(batch.image, default_collate(seen))


@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_transform_of_records_normalises_their_images(output: Any) -> None:
    cut = np.s_[..., 2:9, :] if output == "torch" else np.s_[2:9]
    options: dict[str, Any] = {"size": SIZE, "output": output, "mean": MEAN, "std": STD}

    def transform(image: Any) -> Any:
        return Record((image, image[cut]), {"angle": 0.5, "name": "x", "mean": image[0, 0].sum() * 1.0})

    (batch,) = make(SAMPLES, COUNT, transform=transform, **options)
    assert type(batch.image) is Record
    for part, alone in zip(batch.image.image, (lambda image: image, lambda image: image[cut]), strict=True):
        (expected,) = make(SAMPLES, COUNT, transform=alone, **options)
        assert type(part) is type(expected.image)
        assert (part == expected.image).all()
    rest = batch.image.angle
    assert rest["name"] == ["x"] * COUNT
    assert rest["angle"].tolist() == [0.5] * COUNT
    assert isinstance(rest["mean"], torch.Tensor if output == "torch" else np.ndarray)


def test_transform_results_may_be_dicts_of_other_classes() -> None:
    kinds: list[Any] = [collections.OrderedDict, functools.partial(collections.defaultdict, list), collections.UserDict]
    for kind in kinds:
        (batch,) = make(SAMPLES, COUNT, size=SIZE, transform=lambda image, kind=kind: kind({"a": image, "b": 1}))
        assert type(batch.image) is type(kind())
        assert batch.image["a"].shape == (COUNT, 3, HEIGHT, WIDTH)


OTHERS: dict[str, tuple[Any, Any, str]] = {
    "names": ({"a": 1}, {"b": 1}, r"a dict of 'b' for sample 1, None, and a dict of 'a' for sample 0"),
    "more": ({"a": 1}, {"a": 1, "b": 2}, "a dict of 'a', 'b' for sample 1"),
    "lengths": ((1, 2), (1, 2, 3), "a tuple of 0, 1, 2 for sample 1, None, and a tuple of 0, 1"),
    "types": (Pair(1, 2), (1, 2), "a tuple of 0, 1 for sample 1, None, and a Pair of 'left', 'right'"),
    "no record": ({"a": 1}, 1, "no record for sample 1"),
    "inside": ({"a": (1,)}, {"a": 1}, "no record for sample 1, None, and a tuple of 0"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_transform_results_of_other_parts_are_errors(name: str) -> None:
    first, second, message = OTHERS[name]
    results = iter([first, second])
    with pytest.raises(TypeError, match=f"`transform` returned {message}"):
        next(iter(make(SAMPLES, 2, transform=lambda _: next(results), num_threads=1)))


@pytest.mark.parametrize("part", [np.zeros((4, 5), np.uint8), [1, 2], b"bytes"])
def test_transform_parts_that_may_be_images_are_errors(part: Any) -> None:
    with pytest.raises(TypeError, match=r"`transform` returned .* for sample 0.*An image is an array"):
        next(iter(make(SAMPLES, 2, transform=lambda image: (image, part), mean=MEAN, std=STD)))


def test_transform_results_that_are_no_images_are_neither_mixed_nor_erased() -> None:
    for augment in (ImageAugment(mixup=0.2, num_classes=3), ImageAugment(erase=1.0)):
        with pytest.raises(TypeError, match="`transform` must be"):
            next(iter(make(SAMPLES, 2, augment=augment, transform=lambda image: (image, image))))


TARGETS = {
    "mask": Mask(),
    "boxes": Boxes("xywh", output="cxcywh"),
    "labels": Values(of="boxes"),
    "points": Keypoints(),
    "joints": Keypoints(2, visibility=True, of="boxes"),
    "objects": InstanceMasks(of="boxes"),
    "outlines": Polygons(of="boxes"),
}


def make_scene(number: int) -> dict[str, Any]:
    rng = np.random.default_rng(number)
    corners = [rng.integers(0, (12, 8), 2).tolist() for _ in range(number % 4)]
    boxes = [[x, y, 6 + x % 5, 4 + y % 5] for x, y in corners]
    outlines = [[[x, y, x + w, y, x + w, y + h, x, y + h]] for x, y, w, h in boxes]
    return {
        "image": photo(number),
        "mask": rng.integers(0, 255, (HEIGHT, WIDTH)),
        "boxes": boxes,
        "labels": list(range(number % 4)),
        "points": rng.uniform(0, 18, (number % 3, 2)),
        "joints": [[[x + 1, y + 1, 2], [x + 40, y, 1]] for x, y, _, _ in boxes],
        "objects": outlines,
        "outlines": outlines,
    }


SCENES = [make_scene(number) for number in range(9)]


def scenes(*names: str) -> list[dict[str, Any]]:
    """Return scenes with some of their targets alone."""
    return [{name: scene[name] for name in ("image", *names)} for scene in SCENES]


def mirror(image: Any, targets: dict[str, Any]) -> Any:
    """Mirror a sample by numpy, in the formats of a batch."""

    def flip(value: Any) -> Any:
        return value.flip(-1) if isinstance(value, torch.Tensor) else value[..., ::-1]

    def move(points: Any) -> Any:
        moved = points * 1
        moved[..., 0] = WIDTH - moved[..., 0]
        return moved

    done = {name: flip(targets[name]) for name in ("mask", "objects")}
    done |= {name: move(targets[name]) for name in ("boxes", "points")}
    joints = move(targets["joints"])
    joints[joints[..., 2] == 0] = 0
    done |= {"joints": joints, "labels": targets["labels"]}
    done["outlines"] = [[move(polygon) for polygon in each] for each in targets["outlines"]]
    return flip(image) if isinstance(image, torch.Tensor) else image[:, ::-1], done


def check_same(own: Any, other: Any) -> None:
    if isinstance(own, list):
        for mine, theirs in zip(own, other, strict=True):
            check_same(mine, theirs)
        return
    assert type(own) is type(other)
    assert own.dtype == other.dtype
    np.testing.assert_allclose(np.asarray(own), np.asarray(other), atol=1e-4)


@pytest.mark.parametrize("output", ["numpy", "torch"])
@pytest.mark.parametrize("ragged", ["list", "pad", "offsets"])
def test_transform_with_targets_is_the_same_as_the_loaders_own_flip(output: Any, ragged: Any) -> None:
    """What a function mirrors in a batch, and what the loader mirrors, are the same in every layout."""
    options: dict[str, Any] = {"size": SIZE, "targets": TARGETS, "ragged": ragged, "output": output}
    own = make(SCENES, 4, augment=ImageAugment(scale=None, flip=1.0), mean=MEAN, std=STD, **options)
    users = make(SCENES, 4, transform=mirror, mean=MEAN, std=STD, **options)
    for expected, batch in zip(own, users, strict=True):
        assert batch.fields().keys() == expected.fields().keys()
        for name in ("image", *TARGETS, *(f"{each}_mask" for each in TARGETS if f"{each}_mask" in expected.fields())):
            value, other = batch[name], expected[name]
            if ragged == "offsets" and isinstance(value, tuple):
                value, other = list(value), list(other)
            check_same(value, other)


def test_transform_with_targets_clips_and_drops_boxes() -> None:
    def crop(image: torch.Tensor, *, targets: dict[str, Any]) -> Any:
        boxes = targets["boxes"] - torch.tensor([8.0, 6, 8, 6])
        return image[:, 6:16, 8:20], {**targets, "boxes": boxes}

    boxes = [[0, 0, 8, 18], [0, 0, 10, 10], [9, 7, 12, 9], [19, 15, 24, 18]]
    source = [{"image": photo(0), "boxes": boxes, "labels": [0, 1, 2, 3]}]
    targets = {"boxes": Boxes(), "labels": Values(of="boxes")}
    (batch,) = make(source, size=SIZE, output="torch", targets=targets, transform=crop)
    assert batch.image.shape == (1, 3, 10, 12)
    assert batch.labels[0].tolist() == [1, 2, 3]
    assert batch.boxes[0].tolist() == [[0, 0, 2, 4], [1, 1, 4, 3], [11, 9, 12, 10]]


@pytest.mark.parametrize("output", ["numpy", "torch"])
def test_transform_may_add_fields(output: Any) -> None:
    def add(image: Any, targets: dict[str, Any]) -> Any:
        return image, {**targets, "depth": image[..., 0] * 1.0, "note": {"size": len(targets["points"]), "path": "x"}}

    (batch,) = make(scenes("points"), 9, size=SIZE, output=output, targets={"points": Keypoints()}, transform=add)
    assert batch.depth.shape == (9, 3, HEIGHT) if output == "torch" else (9, HEIGHT, WIDTH)
    assert isinstance(batch.depth, torch.Tensor if output == "torch" else np.ndarray)
    assert batch.note["size"].tolist() == [number % 3 for number in range(9)]
    assert batch.note["path"] == ["x"] * 9


WRONG: dict[str, tuple[Callable[[Any, Any], Any], type[Exception], str]] = {
    "no pair": (lambda image, _: image, TypeError, "must return a pair: the image, and a mapping of the targets; got"),
    "no image": (lambda _, targets: (3, targets), TypeError, "must return an image with them, got 3"),
    "no targets": (lambda image, _: (image, 3), TypeError, "must return a pair"),
    "one missing": (lambda image, _: (image, {}), ValueError, r"without 'mask': it must return all that it gets"),
    "a field": (lambda image, it: (image, {**it, "path": 1}), ValueError, "rename 'path'"),
    "a size": (
        lambda image, it: (image[:5], it),
        ValueError,
        r"`mask`, .*array \(5, 24\) of ints.*got int64 \(18, 24\)",
    ),
    "floats": (lambda image, it: (image, {**it, "mask": it["mask"] * 1.0}), ValueError, "`mask`, .*got float64"),
    "ids": (lambda image, it: (image, {**it, "mask": it["mask"] + 300}), ValueError, "`mask`.* uint8 cannot hold"),
    "rows": (lambda image, it: (image, {**it, "labels": [1]}), ValueError, "`labels`.* 1 elements, and `boxes` has 0"),
    "boxes": (lambda image, it: (image, {**it, "boxes": [[3, 0, 1, 1]]}), ValueError, "`boxes`.* box 0 ends before"),
    "shape": (lambda image, it: (image, {**it, "boxes": [1, 2]}), ValueError, r"`boxes`.* numbers of the shape \(4,\)"),
}


@pytest.mark.parametrize("name", WRONG)
def test_transform_with_targets_is_checked(name: str) -> None:
    function, error, message = WRONG[name]
    targets = {"mask": Mask(dtype="uint8"), "boxes": Boxes("xywh", output="xyxy"), "labels": Values(of="boxes")}

    def transform(image: Any, targets: dict[str, Any]) -> Any:
        return function(image, {**targets, "mask": targets["mask"].astype(np.int64)})

    with pytest.raises(error, match=message) as raised:
        next(iter(make(scenes(*targets), size=SIZE, targets=targets, transform=transform)))
    assert name == "a field" or any("transforming sample 0" in note for note in raised.value.__notes__)


def test_transform_that_wants_targets_needs_some() -> None:
    with pytest.raises(ValueError, match=r"`transform` must be a function without a parameter `targets`"):
        make(SAMPLES, transform=lambda image, targets: (image, targets))
    (batch,) = make(SAMPLES, COUNT, size=SIZE, transform=lambda image, targets=None: (image, targets))
    assert batch.image[1] is None
    bound = functools.partial(lambda image, targets: (image, targets), targets=7)
    (batch,) = make(scenes("mask"), 9, size=SIZE, transform=bound, targets={"mask": Mask()})
    assert batch.image[1].tolist() == [7] * 9


def test_transform_that_cannot_be_called_with_an_image_is_refused() -> None:
    def pair(image: Any, mask: Any) -> Any:
        return image, mask

    message = r"can be called as transform\(image\), got .*missing a required argument: 'mask'.* a parameter `targets`"
    with pytest.raises(TypeError, match=message):
        make(SAMPLES, 2, transform=pair)

    def more(image: Any, targets: Any, mask: Any) -> Any:
        return image, {**targets, "mask": mask}

    with pytest.raises(TypeError, match=r"can be called as transform\(image, targets=targets\), got"):
        make(scenes("mask"), 2, size=SIZE, transform=more, targets={"mask": Mask()})


def test_transform_without_targets_may_not_change_the_size() -> None:
    with pytest.raises(ValueError, match=r"image with other sides, \(9, 24\), and the loader has `targets`"):
        next(iter(make(scenes("mask"), size=SIZE, targets={"mask": Mask()}, transform=lambda image: image[:9])))
    (batch,) = make(scenes(), 9, size=SIZE, targets={}, transform=lambda image: image[:9])
    assert batch.image.shape == (9, 3, 9, 24)


def test_transform_with_targets_resumes_at_every_cut() -> None:
    def shift(image: Any, context: ItemContext, targets: dict[str, Any]) -> Any:
        by = context.key(3) % 7
        return np.roll(image, by, 1), {**targets, "mask": np.roll(targets["mask"], by, 1)}

    masked = scenes("mask")

    def make_loader(batch_size: int, rank: int, world_size: int) -> ImageLoader:
        return make(
            [*masked[:2], {**masked[2], "mask": b"broken"}, *masked[3:5]],
            batch_size,
            size=SIZE,
            augment="train",
            targets={"mask": Mask()},
            transform=shift,
            shuffle=True,
            on_error="refill",
            rank=rank,
            world_size=world_size,
        )

    def contents(batch: Any) -> list[Any]:
        return [
            (int(index), image.tobytes(), mask.tobytes())
            for index, image, mask in zip(batch.index, batch.image, batch.mask, strict=True)
        ]

    assert_resumes_exactly(make_loader, batch=(2,), items=contents)
