"""Targets that move with an image: boxes, points, polygons, masks, and values that belong to boxes."""

from __future__ import annotations

import abc
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, get_args

import numpy as np

from spdl._check import check_choice, check_flag, check_int, check_number, check_str, positive, refuse, show
from spdl.dataloader._media.geometry import between, canvases
from spdl.dataloader._media.sample_fields import to_array
from spdl.io import coco_masks, to_numpy
from spdl.io._shared import check_pages, id_range, load_mask_views

if TYPE_CHECKING:
    from spdl.dataloader._media.geometry import Geometry
    from spdl.io._shared import Place, Size

    Array: TypeAlias = np.ndarray[Any, Any]

MaskDtype: TypeAlias = Literal["uint8", "uint16", "int32", "int64"]
BoxFormat: TypeAlias = Literal["xyxy", "xywh", "cxcywh"]

_SHARE = "a number from 0 to 1"

_THINNEST = 1e-3
"""Boxes that are thinner, in pixels, have no area, and points that are nearer to an edge lie on it."""

_SHARES = -1, 2
"""Boxes may reach beyond their image, but not as far as pixels do that are taken for shares."""

_TINY = 8
"""The sides of images in whose first pixel there may be whole objects."""

_FARTHEST = 10**9
"""No image has pixels that are farther from its edge."""


class Target(abc.ABC):
    """How a field of samples moves with its image. Its value is a list of rows, such as boxes."""

    can_be_array: ClassVar[bool] = True
    """Whether the rows of a sample are an array."""

    @property
    @abc.abstractmethod
    def of(self) -> str | None:
        """The boxes that the rows belong to, a row each; None if they belong to none."""

    @property
    @abc.abstractmethod
    def dtype(self) -> Any:
        """The type of the array's values."""

    @property
    def pad_value(self) -> float:
        """The value that fills up shorter arrays."""
        return 0

    @abc.abstractmethod
    def _read(self, value: Any) -> Any:
        """Return the rows of a sample as an array or a list, or raise a TypeError or ValueError that says why not."""

    @abc.abstractmethod
    def _move(self, rows: Any, geometry: Geometry, place: Place) -> Any:
        """Return the same number of rows in the image of a batch."""

    def _take(self, value: Any, size: Size) -> Any:  # noqa: ARG002 - for those that do.
        """Return the rows that a transform returned with an image of this width and height."""
        return self._read(value)


@dataclass(frozen=True)
class Mask:
    """A field of samples with a mask for each image, for ``ImageLoader(..., targets=...)``: an id for each pixel.

    A sample's value is the path or the bytes of a file, or an array (H, W) of ints, as large as its image. Files with a
    palette give their indices, and files of gray their levels, of up to 16 bits. Others, such as colours and JPEG, and
    masks of another size, fail the sample. In a batch, masks are one array (B, height, width). No filter mixes ids:
    each pixel has the id of the pixel of the mask in which its centre lies.

    Args:
        ignore_index: The id of pixels outside the image: up to 65535, and with the signed types down to -32768. Losses
            have an argument of this name, which PyTorch sets to -100 unless it is passed. Pixels of masks that are to
            be ignored must have this id already, as VOC's have 255.
        dtype: The type of the ids in batches: ``"int64"``, as losses take it, or ``"uint8"``, ``"uint16"`` or
            ``"int32"``, which take less memory. Files and arrays with ids that it cannot hold, or beyond -32768 to
            65535, fail their samples.
        pages: The page of each TIFF, counted from 0. With None it is the first, and if there are several, a UserWarning
            says so.

    Raises:
        TypeError, ValueError: If an argument is not as described; the message names it.

    Example:
        >>> import numpy as np
        >>> from spdl.dataloader import ImageLoader, Mask
        >>> source = [{"image": b"P6 4 2 255 " + bytes(4 * 2 * 3), "mask": np.array([[1, 1, 2, 2]] * 2)}]
        >>> loader = ImageLoader(source, 1, size=4, mode="pad", targets={"mask": Mask()}, output="numpy")
        >>> next(iter(loader)).mask[0, :2].tolist()
        [[255, 255, 255, 255], [1, 1, 2, 2]]
    """

    ignore_index: int = 255
    dtype: MaskDtype = "int64"
    pages: int | None = None

    def __post_init__(self) -> None:
        check_choice("dtype", self.dtype, get_args(MaskDtype))
        check_pages(self.pages)
        least, most = id_range(self.dtype)
        check_int(
            "ignore_index",
            self.ignore_index,
            least=least,
            most=most,
            accepted=f"an int from {least} to {most} with dtype={self.dtype!r}; 'int64' and 'int32' take negative ones",
        )

    def _take(self, value: Any, size: Size) -> Array:
        return _sized(value, size, (), self.dtype)


