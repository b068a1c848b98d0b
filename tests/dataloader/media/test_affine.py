"""Affine maps and policies move images, masks and what is counted in pixels alike."""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.dataloader.media.image_loading import COUNT, make
from tests.dataloader.media.test_geometry import SIZES, affine_fields, augments
from tests.dataloader.media.test_pixel_changes import ppm
from tests.dataloader.media.torchvision_steps import by_torchvision, make_picture
from tests.io.images import make_jpeg

from spdl.dataloader import Boxes, Geometry, ImageAugment, Keypoints, Mask, RandAugment, TrivialAugment, Values

STILL = ImageAugment(scale=None, flip=0)
STAYS: dict[str, Any] = {"rotate": 0.0, "translate": 0.0, "shear": 0.0, "affine_scale": (1.0, 1.0)}


def between(before: Geometry, after: Geometry) -> Any:
    """Return the map from one canvas to the other, (3, 3), in pixels from their edges."""
    first, second = (np.vstack([each.matrix, [0, 0, 1]]) for each in (before, after))
    return second @ np.linalg.inv(first)


def origins(matrix: Any, height: int, width: int) -> tuple[Any, Any]:
    """Return the x and y in the canvas before of the middle of each pixel, from its edges."""
    rows, columns = np.mgrid[:height, :width] + 0.5
    x, y, _ = np.einsum("ij,jhw->ihw", np.linalg.inv(matrix), np.stack([columns, rows, np.ones_like(rows)]))
    return x, y


def nearest(canvas: Any, x: Any, y: Any, pad_value: Any) -> tuple[Any, Any]:
    """Return the pixels in which places lie, and which of them are certain in floats."""
    height, width = canvas.shape[:2]
    inside = (x > 0) & (x < width) & (y > 0) & (y < height)
    rows, columns = (np.where(inside, np.floor(it), 0).astype(int) for it in (y, x))
    found = canvas[rows, columns]
    found[~inside] = pad_value
    return found, (abs(x - np.round(x)) > 1e-6) & (abs(y - np.round(y)) > 1e-6)


def blended(canvas: Any, x: Any, y: Any, pad_value: int) -> Any:
    """Return what lies between the middles of four pixels, in float64."""
    height, width, _ = canvas.shape
    left, top = np.floor(x - 0.5), np.floor(y - 0.5)
    found = np.zeros((*x.shape, 3))
    for column, across in ((left, left + 1.5 - x), (left + 1, x - left - 0.5)):
        for row, down in ((top, top + 1.5 - y), (top + 1, y - top - 0.5)):
            inside = (column >= 0) & (column < width) & (row >= 0) & (row < height)
            pixels = canvas[np.where(inside, row, 0).astype(int), np.where(inside, column, 0).astype(int)].astype(float)
            pixels[~inside] = pad_value
            found += pixels * (across * down)[..., None]
    return found


@given(
    sizes=st.lists(SIZES, min_size=1, max_size=3),
    size=SIZES,
    mode=st.sampled_from(["pad", "crop", "stretch"]),
    augment=augments(),
    affine=affine_fields(),
    seed=st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 3)),
)
def test_affine_moves_what_a_loader_without_it_gives(  # noqa: PLR0917 - as many are drawn.
    sizes: list[tuple[int, int]],
    size: tuple[int, int],
    mode: str,
    augment: ImageAugment,
    affine: dict[str, Any],
    seed: tuple[int, int],
) -> None:
    rng = np.random.default_rng(seed[1])
    source = [
        {
            "image": ppm(rng.integers(0, 256, (height, width, 3), np.uint8)),
            "mask": rng.integers(0, 65536, (height, width)),
        }
        for width, height in sizes
    ]
    options: dict[str, Any] = {"size": size, "mode": mode, "seed": seed[0], "dtype": "uint8", "layout": "NHWC"}
    options |= {"targets": {"mask": Mask(9, "uint16")}, "pad_value": 7}
    batches = {}
    for interpolation in ("nearest", "bilinear"):
        for fields in (STAYS, affine):
            loader = make(source, 3, augment=replace(augment, **fields), interpolation=interpolation, **options)
            loader.set_epoch(seed[1])
            (batches[interpolation, fields is affine],) = loader
    for number in range(len(sizes)):
        before, after = (batches["nearest", moved] for moved in (False, True))
        matrix = between(before.geometry[number], after.geometry[number])
        x, y = origins(matrix, *size[::-1])
        for name, pad_value in (("image", 7), ("mask", 9)):
            expected, certain = nearest(before[name][number], x, y, pad_value)
            np.testing.assert_array_equal(after[name][number][certain], expected[certain])
        smooth, found = (batches["bilinear", moved].image[number] for moved in (False, True))
        assert abs(blended(smooth, x, y, 7) - found).max() < 0.65


