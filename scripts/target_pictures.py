"""Draw the pictures of the pages on masks, boxes and views: what the loaders there give for one photo.

Run it as `.venv/bin/python scripts/target_pictures.py` after a change to augmentation. It takes the photo of
scripts/image_page.py, and writes docs/images/targets_*.png.
"""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from image_page import PICTURES, photo
from PIL import Image, ImageDraw

from spdl.dataloader import Boxes, ImageAugment, ImageLoader, Keypoints, Mask

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Pixels = np.ndarray[Any, np.dtype[np.uint8]]

SIZE, SMALL, GAP, DRAWN, SEED = 200, 96, 8, 4, 3
EYES_AND_NOSE = [[134, 84, 208, 148], [296, 106, 344, 162], [236, 224, 292, 268]]
CLASSES, COLOURS = (1, 1, 2), ((0, 0, 0), (0, 160, 255), (255, 60, 60))


def sample() -> dict[str, Any]:
    """Return the photo with a box and the middle of it for both eyes and the nose, and their classes in a mask."""
    data = photo()
    mask = Image.new("L", Image.open(io.BytesIO(data)).size)
    for box, number in zip(EYES_AND_NOSE, CLASSES, strict=True):
        ImageDraw.Draw(mask).ellipse(box, fill=number)
    points = [[[(left + right) / 2, (top + bottom) / 2]] for left, top, right, bottom in EYES_AND_NOSE]
    return {"image": data, "mask": np.array(mask), "boxes": EYES_AND_NOSE, "points": points}


def draw(fields: dict[str, Any], count: int, **arguments: Any) -> Iterator[Any]:
    """Yield batches of the photo alone, each augmented in another way."""
    loader = ImageLoader([fields], 1, size=SIZE, seed=SEED, dtype="uint8", layout="NHWC", output="numpy", **arguments)
    for _ in range(count):
        yield from loader


def with_mask(batch: Any) -> Pixels:
    """Return the image of a batch with the classes of its mask in colour."""
    image, mask = batch.image[0], batch.mask[0]
    coloured = (image * 0.35 + np.array(COLOURS)[mask] * 0.65).astype(np.uint8)
    pixels: Pixels = np.where(mask[..., None] > 0, coloured, image)
    return pixels


def with_boxes(batch: Any) -> Pixels:
    """Return the image of a batch with its boxes and points."""
    image = Image.fromarray(batch.image[0])
    draw = ImageDraw.Draw(image)
    for box in batch.boxes[0].tolist():
        draw.rectangle(box, outline=COLOURS[1], width=2)
    for x, y in batch.points[0].reshape(-1, 2).tolist():
        draw.ellipse((x - 3, y - 3, x + 3, y + 3), fill=COLOURS[2])
    return np.array(image)


def main() -> None:
    """Draw all pictures."""
    fields = sample()
    moves = ImageAugment(scale=None, zoom=(0.9, 1.8), zoom_from="fit", flip=0.5, rotate=20)
    targets = {"mask": Mask(ignore_index=0), "boxes": Boxes("xyxy"), "points": Keypoints(1, of="boxes")}
    moved = list(draw(fields, DRAWN, augment=moves, targets=targets))
    save([with_mask(it) for it in moved], "masks")
    save([with_boxes(it) for it in moved], "boxes")

    colours = ImageAugment(brightness=0.4, contrast=0.4, saturation=0.2, hue=0.1, jitter=0.8, grayscale=0.2)
    large = replace(colours, scale=(0.4, 1.0))
    small = replace(colours, scale=(0.05, 0.4), blur=0.5, size=SMALL)
    views = {"image": [replace(large, blur=1.0), replace(large, blur=0.1, solarize=0.2)], "small": [small] * DRAWN}
    (batch,) = draw({"image": fields["image"]}, 1, views=views)
    save([*batch.image[:, 0], *batch.small[:, 0]], "views")


def save(pictures: Sequence[Pixels], name: str) -> None:
    """Write a picture for a page: some pictures side by side."""
    whole = Image.new("RGB", (sum(it.shape[1] + GAP for it in pictures) - GAP, SIZE), "white")
    left = 0
    for pixels in pictures:
        whole.paste(Image.fromarray(pixels), (left, 0))
        left += pixels.shape[1] + GAP
    whole.save(PICTURES / f"targets_{name}.png", optimize=True)


if __name__ == "__main__":
    main()