@dataclass(frozen=True)
class Boxes(Target):
    """A field of samples with boxes around objects, for ``ImageLoader(..., targets=...)``.

    A sample's value is a list of boxes or an array (N, 4), in pixels of the original image, from its left and upper
    edge. In a batch they are float32 (N, 4), in pixels of the image there. They are clipped to what can be seen of the
    image: none reaches into a border, unless an affine map or a policy turns it: it becomes the smallest upright one
    around its four corners. A box that has no area there, or is thinner than a thousandth of a pixel, is dropped,
    together with the rows of other fields that belong to it.

    Args:
        format: ``"xyxy"``: left, top, right and bottom; ``"xywh"``: left, top, width and height, as COCO has it;
            ``"cxcywh"``: the centre, width and height.
        output: The format in batches. None is `format`.
        min_visibility: The least share of a box's area that must be left, from 0 to 1; boxes with less are dropped.
        normalized: Whether samples have shares of the image's width and height instead of pixels. YOLO's files are
            ``Boxes("cxcywh", normalized=True)``. Boxes that reach below -1 or above 2 then fail their sample. False
            takes all numbers as pixels. So does None, but it fails a sample whose numbers look like shares: if all its
            boxes lie in the first pixel, and one of them begins inside of it, not at its edges. Images of up to 8 x 8
            pixels are exempt. Boxes in batches are always in pixels.

    Raises:
        TypeError, ValueError: If an argument is not as described; the message names it.

    Example:
        >>> from spdl.dataloader import Boxes, ImageLoader
        >>> photo = b"P6 4 2 255 " + bytes(4 * 2 * 3)
        >>> source = [{"image": photo, "boxes": [[1, 0, 3, 2]]}]
        >>> loader = ImageLoader(source, 1, size=8, mode="pad", targets={"boxes": Boxes("xyxy")}, output="numpy")
        >>> next(iter(loader)).boxes[0].tolist()
        [[2.0, 2.0, 6.0, 6.0]]
    """

    format: BoxFormat = "xyxy"
    output: BoxFormat | None = None
    min_visibility: float = 0.0
    normalized: bool | None = None

    of: ClassVar[None] = None
    """Boxes belong to no others."""
    dtype: ClassVar[str] = "float32"
    """The type in batches."""

    def __post_init__(self) -> None:
        check_choice("format", self.format, get_args(BoxFormat))
        check_choice("output", self.output, (*get_args(BoxFormat), None))
        if not 0 <= check_number("min_visibility", self.min_visibility, _SHARE) <= 1:
            refuse(ValueError, "min_visibility", _SHARE, self.min_visibility)
        if self.normalized is not None:
            check_flag("normalized", self.normalized)

    def _read(self, value: Any, box_format: BoxFormat | None = None) -> Array:
        return _to_corners(value, box_format or self.format)

    def _take(self, value: Any, size: Size) -> Array:  # noqa: ARG002 - of the base.
        return self._read(value, self.output or self.format)

    def _move(self, rows: Array, geometry: Geometry, place: Place) -> Array:  # noqa: ARG002 - of the base.
        moved: Array = geometry.boxes(rows)
        return moved

    def _show(self, boxes: Array, geometry: Geometry, place: Place) -> tuple[Array, Array]:
        """Return the parts of boxes that can be seen in a batch, in its format, and which of the boxes stay."""
        boxes = self._to_pixels(boxes, geometry.original)
        # In a turned image, nothing upright has the borders of the photo.
        own = np.clip(boxes, 0, 2 * geometry.original)
        gone = (_sides(own) == 0).any(1)
        first, *ways = canvases(geometry, place)
        shown = np.clip(first.boxes(own), 0, 2 * first.size)
        if ways:
            whole = geometry.boxes(first.inverse().boxes(shown))
            for before, after in itertools.pairwise((first, *ways)):
                gone |= (_sides(shown) < _THINNEST).any(1)
                shown = np.clip(between(before, after).boxes(shown), 0, 2 * after.size)
            # Both are around what can be seen. Each turn makes a box larger, and the whole way cuts nothing off.
            shown = np.hstack([np.maximum(shown[:, :2], whole[:, :2]), np.minimum(shown[:, 2:], whole[:, 2:])])
        shown[gone] = 0
        return self._select(self._move(boxes, geometry, place), shown)

    def _to_pixels(self, boxes: Array, size: Size) -> Array:
        if self.normalized:
            if (far := ((boxes < _SHARES[0]) | (boxes > _SHARES[1])).any(1)).any():
                number = int(far.argmax())
                raise ValueError(
                    f"box {number} must be shares of the image's width and height, since `normalized` is true, got the "
                    f"sides {show(boxes[number].tolist())}"
                )
            return boxes * (2 * size)
        if self.normalized is None and max(size) > _TINY and _look_like_shares(boxes):
            raise ValueError(
                f"all of its boxes lie in the first of {size[0]} x {size[1]} pixels: if they are shares of the width "
                "and the height, pass Boxes(..., normalized=True), and if they are pixels, normalized=False"
            )
        return boxes

    def _clip(self, boxes: Array, size: Size) -> tuple[Array, Array]:
        return self._select(boxes, np.clip(boxes, 0, 2 * size))

    def _select(self, boxes: Array, shown: Array) -> tuple[Array, Array]:
        # Moving a box rounds its sides: one that ends where the image begins may reach into it, and the whole of
        # another may be less than all.
        least = self.min_visibility * _sides(boxes).prod(1) * (1 - 1e-6)
        kept = (_sides(shown) >= _THINNEST).all(1) & (_sides(shown).prod(1) >= least)
        return self._write(shown[kept]), kept

    def _write(self, boxes: Array) -> Array:
        """In place."""
        output = self.output or self.format
        if output != "xyxy":
            boxes[:, 2:] -= boxes[:, :2]
        if output == "cxcywh":
            boxes[:, :2] += boxes[:, 2:] / 2
        return boxes.astype(np.float32)