def spread(value: Any) -> tuple[float, float]:
    return value if isinstance(value, tuple) else (-value, value)


@given(affine=affine_fields(), name=st.sampled_from(sorted(STAYS)), seed=st.integers(0, 999))
def test_affine_draws_each_value_from_its_range(affine: dict[str, Any], name: str, seed: int) -> None:
    source = [ppm(np.zeros((30, 40, 3), np.uint8))] * 4
    augment = replace(STILL, **{name: affine[name]})
    (batch,) = make(source, 4, size=(40, 30), augment=augment, seed=seed, targets={}, mode="stretch")
    for geometry in batch.geometry:
        (a, b), (c, d) = geometry.matrix[:, :2]
        scale = np.sqrt(a * d - b * c)
        found: dict[str, Any] = {
            "rotate": [np.degrees(np.arctan2(c, a))],
            "shear": [np.degrees(np.arctan(-each)) for each in (b, c)],
            "affine_scale": [scale],
            "translate": geometry.points(np.array([20.0, 15.0])) / (40, 30) - 0.5,
        }
        ranges: dict[str, Any] = {
            "rotate": [spread(affine["rotate"])],
            "shear": [spread(affine["shear"])] * 2,
            "affine_scale": [affine["affine_scale"]],
            "translate": [(-it, it) for it in np.broadcast_to(affine["translate"], 2)],
        }
        for value, (low, high) in zip(found[name], ranges[name], strict=True):
            assert low - 1e-6 <= value <= high + 1e-6
        still = {"rotate": 0, "shear": 0, "affine_scale": 1, "translate": 0}
        for other in still.keys() - {name, *({"rotate"} if name == "shear" else {"shear"} if name == "rotate" else ())}:
            np.testing.assert_allclose(found[other], still[other], atol=1e-9)


@given(
    angle=st.floats(-180, 180),
    shear=st.floats(-60, 60),
    scale=st.floats(0.3, 3),
    seed=st.integers(0, 999),
)
def test_affine_is_the_product_of_its_parts(angle: float, shear: float, scale: float, seed: int) -> None:
    augment = replace(STILL, rotate=(angle, angle), shear=(shear, shear), affine_scale=(scale, scale))
    (batch,) = make([ppm(np.zeros((3, 4, 3), np.uint8))], size=(4, 3), augment=augment, seed=seed, targets={})
    turn, tangent = np.radians(angle), np.tan(np.radians(shear))
    rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    linear = scale * rotation @ [[1, 0], [-tangent, 1]] @ [[1, -tangent], [0, 1]]
    middle = np.array([2, 1.5])
    (geometry,) = batch.geometry
    np.testing.assert_allclose(geometry.matrix, np.hstack([linear, (middle - linear @ middle)[:, None]]), atol=1e-9)


def test_affine_needs_no_targets_and_does_not_change_other_draws() -> None:
    source = [ppm(make_picture((20, 16), seed=number)) for number in range(COUNT)]
    augment = ImageAugment(scale=(0.3, 1), brightness=0.4, quarter_turns=True)
    moved = replace(augment, rotate=20, translate=0.1)
    options: dict[str, Any] = {"seed": 4, "shuffle": True}
    for batch, other in zip(
        make(source, **options, augment=moved), make(source, **options, augment=moved, targets={}), strict=True
    ):
        assert batch.image.tobytes() == other.image.tobytes()
        assert "geometry" not in batch.fields()
    (still,) = make(source, COUNT, augment=augment, targets={}, seed=4)
    (turned,) = make(source, COUNT, augment=moved, targets={}, seed=4)
    for before, after in zip(still.geometry, turned.geometry, strict=True):
        linear = between(before, after)[:2, :2]
        np.testing.assert_allclose(linear @ linear.T, np.eye(2), atol=1e-9)
        assert linear[0, 0] >= np.cos(np.radians(20)) - 1e-9


