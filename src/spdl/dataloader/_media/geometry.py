"""Where the pixels of an image go: drawn once for a sample, and applied to its image and its targets."""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from spdl._check import check_choice, check_flag, check_number, refuse
from spdl._random_key import random_key
from spdl.dataloader._media.pixel_changes import check_probability, check_range
from spdl.io import random_flip, random_resized_crop
from spdl.io._shared import Place

if TYPE_CHECKING:
    from spdl.dataloader._media.image_augment import ImageAugment
    from spdl.io import ImageOptions
    from spdl.io._shared import Move, Size


@dataclass(frozen=True, eq=False)
class Geometry:
    """The way of the pixels of an image into a batch, as ``batch.geometry`` has it for each sample.

    Coordinates are measured in pixels from the left and the upper edge of an image, so the first pixel reaches from 0
    to 1, and a box around a whole image is (0, 0, width, height). Making one never raises.

    Args:
        matrix: From the original image to the one in the batch, float64 (2, 3): x' is
            ``matrix[0, 0] * x + matrix[0, 1] * y + matrix[0, 2]``.
        original: The width and height of the original image, turned upright if the loader does so.
        size: The width and height of the image in the batch.

    Example:
        >>> import numpy as np
        >>> from spdl.dataloader import Geometry
        >>> halved = Geometry(np.array([[0.5, 0, 0], [0, 0.5, 8]]), (640, 480), (320, 256))
        >>> halved.boxes(np.array([[100.0, 40.0, 200.0, 80.0]])).tolist()
        [[50.0, 28.0, 100.0, 48.0]]
        >>> halved.inverse().points(np.array([50.0, 28.0])).tolist()
        [100.0, 40.0]
    """

    matrix: NDArray[np.float64]
    original: tuple[int, int]
    size: tuple[int, int]

    @property
    def mirrors(self) -> bool:
        """Whether left and right are exchanged, in whatever direction."""
        (a, b, _), (c, d, _) = self.matrix.tolist()
        return bool(a * d < b * c)

    def points(self, points: Any) -> Any:
        """Return where points of the original image are in the batch.

        Args:
            points: x and y, (..., 2), as an array or a tensor on any device.

        Returns:
            A new array or tensor of the same shape; of the same dtype if that is one of floats, else float64. Points
            that are cut off are outside of the size.

        Raises:
            TypeError, ValueError: If they are not numbers of that shape.
        """
        return self._map(_floats(points, 2))

    def boxes(self, boxes: Any) -> Any:
        """Return where boxes of the original image are in the batch.

        Args:
            boxes: Left, top, right and bottom, (..., 4), as an array or a tensor on any device.

        Returns:
            A new array or tensor of the same shape; of the same dtype if that is one of floats, else float64. A box
            that is turned becomes the smallest upright one around it. They are not clipped.

        Raises:
            TypeError, ValueError: If they are not numbers of that shape.
        """
        corners = self._map(_floats(boxes, 4)[..., _CORNERS])
        if _is_tensor(corners):
            return sys.modules["torch"].cat([corners.amin(-2), corners.amax(-2)], -1)
        return np.concatenate([corners.min(-2), corners.max(-2)], -1)

    def inverse(self) -> Self:
        """Return the way back, which maps predictions to the original image."""
        turn = np.linalg.inv(self.matrix[:, :2])
        return type(self)(np.hstack([turn, -turn @ self.matrix[:, 2:]]), self.size, self.original)

    def _map(self, points: Any) -> Any:
        is_tensor = _is_tensor(points)
        matrix = points.new_tensor(self.matrix.tolist()) if is_tensor else self.matrix.astype(points.dtype, copy=False)
        # No product of matrices, which GPUs compute with fewer digits.
        return (points[..., None, :] * matrix[:, :2]).sum(-1) + matrix[:, 2]