@dataclass(frozen=True)
class Keypoints(Target):
    """A field of samples with points, for ``ImageLoader(..., targets=...)``.

    A sample's value is a list or an array (N, 2), or (N, count, 2) with `count`, of x and y in pixels of the original
    image, from its left and upper edge. In a batch they are float32 of the same shape, in pixels of the image there.
    Points that are cut off lie outside of it. A point on an edge is in the image, on either side, so it stays when the
    image is mirrored.

    Args:
        count: How many points each object has, such as the 17 of COCO. None: the points belong to no objects.
        visibility: Whether each point has a third number, as in COCO: 0 is a point that was not marked. Points that
            were not marked, or lie outside of what can be seen of the image, are (0, 0, 0) in batches. The others have
            ``0 <= x < width`` and ``0 <= y < height`` there, so the pixel of each is ``int(x), int(y)``: those on the
            right or the lower edge, or up to a thousandth of a pixel beyond any, are moved just inside.
        swap: Pairs of points that change places if the image is mirrored, such as the left and the right eye.
        of: The name of the field of `Boxes` whose objects have the points: with a box that is dropped, its points are,
            too.

    Raises:
        TypeError, ValueError: If an argument is not as described; the message names it.

    Example:
        >>> from spdl.dataloader import ImageLoader, Keypoints
        >>> photo = b"P6 4 2 255 " + bytes(4 * 2 * 3)
        >>> source = [{"image": photo, "points": [[1, 1]]}]
        >>> loader = ImageLoader(source, 1, size=8, mode="stretch", targets={"points": Keypoints()}, output="numpy")
        >>> next(iter(loader)).points[0].tolist()
        [[2.0, 4.0]]
    """

    count: int | None = None
    visibility: bool = False
    swap: Sequence[tuple[int, int]] = ()
    of: str | None = None
    dtype: ClassVar[str] = "float32"
    """The type in batches."""

    def __post_init__(self) -> None:
        if self.count is not None:
            positive("count", self.count)
        check_flag("visibility", self.visibility)
        _check_of(self.of)
        accepted = f"pairs of numbers of points, from 0 to {(self.count or 0) - 1}, each in one pair at most"
        pairs = [tuple(pair) for pair in self.swap]
        numbers = [number for pair in pairs for number in pair]
        if any(len(pair) != 2 for pair in pairs) or not set(numbers) <= set(range(self.count or 0)):  # noqa: PLR2004
            refuse(ValueError, "swap", accepted if self.count else "empty without `count`", self.swap)
        if len(set(numbers)) != len(numbers):
            refuse(ValueError, "swap", accepted, self.swap)
        object.__setattr__(self, "swap", tuple(pairs))

    def _read(self, value: Any) -> Array:
        numbers = 3 if self.visibility else 2
        return _floats(value, (numbers,) if self.count is None else (self.count, numbers))

    def _move(self, rows: Array, geometry: Geometry, place: Place) -> Array:
        points, more = rows[..., :2], rows[..., 2:]
        if self.visibility:
            # Points outside of the original are not in its border either, nor are those that left a canvas.
            more = more * _are_inside(points, geometry.original)[..., None]
            for way in canvases(geometry, place)[:-1]:
                more = more * _are_inside(way.points(points), way.size)[..., None]
        moved = self._hide(np.concatenate([geometry.points(points), more], -1), geometry.size)
        if geometry.mirrors and self.swap:
            order = np.arange(self.count or 0)
            for first, second in self.swap:
                order[[first, second]] = second, first
            moved = moved[:, order]
        return moved

    def _take(self, value: Any, size: Size) -> Array:
        return self._hide(self._read(value), size)

    def _hide(self, points: Array, size: Size) -> Array:
        """Return points as batches have them: those that were not marked or are cut off are zeros."""
        found: Array = points.astype(np.float32)
        if self.visibility:
            found[..., :2] = np.clip(found[..., :2], 0, np.nextafter(np.array(size, np.float32), np.float32(0)))
            found[~(_are_inside(points[..., :2], size) & (points[..., 2] > 0))] = 0
        return found


