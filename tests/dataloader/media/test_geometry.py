"""Images go where their geometry says: each pixel of a batch is the one that its matrix leads back to."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.dataloader.media.image_loading import contents, make

from spdl.dataloader import Geometry, ImageAugment

if TYPE_CHECKING:
    from spdl.source import ImageFolder

SIZES = st.tuples(st.integers(1, 40), st.integers(1, 40))
FACTORS = st.floats(0.2, 3).map(lambda factor: round(factor, 3))


def places(width: int, height: int) -> bytes:
    """Return a picture whose red is the column and whose green is the row of each pixel; nothing in it is black."""
    pixels = np.full((height, width, 3), 255, np.uint8)
    pixels[..., 0], pixels[..., 1] = np.arange(width), np.arange(height)[:, None]
    return f"P6 {width} {height} 255 ".encode() + pixels.tobytes()


@st.composite
def augments(draw: st.DrawFn) -> ImageAugment:
    fields: dict[str, Any] = {"scale": None}
    kind = draw(st.sampled_from(["whole", "crop", "zoom"]))
    if kind == "crop":
        fields["scale"] = (0.1, 1.0)
    elif kind == "zoom":
        fields["zoom"] = tuple(sorted(draw(st.tuples(FACTORS, FACTORS))))
        fields["zoom_from"] = draw(st.sampled_from(["image", "fit", "cover"]))
    return ImageAugment(
        **fields,
        flip=draw(st.sampled_from([0.0, 0.5, 1.0])),
        vertical_flip=draw(st.sampled_from([0.0, 0.5, 1.0])),
        quarter_turns=draw(st.booleans()),
    )


ANGLES = st.floats(0, 40).map(lambda angle: round(angle, 2))
SHARES = st.sampled_from([0.0, 0.1, 0.5])


@st.composite
def affine_fields(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "rotate": draw(st.one_of(ANGLES, st.tuples(ANGLES.map(lambda it: -it), ANGLES), st.just(180))),
        "translate": draw(st.one_of(SHARES, st.tuples(SHARES, SHARES))),
        "shear": draw(st.one_of(ANGLES, st.tuples(ANGLES.map(lambda it: -it), ANGLES))),
        "affine_scale": tuple(sorted(draw(st.tuples(FACTORS, FACTORS)))),
    }


def moving() -> st.SearchStrategy[ImageAugment]:
    """Return all kinds of geometry, also those after which a pixel comes from two steps."""
    affine = st.builds(lambda augment, fields: replace(augment, **fields), augments(), affine_fields())
    return st.one_of(augments(), affine)


def check_pixels(image: Any, geometry: Geometry, pad_value: int = 0) -> None:
    """Check the pixels of an image (H, W, 3) of `places` that was resized without a filter."""
    height, width, _ = image.shape
    assert geometry.size == (width, height)
    rows, columns = np.mgrid[:height, :width] + 0.5
    back = np.linalg.inv(np.vstack([geometry.matrix, [0, 0, 1]]))
    x, y, _ = np.einsum("ij,jhw->ihw", back, np.stack([columns, rows, np.ones_like(rows)]))
    # In floats it is not certain on which side of a pixel's edge a place lies.
    certain = (abs(x - np.round(x)) > 1e-6) & (abs(y - np.round(y)) > 1e-6)
    own_width, own_height = geometry.original
    inside = (x > 0) & (x < own_width) & (y > 0) & (y < own_height)
    expected = np.stack([np.floor(x), np.floor(y), np.full_like(x, 255)], -1)
    expected[~inside] = pad_value
    np.testing.assert_array_equal(image[certain], expected[certain])


@given(
    sizes=st.lists(SIZES, min_size=1, max_size=3),
    size=SIZES,
    mode=st.sampled_from(["pad", "crop", "stretch"]),
    augment=st.one_of(st.just("eval"), augments()),
    seed=st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 3)),
)
def test_geometry_leads_from_each_pixel_to_its_origin(
    sizes: list[tuple[int, int]], size: tuple[int, int], mode: str, augment: Any, seed: tuple[int, int]
) -> None:
    options = {"size": size, "mode": mode, "augment": augment, "seed": seed[0]}
    formats = {"interpolation": "nearest", "dtype": "uint8", "layout": "NHWC", "pad_value": 7}
    loader = make([places(*each) for each in sizes], len(sizes), targets={}, **options, **formats)
    loader.set_epoch(seed[1])
    (batch,) = loader
    assert batch.size.dtype == np.int64
    assert batch.size.tolist() == [list(each) for each in sizes]
    for image, geometry, own in zip(batch.image, batch.geometry, sizes, strict=True):
        assert geometry.original == own
        check_pixels(image, geometry, pad_value=7)


def test_geometry_leaves_images_as_they_were(photos: ImageFolder) -> None:
    blurred = ImageAugment(scale=(0.3, 1), blur=0.5, grayscale=0.5, erase=1.0)
    for augment in ("eval", "train", ImageAugment(scale=(0.3, 1), brightness=0.4), blurred):
        for mode in ("pad", "crop", "stretch"):
            options: dict[str, Any] = {"augment": augment, "mode": mode, "seed": 3, "shuffle": True}
            assert contents(make(photos, **options, targets={})) == contents(make(photos, **options))


def test_turns_need_no_targets(photos: ImageFolder) -> None:
    augment = ImageAugment(scale=None, flip=0, quarter_turns=True, vertical_flip=0.5)
    turned = make(photos, 23, augment=augment, mode="stretch", interpolation="nearest")
    (batch,) = turned
    (plain,) = make(photos, 23, mode="stretch", interpolation="nearest")
    assert "geometry" not in batch.fields()
    kinds = set()
    for image, before in zip(batch.image, plain.image, strict=True):
        results = {
            (turns, upside_down): np.rot90(before, -turns, (1, 2))[:, :: -1 if upside_down else 1]
            for turns in range(4)
            for upside_down in (False, True)
        }
        kinds |= {kind for kind, result in results.items() if np.array_equal(result, image)}
    assert len(kinds) == 8


POINTS = st.lists(st.tuples(st.floats(-50, 90), st.floats(-50, 90)), max_size=4)


@given(points=POINTS, seed=st.integers(0, 99), augment=augments())
def test_geometry_maps_points_and_boxes_as_float64_does(
    points: list[tuple[float, float]], seed: int, augment: ImageAugment
) -> None:
    import torch  # noqa: PLC0415 - an optional dependency.

    (batch,) = make([places(40, 30)], targets={}, augment=augment, seed=seed)
    geometry = batch.geometry[0]
    given_points = np.array(points).reshape(-1, 2)
    homogeneous = np.hstack([given_points, np.ones((len(points), 1))])
    expected = homogeneous @ geometry.matrix.T
    np.testing.assert_allclose(geometry.points(given_points), expected, atol=1e-9)
    np.testing.assert_allclose(geometry.inverse().points(expected), given_points, atol=1e-6)
    boxes = np.hstack([given_points, np.add(given_points, (3, 5))])
    corners = np.stack([geometry.points(boxes[:, [x, y]]) for x in (0, 2) for y in (1, 3)])
    around = np.hstack([corners.min(0), corners.max(0)])
    np.testing.assert_allclose(geometry.boxes(boxes), around, atol=1e-9)
    tensors = torch.tensor(boxes, dtype=torch.float32)
    mapped = geometry.boxes(tensors)
    assert mapped.dtype == torch.float32
    np.testing.assert_allclose(mapped.numpy(), around, atol=1e-3)


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        ({"vertical_flip": 2}, ValueError, "`vertical_flip` must be a number from 0 to 1"),
        ({"quarter_turns": "yes"}, TypeError, "`quarter_turns` must be True or False"),
        ({"zoom": (0.5, 2)}, ValueError, "`scale` must be None with `zoom`"),
        ({"scale": None, "zoom": 2}, TypeError, "`zoom` must be two numbers"),
        ({"scale": None, "zoom": (2, 1)}, ValueError, "`zoom` must be two numbers"),
        ({"scale": None, "zoom": (1, 1), "zoom_from": "own"}, ValueError, "`zoom_from` must be 'image', 'fit' or"),
        ({"rotate": 181}, ValueError, "`rotate` must be a number from 0 to 180, or two from -180 to 180"),
        ({"rotate": "far"}, TypeError, "`rotate` must be a number from 0 to 180"),
        ({"shear": (5, -5)}, ValueError, "`shear` must be a number from 0 to 80, or two from -80 to 80, the lesser"),
        ({"shear": 80.5}, ValueError, "`shear` must be"),
        ({"translate": 1.5}, ValueError, "`translate` must be a number from 0 to 1, or two: for the width and for the"),
        ({"translate": (0.1, 0.1, 0.1)}, ValueError, "`translate` must be"),
        ({"affine_scale": 2}, TypeError, "`affine_scale` must be two numbers, 0 < least <= greatest"),
        ({"affine_scale": (0, 1)}, ValueError, "`affine_scale` must be two numbers"),
    ],
)
def test_wrong_geometry_is_refused(fields: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ImageAugment(**fields)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_geometry_refuses_other_shapes(library: str) -> None:
    make_array = pytest.importorskip(library).zeros
    geometry = Geometry(np.eye(2, 3), (8, 8), (8, 8))
    for call, shape in ((geometry.boxes, (3, 6)), (geometry.points, (3, 3)), (geometry.points, ())):
        with pytest.raises(ValueError, match="The last dimension must be"):
            call(make_array(shape))
    assert geometry.boxes(make_array(0)).shape == (0, 4)
    assert geometry.points([]).shape == (0, 2)