def canvases(geometry: Geometry, place: Place) -> list[Geometry]:
    """Return the way of an image to its first canvas, and to what each move makes of that.

    What leaves a canvas is cut off: no later move brings it back.
    """
    ways = [geometry]
    for move in reversed(place.moves):
        back = _way_back(move)
        matrix = back[:, :2] @ ways[-1].matrix + np.pad(back[:, 2:], ((0, 0), (2, 0)))
        ways.append(Geometry(matrix, geometry.original, geometry.size))
    return ways[::-1]


def between(before: Geometry, after: Geometry) -> Geometry:
    back = before.inverse().matrix
    matrix = after.matrix[:, :2] @ back + np.pad(after.matrix[:, 2:], ((0, 0), (2, 0)))
    return Geometry(matrix, before.size, after.size)


def _way_back(move: Move) -> NDArray[np.float64]:
    """Return the map of a move in pixels from the edge of a canvas, as a geometry counts them."""
    back = np.reshape(move, (2, 3)).astype(np.float64)
    back[:, 2] += 0.5 - back[:, :2].sum(1) / 2
    return back


# Left and right, top and bottom.
_CORNERS = [[0, 1], [2, 1], [0, 3], [2, 3]]


def _floats(values: Any, last: int) -> Any:
    if _is_tensor(values):
        found = values if values.is_floating_point() else values.double()
    else:
        array = np.asarray(values)
        found = array if array.dtype.kind == "f" else array.astype(np.float64)
    if found.shape == (0,):
        # A list of none of them.
        return found.reshape(0, last)
    if not found.shape or found.shape[-1] != last:
        raise ValueError(f"The last dimension must be {last}, got numbers of the shape {tuple(found.shape)}.")
    return found


def _is_tensor(values: Any) -> bool:
    # Another thread may be importing torch just now, so its classes cannot be used.
    return hasattr(values, "new_tensor")


_MOST_ROTATE = 180
_MOST_SHEAR = 80
# An affine map has degrees, shares of the width and the height, degrees along these, and a factor.
_Ranges: TypeAlias = tuple[tuple[float, float], ...]
_STAYS: _Ranges = (*[(0.0, 0.0)] * 5, (1.0, 1.0))


def check_geometry(augment: ImageAugment) -> None:
    random_resized_crop([], seed=0, epoch=0, scale=augment.scale or (1, 1), ratio=augment.ratio)
    check_probability("flip", augment.flip)
    check_probability("vertical_flip", augment.vertical_flip)
    check_flag("quarter_turns", augment.quarter_turns)
    check_choice("zoom_from", augment.zoom_from, ("image", "fit", "cover"))
    if augment.zoom is not None:
        check_range("zoom", augment.zoom)
        if augment.scale is not None:
            refuse(ValueError, "scale", "None with `zoom`, which is another way to crop", augment.scale)
    check_range("affine_scale", augment.affine_scale)
    _affine_ranges(augment)


def draws_places(augment: ImageAugment) -> bool:
    """Return whether images need a `GeometryRule`, because they get more than a crop and a flip."""
    return bool(
        augment.quarter_turns or augment.vertical_flip or augment.zoom is not None or _affine_ranges(augment) != _STAYS
    )


def _affine_ranges(augment: ImageAugment) -> _Ranges:
    shifts: Any = augment.translate
    if not isinstance(shifts, tuple | list):
        shifts = (shifts, shifts)
    accepted = "a number from 0 to 1, or two: for the width and for the height"
    if len(shifts) != 2 or not all(0 <= check_number("translate", it, accepted) <= 1 for it in shifts):  # noqa: PLR2004
        refuse(ValueError, "translate", accepted, augment.translate)
    across, down = ((-it, it) for it in shifts)
    shear = _check_degrees("shear", augment.shear, _MOST_SHEAR)
    rotate = _check_degrees("rotate", augment.rotate, _MOST_ROTATE)
    least, greatest = augment.affine_scale
    return rotate, across, down, shear, shear, (least, greatest)


