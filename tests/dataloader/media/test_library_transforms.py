"""The adapters of torchvision and Albumentations give what these libraries give by themselves, in any thread."""

from __future__ import annotations

import importlib
import importlib.util
import os
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from tests.dataloader.media.image_loading import make
from tests.dataloader.media.test_torchvision_order import TRANSFORMS
from tests.dataloader.media.test_transform_results import HEIGHT, SCENES, SIZE, WIDTH

from spdl.dataloader import (
    AlbumentationsTransform,
    Boxes,
    InstanceMasks,
    Keypoints,
    Mask,
    Polygons,
    TorchvisionTransform,
    Values,
)
from spdl.pipeline import ItemContext

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.pages

TARGETS: dict[str, Any] = {
    "mask": Mask(),
    "boxes": Boxes("xywh"),
    "labels": Values(of="boxes"),
    "points": Keypoints(),
    "joints": Keypoints(2, visibility=True, of="boxes"),
    "objects": InstanceMasks(of="boxes"),
}
SAMPLES = [{name: value for name, value in scene.items() if name != "outlines"} for scene in SCENES]
SEED = 5


@pytest.fixture(scope="module")
def v2() -> Any:
    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("needs torchvision")
    importlib.import_module("tests.repository.beside_torchvision")
    return importlib.import_module("torchvision.transforms.v2")


@pytest.fixture(scope="module")
def albumentations() -> Any:
    if importlib.util.find_spec("albumentations") is None:
        pytest.skip("needs albumentations")
    # It would ask the network for its newest version; and OpenCV's threads stay.
    os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")
    importlib.import_module("cv2").setNumThreads(0)
    return importlib.import_module("albumentations")


def batches(transform: Any, targets: Any = TARGETS, samples: Any = SAMPLES, **options: Any) -> list[Any]:
    return list(make(samples, 4, size=SIZE, targets=targets, transform=transform, **{"output": "torch", **options}))


def same(one: Any, other: Any) -> None:
    for mine, theirs in zip(one, other, strict=True):
        for name in ("image", *TARGETS):
            for own, another in zip(mine[name], theirs[name], strict=True):
                np.testing.assert_array_equal(own, another)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_torchvision_draws_as_by_itself_with_the_key_of_each_sample(v2: Any, name: str) -> None:
    transform = TRANSFORMS[name](v2)
    adapted = TorchvisionTransform(transform, seed=SEED)
    image = torch.from_numpy(np.random.default_rng(1).integers(0, 256, (3, 30, 40), np.uint8))
    with torch.random.fork_rng([]):
        torch.manual_seed(1)
        before = torch.random.get_rng_state()
        for index in range(3):
            context = ItemContext(2, index, index)
            found = adapted(image, context)
            assert type(found) is torch.Tensor
            # The generator of all threads is left alone.
            assert torch.equal(torch.random.get_rng_state(), before)
            with torch.random.fork_rng([]):
                torch.manual_seed(context.key(SEED))
                expected = transform(importlib.import_module("torchvision.tv_tensors").Image(image))
            assert torch.equal(found, expected)


def wrap(v2: Any, batch: Any, place: int) -> dict[str, Any]:
    """Return a sample of a batch without a transform as torchvision has it."""
    tensors = importlib.import_module("torchvision.tv_tensors")
    canvas = {"canvas_size": (HEIGHT, WIDTH)}
    return {
        "image": tensors.Image(batch.image[place]),
        "mask": tensors.Mask(batch.mask[place]),
        "boxes": tensors.BoundingBoxes(batch.boxes[place], format="XYWH", **canvas),
        "labels": batch.labels[place],
        "points": tensors.KeyPoints(batch.points[place], **canvas),
        "objects": tensors.Mask(batch.objects[place]),
    }