def policy_maps(steps: list[tuple[str, float]], width: int, height: int) -> list[Any]:
    """Return the maps of the steps that move pixels, (3, 3) each."""
    found = []
    for name, value in steps:
        sine, cosine = np.sin(np.radians(value)), np.cos(np.radians(value))
        middle = np.array([width / 2, height / 2])
        turn = np.array([[cosine, sine], [-sine, cosine]])
        rotation = np.hstack([turn, (middle - turn @ middle)[:, None]])
        # As torchvision's policies: shears leave the left upper corner where it is.
        maps: dict[str, Any] = {
            "shear_x": [[1, -value, 0], [0, 1, 0]],
            "shear_y": [[1, 0, 0], [-value, 1, 0]],
            "translate_x": [[1, 0, value], [0, 1, 0]],
            "translate_y": [[1, 0, 0], [0, 1, value]],
            "rotate": rotation,
        }
        if name in maps:
            found.append(np.vstack([maps[name], [0, 0, 1]]))
    return found


def by_policy(canvas: Any, steps: list[tuple[str, float]]) -> tuple[tuple[Any, Any], Any]:
    """Return a canvas (H, W) of ids after the steps that move pixels, which of them are certain, and the whole map."""
    height, width = canvas.shape
    whole = np.eye(3)
    certain = np.ones(canvas.shape, bool)
    for matrix in policy_maps(steps, width, height):
        x, y = origins(matrix, height, width)
        canvas, sure = nearest(canvas, x, y, 255)
        moved, _ = nearest(certain, x, y, 1)
        certain = sure & moved
        whole = matrix @ whole
    return (canvas, certain), whole


@pytest.mark.parametrize("policy", [RandAugment(num_ops=3, magnitude=20), TrivialAugment()])
def test_policy_moves_targets_with_its_image(policy: Any) -> None:
    augment, size, count = ImageAugment(scale=(0.5, 1), policy=policy), (32, 24), 60
    rng = np.random.default_rng(0)
    source = [
        {
            "image": ppm(make_picture((40, 30), seed=number)),
            "mask": rng.integers(0, 255, (30, 40)),
            "boxes": [[4, 5, 30, 20], [20, 10, 39, 29]],
            "points": [[20, 15]],
        }
        for number in range(count)
    ]
    targets = {"mask": Mask(dtype="uint8"), "boxes": Boxes(), "points": Keypoints()}
    options: dict[str, Any] = {"size": size, "seed": 5, "targets": targets}
    (before,) = make(source, count, augment=replace(augment, policy=None), **options)
    (after,) = make(source, count, augment=augment, **options)
    (images,) = make(source, count, size=size, seed=5, augment=augment)
    # Targets leave images as they are.
    assert after.image.tobytes() == images.image.tobytes()
    moved = 0
    for number in range(count):
        steps = augment.steps(number, seed=5, epoch=0, size=size)
        (ids, certain), matrix = by_policy(before.mask[number], steps)
        np.testing.assert_array_equal(after.mask[number][certain], ids[certain])
        np.testing.assert_allclose(between(before.geometry[number], after.geometry[number]), matrix, atol=1e-9)
        np.testing.assert_allclose(
            after.points[number], after.geometry[number].points(np.array([[20.0, 15.0]])), atol=1e-4
        )
        moved += not np.array_equal(matrix, np.eye(3))
    assert moved > count / 5


GRID = [[x, y, 2] for x in np.linspace(0.3, 39.7, 9) for y in np.linspace(0.3, 29.7, 9)]
CUT: dict[str, Any] = {
    "boxes": Boxes(),
    "number": Values(of="boxes"),
    "grid": Keypoints(len(GRID), visibility=True),
}


def hulls(matrix: Any, boxes: Any, size: tuple[int, int]) -> Any:
    """Return the upright boxes around moved ones, clipped to the size."""
    corners = np.array(boxes).reshape(-1, 4)[:, [[0, 1], [2, 1], [0, 3], [2, 3]]]
    moved = corners @ matrix[:2, :2].T + matrix[:2, 2]
    return np.clip(np.hstack([moved.min(1), moved.max(1)]), 0, [*size, *size])