def _check_degrees(name: str, value: Any, most: int) -> tuple[float, float]:
    accepted = f"a number from 0 to {most}, or two from -{most} to {most}, the lesser first"
    pair: Any = value if isinstance(value, tuple | list) else (-check_number(name, value, accepted), value)
    angles = [check_number(name, each, accepted) for each in pair]
    if len(angles) != 2 or not -most <= angles[0] <= angles[1] <= most:  # noqa: PLR2004
        refuse(ValueError, name, accepted, value)
    return angles[0], angles[1]


# Separates these random numbers from others of the same image.
_PURPOSE = 5

# The bits of a turn, as `Place` has them.
_TRANSPOSED, _MIRRORED_X, _MIRRORED_Y = 1, 2, 4
# Clockwise by 0, 90, 180 and 270 degrees.
_QUARTERS = (0, _TRANSPOSED | _MIRRORED_Y, _MIRRORED_X | _MIRRORED_Y, _TRANSPOSED | _MIRRORED_X)


class GeometryRule:
    """Draws where images go. A draw depends on the seed, the epoch, the image's index and its size alone."""

    def __init__(self, options: ImageOptions, augment: ImageAugment, seed: int) -> None:
        assert options.width is not None
        assert options.height is not None
        self.size = options.width, options.height
        self._mode = options.mode
        self._augment = augment
        self._seed = seed
        self._ranges = _affine_ranges(augment)
        self._draws = draws_places(augment)

    def draw(self, indices: Sequence[int], epoch: int, sizes: Sequence[Size]) -> list[Place]:
        augment = self._augment
        flips = random_flip(indices, seed=self._seed, epoch=epoch, probability=augment.flip)
        draws = [_STILL] * len(indices)
        if self._draws:
            draws = [_draw(augment, self._ranges, random_key(self._seed, epoch, index)) for index in indices]
        turned = [size[::-1] if draw.turn & _TRANSPOSED else size for draw, size in zip(draws, sizes, strict=True)]
        if augment.scale is not None:
            crop = random_resized_crop(indices, seed=self._seed, epoch=epoch, scale=augment.scale, ratio=augment.ratio)
            boxes = zip(draws, crop.boxes(turned), flips, strict=True)
            places = [Place(draw.turn, box, self.size, (0, 0), flip) for draw, box, flip in boxes]
        else:
            fit = self._fit if augment.zoom is None else self._zoom
            places = [fit(draw, size, flip=flip) for draw, size, flip in zip(draws, turned, flips, strict=True)]
        if self._ranges == _STAYS:
            return places
        moves = [_make_move(*draw.affine, size=self.size) for draw in draws]
        return [place._replace(moves=(move,)) for place, move in zip(places, moves, strict=True)]

    def geometry(self, place: Place, original: Size) -> Geometry:
        width, height = original
        x = (-1.0, 0.0, float(width)) if place.turn & _MIRRORED_X else (1.0, 0.0, 0.0)
        y = (0.0, -1.0, float(height)) if place.turn & _MIRRORED_Y else (0.0, 1.0, 0.0)
        rows = (y, x) if place.turn & _TRANSPOSED else (x, y)
        left, top, right, bottom = place.box
        spans = ((left, right), (top, bottom))
        found = []
        for (across, down, shift), (first, last), side, at in zip(
            rows, spans, place.resized, place.offset, strict=True
        ):
            scale = side / (last - first)
            found.append([across * scale, down * scale, (shift - first) * scale + at])
        if place.flip:
            across, down, shift = found[0]
            found[0] = [-across, -down, self.size[0] - shift]
        matrix = np.array(found)
        for move in place.moves:
            back = _way_back(move)
            matrix = np.linalg.inv(back[:, :2]) @ (matrix - np.pad(back[:, 2:], ((0, 0), (2, 0))))
        return Geometry(matrix, original, self.size)

    def _fit(self, draw: _Draw, size: Size, *, flip: bool) -> Place:
        resized, offset = self.size, (0, 0)
        if self._mode != "stretch":
            (width, height), (across, down) = self.size, size
            scaled = _rescale(height, across, down), _rescale(width, down, across)
            if self._mode == "pad":
                resized = min(max(scaled[0], 1), width), min(max(scaled[1], 1), height)
                offset = (width - resized[0]) // 2, (height - resized[1]) // 2
            else:
                resized = max(scaled[0], width), max(scaled[1], height)
                # Halves go to the even number, as in FFmpeg's crop.
                offset = -round((resized[0] - width) / 2), -round((resized[1] - height) / 2)
        return Place(draw.turn, (0, 0, *size), resized, offset, flip)

    def _zoom(self, draw: _Draw, size: Size, *, flip: bool) -> Place:
        augment = self._augment
        assert augment.zoom is not None
        least, greatest = augment.zoom
        factor = least + (greatest - least) * draw.zoom
        shares = [side / own for side, own in zip(self.size, size, strict=True)]
        factor *= {"image": 1.0, "fit": min(shares), "cover": max(shares)}[augment.zoom_from]
        width, height = (max(1, round(own * factor)) for own in size)
        offset = _offset(self.size[0] - width, draw.x), _offset(self.size[1] - height, draw.y)
        return Place(draw.turn, (0, 0, *size), (width, height), offset, flip)