def test_torchvision_moves_targets_as_by_itself(v2: Any) -> None:
    transform = v2.Compose(
        [v2.RandomRotation(20), v2.RandomCrop((12, 16)), v2.RandomHorizontalFlip(), v2.RandomVerticalFlip()]
    )
    clamp = v2.ClampBoundingBoxes()
    targets = {name: kind for name, kind in TARGETS.items() if name != "joints"}
    samples = [{name: value for name, value in sample.items() if name != "joints"} for sample in SAMPLES]
    plain = batches(None, targets, samples, dtype="uint8")
    moved = batches(TorchvisionTransform(transform, targets, seed=SEED), targets, samples, dtype="uint8")
    kept = 0
    for before, after in zip(plain, moved, strict=True):
        for place, index in enumerate(before.index.tolist()):
            with torch.random.fork_rng([]):
                torch.manual_seed(ItemContext(0, index, index).key(SEED))
                expected = transform(wrap(v2, before, place))
            for name in ("image", "mask", "points"):
                assert type(after[name][place]) is torch.Tensor
                assert torch.equal(after[name][place], expected[name].as_subclass(torch.Tensor))
            boxes = clamp(expected["boxes"]).as_subclass(torch.Tensor)
            stays = (boxes[:, 2:] > 0).all(1)
            kept += int(stays.sum())
            np.testing.assert_allclose(after.boxes[place], boxes[stays], atol=1e-4)
            assert torch.equal(after.labels[place], expected["labels"][stays])
            assert torch.equal(after.objects[place], expected["objects"].as_subclass(torch.Tensor)[stays])
    assert kept > 5


def test_torchvision_moves_keypoints_of_objects(v2: Any) -> None:
    targets = {name: TARGETS[name] for name in ("boxes", "joints")}
    samples = [{name: sample[name] for name in ("image", *targets)} for sample in SAMPLES]
    flip = TorchvisionTransform(v2.RandomHorizontalFlip(1.0), targets)
    for before, after in zip(batches(None, targets, samples), batches(flip, targets, samples), strict=True):
        for own, moved in zip(before.joints, after.joints, strict=True):
            mirrored = torch.cat([WIDTH - own[..., :1], own[..., 1:]], -1) * (own[..., 2:] > 0)
            # torchvision mirrors points by the last pixel.
            np.testing.assert_allclose(moved, mirrored, atol=1.01)
            assert moved.shape == own.shape


def test_torchvision_may_leave_rows_to_the_loader_alone(v2: Any) -> None:
    """A transform that drops boxes without what belongs to them is found out."""
    drop = v2.Compose([v2.RandomCrop((4, 4)), v2.SanitizeBoundingBoxes(labels_getter=None)])
    targets = {name: TARGETS[name] for name in ("boxes", "labels")}
    samples = [{name: sample[name] for name in ("image", *targets)} for sample in SAMPLES]
    with pytest.raises(ValueError, match=r"`labels`, as `transform` returned it: it has . elements, and `boxes` has"):
        batches(TorchvisionTransform(drop, targets), targets, samples)


@pytest.mark.parametrize("box_format", ["XYXY", "XYWH", "CXCYWH"])
def test_torchvision_may_convert_boxes(v2: Any, box_format: str) -> None:
    targets = {"boxes": Boxes("xywh", output="xyxy")}
    samples = [{name: sample[name] for name in ("image", *targets)} for sample in SAMPLES]
    convert = TorchvisionTransform(v2.ConvertBoundingBoxFormat(box_format), targets)
    for before, after in zip(batches(None, targets, samples), batches(convert, targets, samples), strict=True):
        for own, other in zip(before.boxes, after.boxes, strict=True):
            assert type(other) is torch.Tensor
            np.testing.assert_allclose(own, other, atol=1e-4)


@pytest.mark.usefixtures("v2")
def test_torchvision_must_return_a_sample() -> None:
    with pytest.raises(TypeError, match="`transform` must be a transform that returns a dict"):
        batches(TorchvisionTransform(lambda sample: sample["image"], TARGETS))


ALBUMENTATIONS: dict[str, Callable[[Any], list[Any]]] = {
    "mirrored": lambda library: [library.HorizontalFlip(p=1.0)],
    "cropped": lambda library: [library.RandomCrop(12, 16), library.VerticalFlip(), library.Transpose()],
    "turned": lambda library: [library.Rotate(40, p=1.0, fill_mask=255), library.RandomBrightnessContrast(p=1.0)],
    "nothing": lambda library: [library.NoOp()],
}