@dataclass(frozen=True)
class Polygons(Target):
    """A field of samples with outlines of objects, for ``ImageLoader(..., targets=...)``.

    A sample's value has a list of polygons for each object, as COCO's ``segmentation`` has it: a polygon is a list
    x, y, x, y, ..., or an array (M, 2), in pixels of the original image. In a batch it is a list for each sample, of
    lists for each object, of float32 (M, 2) for each polygon, in pixels of the image there. They are not clipped.

    Args:
        of: The name of the field of `Boxes` whose objects have the outlines: with a box that is dropped, its outline
            is, too.

    Raises:
        TypeError, ValueError: If an argument is not as described; the message names it.

    Example:
        >>> from spdl.dataloader import ImageLoader, Polygons
        >>> photo = b"P6 4 4 255 " + bytes(4 * 4 * 3)
        >>> source = [{"image": photo, "outlines": [[[0, 0, 2, 0, 2, 2]]]}]
        >>> loader = ImageLoader(source, 1, size=8, targets={"outlines": Polygons()}, output="numpy")
        >>> next(iter(loader)).outlines[0][0][0].tolist()
        [[0.0, 0.0], [4.0, 0.0], [4.0, 4.0]]
    """

    of: str | None = None

    can_be_array: ClassVar[bool] = False
    """Outlines are lists in every layout."""
    dtype: ClassVar[str] = "float32"
    """The type in batches."""

    def __post_init__(self) -> None:
        _check_of(self.of)

    def _read(self, value: Any) -> list[list[Array]]:
        return [[_polygon(polygon) for polygon in _polygons(each)] for each in _rows(value)]

    def _move(self, rows: list[list[Array]], geometry: Geometry, place: Place) -> list[list[Array]]:  # noqa: ARG002
        return [[geometry.points(polygon).astype(np.float32) for polygon in each] for each in rows]

    def _take(self, value: Any, size: Size) -> list[list[Array]]:  # noqa: ARG002 - of the base.
        return [[polygon.astype(np.float32) for polygon in each] for each in self._read(value)]