class _Draw(NamedTuple):
    """The draws for an image before its size is known. Numbers are from 0 to 1, exclusive."""

    turn: int = 0
    zoom: float = 0.0
    x: float = 0.0
    y: float = 0.0
    affine: tuple[float, ...] = ()
    """The values of the affine map, as `_Ranges` has them."""


_STILL = _Draw()


def _draw(augment: ImageAugment, ranges: _Ranges, key: int) -> _Draw:
    generator = random.Random(random_key(key, _PURPOSE, 0))  # noqa: S311
    # All are drawn, whatever is asked for: one of them never changes another.
    quarter, vertical, zoom, x, y = (generator.random() for _ in range(5))
    turn = _QUARTERS[int(4 * quarter)] if augment.quarter_turns else 0
    if vertical < augment.vertical_flip:
        # Upside down after the turn.
        turn ^= _MIRRORED_X if turn & _TRANSPOSED else _MIRRORED_Y
    affine = tuple([low + (high - low) * generator.random() for low, high in ranges])
    return _Draw(turn, zoom, x, y, affine)


def _make_move(  # noqa: PLR0917 - the values of a range each.
    rotate: float, right: float, down: float, shear_x: float, shear_y: float, scale: float, *, size: Size
) -> Move:
    """Return the way back from a canvas that is sheared, turned clockwise, scaled and shifted, around its middle."""
    sine, cosine = math.sin(math.radians(rotate)), math.cos(math.radians(rotate))
    tan_x, tan_y = math.tan(math.radians(shear_x)), math.tan(math.radians(shear_y))
    # The map is scale * rotation @ [[1, 0], [-tan_y, 1]] @ [[1, -tan_x], [0, 1]].
    a, c = cosine + sine * tan_y, sine - cosine * tan_y
    b, d = -a * tan_x - sine, -c * tan_x + cosine
    xx, xy, yx, yy = d / scale, -b / scale, -c / scale, a / scale
    x, y = ((side - 1) / 2 for side in size)
    to_x, to_y = x + right * size[0], y + down * size[1]
    return xx, xy, x - xx * to_x - xy * to_y, yx, yy, y - yx * to_x - yy * to_y


def _rescale(side: int, by: int, of: int) -> int:
    """Return ``side * by / of``, rounded to the nearest, halves up: as FFmpeg rounds, and so our native code."""
    return (side * by + of // 2) // of


def _offset(room: int, share: float) -> int:
    """Return an offset at which an image lies within its canvas, or covers it; all are equally likely."""
    place = int((abs(room) + 1) * share)
    return place if room >= 0 else -place