@pytest.mark.parametrize("output", ["numpy", "torch"])
@pytest.mark.parametrize("name", ALBUMENTATIONS)
def test_albumentations_moves_targets_as_by_itself(albumentations: Any, name: str, output: Any) -> None:
    steps = ALBUMENTATIONS[name](albumentations)
    compose = albumentations.Compose(
        steps,
        bbox_params=albumentations.BboxParams("coco", label_fields=["labels"]),
        keypoint_params=albumentations.KeypointParams("xy", remove_invisible=False),
    )
    adapted = AlbumentationsTransform(steps, TARGETS, seed=SEED)
    options: dict[str, Any] = {"dtype": "uint8", "layout": "NHWC", "output": output}
    kept = 0
    for before, after in zip(batches(None, **options), batches(adapted, **options), strict=True):
        for place, index in enumerate(before.index.tolist()):
            given = {field: np.asarray(before[field][place]) for field in ("image", *TARGETS)}
            key = ItemContext(0, index, index).key(SEED)
            compose.set_random_state(np.random.default_rng(key), random.Random(key))  # noqa: S311
            masks = {"masks": given["objects"]} if len(given["objects"]) else {}
            expected = compose(
                image=given["image"],
                mask=given["mask"].astype(np.uint8),
                bboxes=given["boxes"],
                labels=np.arange(len(given["boxes"])),
                keypoints=given["points"],
                **masks,
            )
            rows = np.asarray(expected["labels"], int)
            kept += len(rows)
            np.testing.assert_array_equal(after.image[place], expected["image"])
            np.testing.assert_array_equal(after.mask[place], expected["mask"])
            np.testing.assert_allclose(after.points[place], expected["keypoints"], atol=1e-5)
            np.testing.assert_allclose(after.boxes[place], np.reshape(expected["bboxes"], (-1, 4)), atol=1e-4)
            np.testing.assert_array_equal(after.labels[place], given["labels"][rows])
            if masks:
                np.testing.assert_array_equal(after.objects[place], np.stack(expected["masks"])[rows])
            assert after.objects[place].shape == (len(rows), *after.mask[place].shape)
            assert after.joints[place].shape == (len(rows), 2, 3)
    assert kept > 5


def test_albumentations_finds_boxes_for_transforms_that_ask_for_them(albumentations: Any) -> None:
    targets = {name: TARGETS[name] for name in ("boxes", "labels")}
    samples = [{name: sample[name] for name in ("image", *targets)} for sample in SAMPLES]
    crop = AlbumentationsTransform([albumentations.RandomSizedBBoxSafeCrop(12, 16)], targets, seed=SEED)
    plain, moved = batches(None, targets, samples), batches(crop, targets, samples)
    for before, after in zip(plain, moved, strict=True):
        assert after.image.shape[2:] == (12, 16)
        # Such a crop cuts no box off.
        assert [labels.tolist() for labels in after.labels] == [labels.tolist() for labels in before.labels]


def test_albumentations_takes_several_targets_of_a_kind(albumentations: Any) -> None:
    targets: dict[str, Any] = {"mask": InstanceMasks(), "bboxes": Mask(), "first": Boxes(), "second": Boxes()}
    targets |= {"points": Keypoints(), "keypoints": Keypoints()}
    ids = np.arange(HEIGHT * WIDTH).reshape(HEIGHT, WIDTH) % 200
    sample = {"image": SAMPLES[0]["image"], "mask": ids[None] > 99, "bboxes": ids, "first": [[0, 0, 4, 5]]}
    sample |= {"second": [[2, 3, 8, 9]], "points": [[1, 2]], "keypoints": [[3, 4]]}
    mirror = AlbumentationsTransform([albumentations.HorizontalFlip(p=1.0)], targets)
    (batch,) = batches(mirror, targets, [sample], output="numpy")
    np.testing.assert_array_equal(batch.bboxes[0], ids[:, ::-1])
    np.testing.assert_array_equal(batch.mask[0][0], (ids > 99)[:, ::-1])
    np.testing.assert_allclose(batch.first[0], [[WIDTH - 4, 0, WIDTH, 5]], atol=1e-4)
    np.testing.assert_allclose(batch.second[0], [[WIDTH - 8, 3, WIDTH - 2, 9]], atol=1e-4)
    # The library mirrors points by the last pixel.
    np.testing.assert_allclose([batch.points[0], batch.keypoints[0]], [[[WIDTH - 2, 2]], [[WIDTH - 4, 4]]], atol=1e-4)