@dataclass(frozen=True)
class InstanceMasks(Target):
    """A field of samples with a mask for each object, for ``ImageLoader(..., targets=...)``.

    A sample's value has polygons or a run-length encoding for each object, as COCO's ``segmentation`` has them, or an
    array (H, W), as large as its image, that is 0 outside of the object; an array (N, H, W) has N of them. In a batch
    they are masks, uint8 (N, height, width): 1 in the object, and 0 elsewhere. Polygons are moved first and then
    filled, by COCO's rule.

    Args:
        of: The name of the field of `Boxes` whose objects have the masks: with a box that is dropped, its mask is, too.

    Raises:
        TypeError, ValueError: If an argument is not as described; the message names it.

    Example:
        >>> from spdl.dataloader import ImageLoader, InstanceMasks
        >>> photo = b"P6 4 4 255 " + bytes(4 * 4 * 3)
        >>> source = [{"image": photo, "objects": [[[1, 0, 3, 0, 3, 4, 1, 4]]]}]
        >>> loader = ImageLoader(source, 1, size=4, targets={"objects": InstanceMasks()}, output="numpy")
        >>> next(iter(loader)).objects[0][0, 0].tolist()
        [0, 1, 1, 0]
    """

    of: str | None = None

    dtype: ClassVar[str] = "uint8"
    """The type in batches."""

    def __post_init__(self) -> None:
        _check_of(self.of)

    def _read(self, value: Any) -> list[Any]:
        return [_outline(each) for each in _rows(value)]

    def _move(self, rows: list[Any], geometry: Geometry, place: Place) -> Array:
        width, height = geometry.size
        own_width, own_height = geometry.original
        found = np.zeros((len(rows), height, width), np.uint8)
        polygons = [number for number, each in enumerate(rows) if isinstance(each, list)]
        if polygons:
            outlines = [[geometry.points(it).ravel() for it in rows[number]] for number in polygons]
            photo = np.broadcast_to(np.uint8(1), (own_height, own_width))
            (seen,), _ = load_mask_views([photo], [(geometry.size, [[place]])])
            found[polygons] = coco_masks(outlines, width=width, height=height) * to_numpy(seen)[0]
        if encodings := [number for number, each in enumerate(rows) if isinstance(each, Mapping)]:
            whole = coco_masks([rows[number] for number in encodings], width=own_width, height=own_height)
            rows = rows.copy()
            for number, mask in zip(encodings, whole, strict=True):
                rows[number] = mask
        if bitmaps := [number for number in range(len(rows)) if not isinstance(rows[number], list)]:
            masks = [rows[number] for number in bitmaps]
            for mask in masks:
                if mask.shape != (own_height, own_width):
                    raise ValueError(
                        f"a mask must be as large as its image, {(own_height, own_width)}, got {mask.shape}"
                    )
            (moved,), _ = load_mask_views(masks, [(geometry.size, [[place] * len(masks)])])
            found[bitmaps] = to_numpy(moved)[0]
        return found

    def _take(self, value: Any, size: Size) -> Array:
        return _sized(value, size, (len(_rows(value)),), self.dtype)


