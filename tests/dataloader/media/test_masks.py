"""Masks move with their images: each pixel has the id of the place that its geometry leads back to."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.dataloader.media.image_loading import make
from tests.dataloader.media.test_geometry import SIZES, augments, check_pixels, moving, places

from spdl.dataloader import Boxes, ImageAugment, InstanceMasks, Mask
from spdl.io import ImageOptions, LoadError, decode_config

if TYPE_CHECKING:
    from pathlib import Path


def encoded(picture: Any, kind: str = "PNG") -> bytes:
    file = io.BytesIO()
    picture.save(file, kind)
    return file.getvalue()


def palette(ids: Any) -> Any:
    """Return a picture with a palette in which the colours say nothing of the ids."""
    picture = Image.fromarray(ids.astype(np.uint8), "P")
    picture.putpalette(np.random.default_rng(0).integers(0, 256, 768, np.uint8).tobytes())
    return picture


# How ids are given, and the greatest of them.
KINDS: dict[str, tuple[Any, int]] = {
    "palette": (lambda ids: encoded(palette(ids)), 255),
    "gray": (lambda ids: encoded(Image.fromarray(ids.astype(np.uint8))), 255),
    "gray of 16 bits": (lambda ids: encoded(Image.fromarray(ids.astype(np.uint16))), 65535),
    "array": (lambda ids: ids.astype(np.int32), 65535),
    "tensor": (lambda ids: torch.from_numpy(ids.astype(np.uint8)), 255),
    "column by column": (lambda ids: np.asfortranarray(ids.astype(np.uint16)), 65535),
}


@given(
    sizes=st.lists(SIZES, min_size=1, max_size=3),
    kinds=st.lists(st.sampled_from(sorted(KINDS)), min_size=3, max_size=3),
    size=SIZES,
    mode=st.sampled_from(["pad", "crop", "stretch"]),
    augment=st.one_of(st.just("eval"), augments()),
    target=st.sampled_from([Mask(), Mask(7, "uint16"), Mask(65535, "int32"), Mask(-100), Mask(-32768, "int32")]),
    seed=st.integers(0, 999),
)
def test_masks_have_the_ids_of_the_places_that_geometry_leads_to(  # noqa: PLR0917 - as many are drawn.
    sizes: list[tuple[int, int]],
    kinds: list[str],
    size: tuple[int, int],
    mode: str,
    augment: Any,
    target: Mask,
    seed: int,
) -> None:
    masks = [
        (np.arange(width * height).reshape(height, width) * 41 + seed) % (KINDS[kind][1] + 1)
        for (width, height), kind in zip(sizes, kinds, strict=False)
    ]
    source = [
        {"image": places(*own), "mask": KINDS[kind][0](mask)}
        for own, kind, mask in zip(sizes, kinds, masks, strict=False)
    ]
    formats = {"interpolation": "nearest", "dtype": "uint8", "layout": "NHWC"}
    (batch,) = make(source, 3, targets={"mask": target}, size=size, mode=mode, augment=augment, seed=seed, **formats)
    assert batch.mask.dtype == target.dtype
    for image, found, geometry, mask in zip(batch.image, batch.mask, batch.geometry, masks, strict=True):
        check_pixels(image, geometry)
        # The image says where it comes from.
        inside = image[..., 2] == 255
        expected = np.where(inside, mask[image[..., 1] * inside, image[..., 0] * inside], target.ignore_index)
        np.testing.assert_array_equal(found, expected)


def test_masks_are_read_from_files(tmp_path: Path) -> None:
    ids = np.array([[0, 1], [2, 255]])
    for kind, name in (("PNG", "a.png"), ("GIF", "b.gif"), ("BMP", "c.bmp"), ("TIFF", "d.tif")):
        palette(ids).save(tmp_path / name, kind)
        source = [{"image": places(2, 2), "mask": tmp_path / name}]
        (batch,) = make(source, size=2, targets={"mask": Mask(dtype="uint8")})
        # Pillow writes other numbers to a GIF, and reads them as they are.
        with Image.open(tmp_path / name) as file:
            assert batch.mask.tolist() == [np.array(file).tolist()]


def test_masks_of_stacks_are_the_page_that_is_asked_for() -> None:
    pages = [Image.fromarray(np.full((8, 8), level, np.uint8)) for level in (1, 2, 3)]
    file = io.BytesIO()
    pages[0].save(file, "TIFF", save_all=True, append_images=pages[1:])
    source = [{"image": places(8, 8), "mask": file.getvalue()}]
    (batch,) = make(source, targets={"mask": Mask(pages=2)})
    assert np.unique(batch.mask).tolist() == [3]
    with pytest.warns(UserWarning, match="a TIFF has several pages"):
        list(make(source, targets={"mask": Mask()}))


@pytest.mark.parametrize("exif", [True, False])
def test_masks_follow_the_options_of_images(exif: bool) -> None:  # noqa: FBT001 - pytest gives names.
    ids = np.arange(64, dtype=np.uint8).reshape(8, 8)
    file, tags = io.BytesIO(), Image.Exif()
    tags[0x0112] = 3  # Turned by 180 degrees.
    Image.fromarray(ids).save(file, "PNG", exif=tags)
    source = [{"image": places(8, 8), "mask": file.getvalue()}]
    (batch,) = make(source, targets={"mask": Mask()}, size=None, options=ImageOptions(8, 8, exif=exif))
    np.testing.assert_array_equal(batch.mask[0], ids[::-1, ::-1] if exif else ids)
    small = ImageOptions(8, 8, decode_config=decode_config(max_pixels=63))
    with pytest.raises(LoadError, match="at most 63 pixels"):
        list(make([{**source[0], "image": places(4, 4)}], targets={"mask": Mask()}, size=None, options=small))


def test_masks_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    path = tmp_path / "mask.png"
    with pytest.raises(LoadError, match=f"`mask`: {str(path)!r}: cannot open the file"):
        list(make([{"image": places(8, 8), "mask": path}], targets={"mask": Mask()}))


@pytest.mark.parametrize("on_error", ["skip", "refill"])
def test_masks_stay_with_their_images(on_error: str) -> None:
    source: list[Any] = [
        {"image": places(9, 9), "mask": np.full((9, 9), number), "boxes": [[0, 0, 9, number / 2]]}
        for number in range(12)
    ]
    source[3]["mask"] = np.zeros((9, 8), np.uint8)
    source[5]["image"] = b"no picture"
    source[8]["mask"] = encoded(Image.new("RGB", (9, 9)))
    options: dict[str, Any] = {"targets": {"mask": Mask(), "boxes": Boxes()}, "mode": "stretch", "size": 9}
    batches = list(make(source, 4, **options, shuffle=True, on_error=on_error))
    found = [
        (index, number) for batch in batches for index, number in zip(batch.index, batch.mask[:, 0, 0], strict=True)
    ]
    assert all(index == number for index, number in found)
    assert len(found) == (12 if on_error == "refill" else 9)
    for batch in batches:
        for index, boxes in zip(batch.index, batch.boxes, strict=True):
            assert boxes.tolist() == ([[0, 0, 9, index / 2]] if index else [])


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        (np.zeros((4, 5), np.uint8), "`mask`: it has 5x4 pixels, and its image has 4x4: save it at the size of"),
        (Image.new("L", (4, 4)), "`mask`: it must be .*; numpy.asarray makes an array of it"),
        ([[0] * 4] * 4, "`mask`: it must be .*; numpy.asarray makes an array of it"),
        (np.full((4, 4), 70000), "`mask`: "),
        (np.zeros((4, 4), np.float32), r"`mask`: it must be a file or an array \(H, W\) of ints, got float32 \(4, 4\)"),
        (np.zeros((4, 4, 3), np.uint8), r"`mask`: it must be a file or an array \(H, W\) of ints, got uint8"),
        (None, r"`mask`: it must be a file or an array \(H, W\) of ints, got None"),
        (torch.eye(4).to_sparse(), r"`mask`: it must be a file or an array \(H, W\) of ints, got tensor\(indices"),
        (b"no picture", "`mask`: "),
        ("no such file.png", "`mask`: "),
        (encoded(Image.new("RGB", (4, 4))), "`mask`: ids are read from a palette .* save the number of each pixel"),
        (encoded(Image.new("L", (4, 4)), "JPEG"), "`mask`: ids are read from .* in a format without losses"),
    ],
)
def test_masks_that_make_no_sense_fail_their_sample(mask: Any, message: str) -> None:
    good = {"image": places(4, 4), "mask": np.ones((4, 4), np.uint8)}
    source = [good, {**good, "mask": mask}]
    with pytest.raises(LoadError, match=message):
        list(make(source, targets={"mask": Mask()}))
    (batch,) = make(source, targets={"mask": Mask()}, on_error="skip")
    assert batch.index.tolist() == [0]


def test_masks_have_what_cross_entropy_ignores_unless_it_is_told_otherwise() -> None:
    ids = np.array([[0, 1, -100, 2]] * 2)
    (batch,) = make([{"image": places(4, 2), "mask": ids}], size=4, mode="pad", targets={"mask": Mask(-100)})
    assert batch.mask.tolist() == [[[-100] * 4, *ids.tolist(), [-100] * 4]]
    scores = torch.randn(1, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    found = torch.nn.functional.cross_entropy(scores, torch.from_numpy(batch.mask))
    inside = scores[0, :, 1:3, [0, 1, 3]].flatten(1).T
    torch.testing.assert_close(found, torch.nn.functional.cross_entropy(inside, torch.tensor([0, 1, 2] * 2)))


def test_masks_of_a_photo_as_it_is_stored_need_exif_false() -> None:
    ids = np.random.default_rng(0).integers(0, 9, (4, 6), np.uint8)
    turned = Image.Exif()
    turned[0x0112] = 6
    photo = io.BytesIO()
    Image.fromarray(np.full((4, 6, 3), 90, np.uint8)).save(photo, "JPEG", exif=turned)
    source = [{"image": photo.getvalue(), "mask": encoded(palette(ids))}]
    options: dict[str, Any] = {"size": (6, 4), "mode": "stretch", "targets": {"mask": Mask()}}
    with pytest.raises(LoadError, match=r"it has 6x4 pixels, and its image has 4x6: photos are turned .* exif=False"):
        list(make(source, **options))
    (batch,) = make(source, **options, exif=False)
    assert batch.mask[0].tolist() == ids.tolist()
    assert batch.size.tolist() == [[6, 4]]


@pytest.mark.parametrize(
    ("ids", "options", "is_told"),
    [
        ([0, 255], {}, True),
        ([0, 255], {"augment": ImageAugment(scale=None, zoom=(0.2, 0.3))}, True),
        ([0, 255], {"targets": {"mask": Mask(dtype="uint8")}, "augment": "train", "views": 2}, True),
        ([0, 1, 255], {}, False),
        ([0, 0], {"mode": "pad", "size": (20, 9)}, False),  # What fills the canvas is of no mask.
        ([0, 255], {"targets": {"mask": Mask(ignore_index=254)}}, False),
    ],
)
def test_masks_whose_object_would_be_ignored_are_told_of_once(
    ids: list[int], options: dict[str, Any], caplog: pytest.LogCaptureFixture, *, is_told: bool
) -> None:
    mask = encoded(Image.fromarray(np.resize(np.array(ids, np.uint8), (9, 9)).repeat(20, 0).repeat(20, 1)))
    source = [{"image": places(180, 180), "mask": mask} for _ in range(8)]
    assert len(list(make(source, 2, **{"targets": {"mask": Mask()}, **options}))) == 4
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == is_told
    assert all(it.startswith("All masks of a batch, in the field 'mask', consist of 0 and 255") for it in told)


def run_lengths(mask: Any) -> dict[str, Any]:
    """Return a mask as COCO encodes it: the lengths of runs down the columns, of 0 and 1 in turn."""
    flat = np.concatenate([[0], mask.ravel("F"), [2]])
    edges = np.flatnonzero(np.diff(flat)) if mask.any() else np.array([0, mask.size])
    counts = np.diff(np.concatenate([[0], edges])).tolist()
    return {"size": list(mask.shape), "counts": [int(count) for count in counts]}


@given(
    augment=st.one_of(st.just("eval"), moving()),
    box=st.tuples(st.integers(0, 15), st.integers(0, 9), st.integers(16, 30), st.integers(10, 20)),
    seed=st.integers(0, 99),
)
def test_masks_of_instances_move_with_their_image(augment: Any, box: tuple[int, int, int, int], seed: int) -> None:
    left, top, right, bottom = box
    mask = np.zeros((20, 30), np.uint8)
    mask[top:bottom, left:right] = 1
    outline = [left, top, right, top, right, bottom, left, bottom]
    sample = {
        "image": places(30, 20),
        "boxes": [box, (5000, 5000, 5001, 5001), box],
        "objects": [run_lengths(mask), [outline], [[float(side) for side in outline]]],
        "mask": mask,
    }
    targets = {"boxes": Boxes(), "objects": InstanceMasks(of="boxes"), "mask": Mask(0)}
    (batch,) = make([sample], targets=targets, augment=augment, mode="pad", seed=seed)
    objects = batch.objects[0]
    assert objects.dtype == np.uint8
    assert objects.shape == (len(batch.boxes[0]), 16, 16)
    if len(objects):
        encoded_again, filled = objects
        np.testing.assert_array_equal(encoded_again, batch.mask[0])
        # At its edges, COCO's rule for polygons takes more pixels than those whose centre is inside. In an affine map,
        # a pixel of the mask comes from up to half a pixel away.
        margin = 1 + 1.7 * (1 if isinstance(augment, str) else augment.affine_scale[1])
        middles = np.stack(np.meshgrid(np.arange(16) + 0.5, np.arange(16) + 0.5), -1)
        steps = np.linspace(-margin, margin, 13)
        around = np.stack(np.meshgrid(steps, steps), -1).reshape(-1, 1, 1, 2)
        origins = batch.geometry[0].inverse().points(middles + around)
        inside = ((origins > (left, top)) & (origins < (right, bottom))).all(-1)
        away = inside.all(0) | ~inside.any(0)
        np.testing.assert_array_equal(filled[away], batch.mask[0][away])


def test_masks_may_be_labels() -> None:
    source = [(places(4, 4), np.ones((4, 4), np.uint8))]
    for images, masks in make(source, size=4, targets={"label": Mask()}, output="torch"):
        assert images.shape == (1, 3, 4, 4)
        assert masks.dtype == torch.int64
        assert masks.tolist() == [[[1] * 4] * 4]


def test_masks_have_room_around_small_images() -> None:
    source = [{"image": places(4, 4), "mask": np.full((4, 4), 3)}]
    augment = ImageAugment(scale=None, zoom=(1, 1))
    (batch,) = make(source, size=6, targets={"mask": Mask(9, "uint8")}, augment=augment, seed=4)
    assert sorted(batch.mask.ravel().tolist()) == [3] * 16 + [9] * 20


@pytest.mark.parametrize(
    ("make_mask", "message"),
    [
        (lambda: Mask(dtype="float32"), "`dtype` must be 'uint8', 'uint16', 'int32' or 'int64'"),  # type: ignore[arg-type]
        (lambda: Mask(256, "uint8"), "`ignore_index` must be an int from 0 to 255"),
        (lambda: Mask(-100, "uint16"), "an int from 0 to 65535 with dtype='uint16'; 'int64' and 'int32' take negative"),
        (lambda: Mask(-32769), "`ignore_index` must be an int from -32768 to 65535 with dtype='int64'"),
    ],
)
def test_wrong_masks_are_refused(make_mask: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make_mask()