def test_albumentations_may_drop_points(albumentations: Any) -> None:
    targets = {"points": Keypoints(), "joints": Keypoints(2, visibility=True)}
    points = [[x, y] for x in (0.5, 3.5, WIDTH - 0.5) for y in (0.5, 6.5, HEIGHT - 0.5)]
    sample = {"image": SAMPLES[0]["image"], "points": points, "joints": [[[0.5, 0.5, 2], [5.5, 5.5, 2]]]}
    bend = AlbumentationsTransform([albumentations.GridDistortion(distort_limit=(0.9, 0.9), p=1.0)], targets)
    (batch,) = batches(bend, targets, [sample] * 3, output="numpy", on_error="raise")
    for rows, joints in zip(batch.points, batch.joints, strict=True):
        assert rows.shape == (len(points), 2)
        gone = (rows == -1).all(1)
        assert ((rows[~gone] >= 0) & (rows[~gone] <= (WIDTH, HEIGHT))).all()
        assert joints.shape == (1, 2, 3)
        assert ((joints[..., 2] == 2) | (joints == 0).all(-1)).all()


@pytest.mark.parametrize(("dtype", "ids"), [("uint8", (0, 255)), ("uint16", (7, 26_001)), ("int64", (-100, 5))])
def test_albumentations_keeps_ids_and_formats(albumentations: Any, dtype: Any, ids: tuple[int, int]) -> None:
    targets: dict[str, Any] = {"mask": Mask(dtype=dtype), "boxes": Boxes("xyxy", output="cxcywh")}
    mask = np.random.default_rng(0).choice(ids, (HEIGHT, WIDTH))
    samples = [{"image": SAMPLES[0]["image"], "mask": mask, "boxes": [[2, 3, 8, 9]]}]
    for step in (albumentations.VerticalFlip(p=1.0), albumentations.Rotate((180, 180), p=1.0)):
        (batch,) = batches(AlbumentationsTransform([step], targets), targets, samples, output="numpy")
        assert batch.mask.dtype == dtype
        assert set(batch.mask[0, 1:-1, 1:-1].ravel().tolist()) == set(ids)
    mirror = AlbumentationsTransform([albumentations.HorizontalFlip(p=1.0)], targets)
    (batch,) = batches(mirror, targets, samples, output="numpy")
    np.testing.assert_array_equal(batch.mask[0], mask[:, ::-1])
    np.testing.assert_allclose(batch.boxes[0], [[WIDTH - 5, 6, 6, 6]], atol=1e-4)


@pytest.mark.parametrize("library", ["torchvision", "albumentations"])
def test_batches_do_not_depend_on_threads_and_differ_by_seed(library: str, request: pytest.FixtureRequest) -> None:
    def make_transform(seed: int) -> Any:
        if library == "torchvision":
            v2 = request.getfixturevalue("v2")
            steps = [v2.RandomCrop((12, 16)), v2.RandomRotation(30), v2.ColorJitter(0.5), v2.GaussianBlur(3)]
            return TorchvisionTransform(v2.Compose(steps), TARGETS, seed=seed)
        albumentations = request.getfixturevalue("albumentations")
        steps = [albumentations.RandomCrop(12, 16), albumentations.Rotate(30), albumentations.GaussNoise(p=1.0)]
        return AlbumentationsTransform(steps, TARGETS, seed=seed)

    one = batches(make_transform(1), num_threads=1)
    same(one, batches(make_transform(1), num_threads=4))
    assert not torch.equal(one[0].image, batches(make_transform(2))[0].image)


@pytest.mark.parametrize("library", ["torchvision", "albumentations"])
def test_adapters_refuse_what_they_cannot_move(library: str, request: pytest.FixtureRequest) -> None:
    module = request.getfixturevalue("v2" if library == "torchvision" else "albumentations")
    adapter: Any = TorchvisionTransform if library == "torchvision" else AlbumentationsTransform
    step: Any = module.RandomHorizontalFlip() if library == "torchvision" else [module.HorizontalFlip()]
    for kind, message in ((Polygons(), "InstanceMasks moves"), (Keypoints(2, swap=[(0, 1)]), "without `swap`")):
        with pytest.raises(ValueError, match=message):
            adapter(step, {"field": kind})
    with pytest.raises(TypeError, match=r"`(transform|transforms)` must be"):
        adapter(7)
    with pytest.raises(ValueError, match=r"`targets` must be the same as the loader's: \('mask',\), got"):
        batches(adapter(step), {"mask": Mask()}, [{name: SAMPLES[0][name] for name in ("image", "mask")}])
    with pytest.raises(ValueError, match=r"`targets` must be the same as the loader's: \(\), got \('mask',\)"):
        batches(adapter(step, {"mask": Mask()}), None, [SAMPLES[0]["image"]])