@dataclass(frozen=True)
class Values(Target):
    """A field of samples with a list of numbers that stay as they are, for ``ImageLoader(..., targets=...)``.

    Their type and their layout in batches never depend on what the samples have.

    Args:
        dtype: The type of the numbers in batches, such as ``"int64"`` or ``"float32"``. Numbers that it cannot hold
            fail the sample: 0.5 for an int, for example.
        shape: The shape of an element, if it is not a number.
        of: The name of the field of `Boxes` that the numbers belong to, one to each: with a box that is dropped, its
            number is, too.
        pad_value: The number that fills up shorter lists with ``ragged="pad"``.

    Raises:
        TypeError, ValueError: If an argument is not as described; the message names it.

    Example:
        >>> from spdl.dataloader import Boxes, ImageLoader, Values
        >>> photo = b"P6 4 2 255 " + bytes(4 * 2 * 3)
        >>> source = [{"image": photo, "boxes": [[1, 0, 3, 2], [3, 0, 3, 2]], "labels": [7, 8]}]
        >>> targets = {"boxes": Boxes(), "labels": Values(of="boxes")}
        >>> next(iter(ImageLoader(source, 1, size=8, targets=targets, output="numpy"))).labels
        [array([7])]
    """

    dtype: Any = "int64"
    shape: tuple[int, ...] = ()
    of: str | None = None
    pad_value: float = 0

    def __post_init__(self) -> None:
        accepted = "a dtype of bools, ints or floats, such as 'int64'"
        try:
            dtype = np.dtype(self.dtype)
        except TypeError:
            refuse(TypeError, "dtype", accepted, self.dtype)
        if dtype.kind not in "biuf":
            refuse(ValueError, "dtype", accepted, self.dtype)
        object.__setattr__(self, "dtype", dtype.newbyteorder("="))
        object.__setattr__(self, "shape", tuple(positive("shape", side) for side in self.shape))
        _check_of(self.of)
        check_number("pad_value", self.pad_value)
        with np.errstate(all="ignore"):
            if self.dtype.kind != "f" and np.array(self.pad_value).astype(self.dtype) != self.pad_value:
                refuse(ValueError, "pad_value", f"a number that {self.dtype} can hold", self.pad_value)

    def _read(self, value: Any) -> Array:
        rows: Array = _numbers(value, self.shape)
        with np.errstate(invalid="ignore", over="ignore"):
            converted: Array = rows.astype(self.dtype)
        is_float = converted.dtype.kind == "f"
        same = np.isfinite(converted) == np.isfinite(rows) if is_float else converted == rows
        if not same.all():
            raise ValueError(f"it has numbers that {converted.dtype} cannot hold: {show(value)}")
        return converted

    def _move(self, rows: Array, geometry: Geometry, place: Place) -> Array:  # noqa: ARG002 - of the base.
        return rows


def _check_of(of: str | None) -> None:
    if of is not None:
        check_str("of", of)


def _rows(value: Any) -> Sequence[Any]:
    if isinstance(value, str | bytes | Mapping) or not hasattr(type(value), "__len__"):
        raise TypeError(f"it must be a list, with no elements if there is nothing to see, got {show(value)}")
    found: Sequence[Any] = value
    return found


def _numbers(value: Any, shape: tuple[int, ...]) -> Array:
    rows = _rows(value)
    array = to_array(value)
    if array is None:
        try:
            array = np.array(rows)
        except (TypeError, ValueError):
            raise ValueError(f"its elements must be numbers of the shape {shape}, got {show(value)}") from None
    if not len(rows):
        return np.zeros((0, *shape), array.dtype if array.dtype.kind in "biuf" else np.float64)
    if array.dtype.kind not in "biuf" or array.shape[1:] != shape:
        raise ValueError(f"its elements must be numbers of the shape {shape}, got {show(value)}")
    found: Array = array
    return found