def inside(points: Any, size: tuple[int, int], margin: float) -> Any:
    return ((points > margin) & (points < np.array(size) - margin)).all(-1)


@given(
    augment=augments(),
    affine=affine_fields(),
    boxes=st.lists(st.tuples(*[st.floats(0, 30)] * 2, *[st.floats(1, 30)] * 2), max_size=4),
    size=SIZES,
    least=st.sampled_from([0.0, 0.3]),
    seed=st.integers(0, 999),
)
def test_affine_does_not_bring_back_what_a_crop_cut_off(  # noqa: PLR0917 - as many are drawn.
    augment: ImageAugment, affine: dict[str, Any], boxes: list[Any], size: tuple[int, int], least: float, seed: int
) -> None:
    source = [
        {
            "image": ppm(np.zeros((30, 40, 3), np.uint8)),
            "boxes": [[x, y, x + width, y + height] for x, y, width, height in boxes],
            "number": list(range(len(boxes))),
            "grid": [GRID],
        }
    ]
    cut, moved = (
        next(iter(make(source, augment=replace(augment, **fields), size=size, seed=seed, targets=targets, mode="pad")))
        for fields, targets in ((STAYS, CUT), (affine, {**CUT, "boxes": Boxes(min_visibility=least)}))
    )
    expected = hulls(between(cut.geometry[0], moved.geometry[0]), cut.boxes[0], size)
    sides = expected[:, 2:] - expected[:, :2]
    whole = moved.geometry[0].boxes(np.array(source[0]["boxes"], float).reshape(-1, 4)[cut.number[0]])
    spare = sides.prod(1) - least * (whole[:, 2:] - whole[:, :2]).prod(1)
    # What lies on a limit may fall on either side of it.
    assume(not ((sides > 1e-4) & (sides < 1e-2)).any() and not (least and (abs(spare) < 1e-2).any()))
    kept = (sides > 1e-3).all(1) & (spare > -1e-2)
    assert moved.number[0].tolist() == cut.number[0][kept].tolist()
    np.testing.assert_allclose(moved.boxes[0], expected[kept], atol=1e-3)
    places = moved.geometry[0].points(np.array(GRID)[:, :2])
    was, stays = (batch.grid[0][0, :, 2] > 0 for batch in (cut, moved))
    assert not stays[~was | ~inside(places, size, -1e-2)].any()
    assert stays[was & inside(places, size, 1e-2) & inside(cut.grid[0][0, :, :2], size, 1e-2)].all()


def test_policy_does_not_bring_back_what_one_of_its_moves_cut_off() -> None:
    augment, size, count = replace(STILL, policy=RandAugment(num_ops=3, magnitude=25)), (40, 30), 60
    boxes = [[0, 0, 12, 9], [10, 12, 30, 20], [25, 18, 40, 30]]
    sample = {"image": ppm(make_picture((40, 30))), "boxes": boxes, "number": [0, 1, 2], "grid": [GRID]}
    (batch,) = make([sample] * count, count, size=size, seed=3, augment=augment, targets=CUT, mode="stretch")
    lost = 0
    for number in range(count):
        points = np.array(GRID)[:, :2]
        left, at_edge, around = np.zeros(len(GRID), bool), np.zeros(len(GRID), bool), np.array(boxes, float)
        for matrix in policy_maps(augment.steps(number, seed=3, epoch=0, size=size), *size):
            points = points @ matrix[:2, :2].T + matrix[:2, 2]
            left |= ~inside(points, size, 0)
            at_edge |= inside(points, size, -1e-2) & ~inside(points, size, 1e-2)
            around = hulls(matrix, around, size)
        shown = batch.grid[number][0, :, 2] > 0
        np.testing.assert_array_equal(shown[~at_edge], ~left[~at_edge])
        lost += int((left & inside(points, size, 1e-2)).sum())
        for place, box in zip(batch.number[number], batch.boxes[number], strict=True):
            assert (box[:2] >= around[place, :2] - 1e-3).all()
            assert (box[2:] <= around[place, 2:] + 1e-3).all()
        # Each box has all that can be seen of it.
        first = np.array(GRID)[:, None, :2]
        within: Any = ((first > np.array(boxes)[:, :2]) & (first < np.array(boxes)[:, 2:])).all(-1)
        for place, owned in enumerate(within.T):
            for point in batch.grid[number][0, owned & shown & ~at_edge, :2]:
                box = batch.boxes[number][batch.number[number] == place][0]
                assert (point >= box[:2] - 1e-3).all()
                assert (point <= box[2:] + 1e-3).all()
    assert lost > count