def _to_corners(value: Any, box_format: BoxFormat) -> Array:
    boxes = _floats(value, (4,))
    if box_format == "cxcywh":
        boxes[:, :2] -= boxes[:, 2:] / 2
    if box_format != "xyxy":
        boxes[:, 2:] += boxes[:, :2]
    if (boxes[:, :2] > boxes[:, 2:]).any():
        number = int(np.argmax((boxes[:, :2] > boxes[:, 2:]).any(1)))
        other = ". If it is (x, y, width, height), pass Boxes(format='xywh')" if box_format == "xyxy" else ""
        raise ValueError(f"box {number} ends before it begins, taken as {box_format!r}: {show(value[number])}{other}")
    return boxes


def _sized(value: Any, size: Size, rows: tuple[int, ...], dtype: str) -> Array:
    array, shape = to_array(value), (*rows, *size[::-1])
    if array is None and not len(value):
        array = np.zeros(shape, dtype)
    if array is None or array.shape != shape or array.dtype.kind not in "bui":
        accepted = f"an array {shape} of ints, as large as the image"
        raise ValueError(
            f"it must be {accepted}, got {show(value) if array is None else f'{array.dtype} {array.shape}'}"
        )
    found: Array = array.astype(dtype)
    if not np.array_equal(found, array):
        raise ValueError(f"it has ids that {dtype} cannot hold")
    return found


def _floats(value: Any, shape: tuple[int, ...]) -> Array:
    floats = _numbers(value, shape).astype(np.float64)
    if not (abs(floats) <= _FARTHEST).all():
        raise ValueError(f"its numbers must be from {-_FARTHEST:,} to {_FARTHEST:,}, got {show(value)}")
    return floats


def _look_like_shares(boxes: Array) -> bool:
    """Return whether boxes are hardly in pixels.

    Those that stand for no box, such as (0, 0, 1, 1), and the rest of a box that a tile cuts off begin at an edge of
    the first pixel. One that is all within it is nothing that anybody can see.
    """
    begins = boxes[:, :2]
    return bool(((boxes >= 0) & (boxes <= 1)).all() and ((begins > 0) & (begins < 1)).all(1).any())


def _are_inside(points: Array, size: Size) -> Array:
    # Moving a point rounds it: one on an edge may come to lie beyond it.
    least, most = -_THINNEST, [side + _THINNEST for side in size]
    inside: Array = np.all((points >= least) & (points <= most), -1)
    return inside


def _sides(boxes: Array) -> Array:
    sides: Array = boxes[:, 2:] - boxes[:, :2]
    return sides


def _outline(value: Any) -> Any:
    if isinstance(value, Mapping):
        return value
    mask = to_array(value)
    if mask is None or mask.ndim != 2:  # noqa: PLR2004 - sides.
        return [_polygon(polygon) for polygon in _polygons(value)]
    if mask.dtype.kind not in "bui":
        raise TypeError(f"a mask must have ints or bools, got {mask.dtype}")
    return (mask != 0).astype(np.uint8)


def _polygons(value: Any) -> Sequence[Any]:
    if isinstance(value, Mapping):
        raise TypeError("an object's outline is a run-length encoding, which has no corners: see InstanceMasks")
    if (array := to_array(value)) is not None and array.ndim == 2:  # noqa: PLR2004
        raise TypeError("an object's outline is an array of two dimensions, as masks are: see InstanceMasks")
    polygons = _rows(value)
    if len(polygons) and not hasattr(type(polygons[0]), "__len__"):
        raise TypeError(f"an object must have a list of polygons, got the numbers of one: {show(value)}")
    return polygons


def _polygon(value: Any) -> Array:
    rows = _rows(value)
    array = to_array(value)
    is_flat = len(rows) > 0 and (not hasattr(type(rows[0]), "__len__") if array is None else array.ndim == 1)
    if is_flat and len(rows) % 2:
        raise ValueError(f"a polygon must have an x and a y for each corner, got {len(rows)} numbers")
    points = _floats(value, ()).reshape(-1, 2) if is_flat else _floats(value, (2,))
    if len(points) < 3:  # noqa: PLR2004 - corners.
        raise ValueError(f"a polygon must have at least 3 corners, got {len(points)}")
    return np.ascontiguousarray(points)