@pytest.fixture(scope="module")
def v2() -> Any:
    if importlib.util.find_spec("torchvision") is None:
        pytest.skip("needs torchvision")
    importlib.import_module("tests.repository.beside_torchvision")
    return importlib.import_module("torchvision.transforms.v2")


@pytest.mark.pages
def test_affine_is_that_of_torchvisions_functions(v2: Any) -> None:
    import torch  # noqa: PLC0415 - an optional dependency.

    tensors = importlib.import_module("torchvision.tv_tensors")
    width, height = size = (20, 15)
    rng = np.random.default_rng(0)
    boxes = np.array([[2.0, 3.0, 12.0, 9.0], [8.0, 4.0, 19.5, 14.0]])
    for angle, shear, scale in ((10, 0, 1), (-25, 8, 1.2), (90, 0, 0.7), (7.5, -12, 0.9)):
        augment = replace(
            STILL, rotate=(angle, angle), shear=(shear, shear), affine_scale=(scale, scale), translate=0.2
        )
        ids = rng.integers(0, 255, (height, width))
        sample = {"image": make_jpeg(width, height, seed=1), "mask": ids, "boxes": boxes}
        targets = {"mask": Mask(0, "uint8"), "boxes": Boxes()}
        options: dict[str, Any] = {"size": size, "mode": "stretch", "dtype": "uint8"}
        (plain,) = make([sample], **options)
        (batch,) = make([sample], augment=augment, targets=targets, **options)
        (geometry,) = batch.geometry
        middle = np.array([width / 2, height / 2])
        shift = (geometry.points(middle) - middle).tolist()
        how: Any = {"angle": angle, "translate": shift, "scale": scale, "shear": [shear, shear]}
        smooth = v2.InterpolationMode.BILINEAR
        image = v2.functional.affine(torch.from_numpy(plain.image[0]), **how, interpolation=smooth)
        assert abs(batch.image[0].astype(int) - image.numpy()).max() <= 1
        mask = v2.functional.affine(tensors.Mask(torch.from_numpy(ids.astype(np.uint8))[None]), **how)
        x, y = origins(np.vstack([geometry.matrix, [0, 0, 1]]), height, width)
        certain = (abs(x - np.round(x)) > 1e-3) & (abs(y - np.round(y)) > 1e-3)
        np.testing.assert_array_equal(batch.mask[0][certain], mask[0].numpy()[certain])
        given_boxes = tensors.BoundingBoxes(torch.tensor(boxes), format="XYXY", canvas_size=size[::-1])
        expected = v2.functional.clamp_bounding_boxes(v2.functional.affine(given_boxes, **how)).numpy()
        np.testing.assert_allclose(batch.boxes[0], expected[(expected[:, 2:] > expected[:, :2]).all(1)], atol=1e-3)


@pytest.mark.pages
def test_policy_moves_masks_as_torchvisions_functions_do(v2: Any) -> None:
    augment, size, count = replace(STILL, policy=RandAugment(num_ops=2, magnitude=9)), (32, 24), 40
    ids = np.arange(32 * 24).reshape(24, 32) % 251 + 1
    source = [{"image": ppm(make_picture(size)), "mask": ids}] * count
    options: dict[str, Any] = {"size": size, "targets": {"mask": Mask(0, "uint8")}, "mode": "stretch", "seed": 1}
    (batch,) = make(source, count, augment=augment, **options)
    same = 0
    for number in range(count):
        expected = np.repeat(ids.astype(np.uint8)[..., None], 3, -1)
        for name, value in augment.steps(number, seed=1, epoch=0, size=size):
            if name.partition("_")[0] in ("shear", "translate", "rotate"):
                expected = by_torchvision(expected, name, value)
        same += int((expected[..., 0] == batch.mask[number]).sum())
    # It computes in float32 which pixel is the nearest.
    assert same >= 0.99 * ids.size * count
