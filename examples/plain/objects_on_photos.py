"""Put objects on photos, and say where they are as PASCAL VOC and COCO do: `python objects_on_photos.py FOLDER COUNT`.

The photos are the demo's. Each gets up to three objects: a warm ellipse or a cold rectangle. FOLDER then has the
photos in JPEGImages, palette masks in SegmentationClass, lists in ImageSets, and instances_train.json and
instances_val.json.
"""

import argparse
import json
import random
import sys
from pathlib import Path
from typing import Any

try:
    from PIL import Image, ImageChops, ImageDraw
except ImportError:
    sys.exit("The photos are made with Pillow, which is missing: pip install 'spdl-turbo[demo]'")

from spdl.cli._common.console import Console
from spdl.cli._demo.photos import demo_photos

CLASSES = ["warm", "cold"]
SIZE = (160, 120)
TINTS = {1: (255, 120, 60), 2: (60, 130, 255)}
IGNORED = 255
LEFT_OUT = 0.3


def add_objects(photo: Any, numbers: random.Random) -> tuple[Any, Any, list[tuple[int, tuple[int, int, int, int]]]]:
    """Return a photo with objects, its mask of classes, and the class and the box of each object."""
    width, height = photo.size
    mask = Image.new("P", photo.size, 0)
    mask.putpalette([0, 0, 0, *TINTS[1], *TINTS[2]] + [255] * 759)
    objects = []
    for third in range(3):
        if numbers.random() < LEFT_OUT:
            continue
        # Each has a third of the photo, so none covers another.
        left = third * width // 3 + numbers.randrange(2, 12)
        right = (third + 1) * width // 3 - numbers.randrange(2, 12)
        top = numbers.randrange(4, height // 2)
        bottom = numbers.randrange(top + height // 4, height - 2)
        number = numbers.choice([1, 2])
        shape = Image.new("L", photo.size)
        # A seam of ignored pixels surrounds each object, as in VOC.
        for picture, value, seam in ((shape, 255, 0), (mask, IGNORED, 1), (mask, number, 0)):
            draw = ImageDraw.Draw(picture)
            box = (left - seam, top - seam, right + seam, bottom + seam)
            (draw.ellipse if number == 1 else draw.rectangle)(box, fill=value)
        tinted = ImageChops.multiply(photo, Image.new("RGB", photo.size, TINTS[number]))
        photo = Image.composite(tinted, photo, shape)
        objects.append((number, (left, top, right + 1, bottom + 1)))
    return photo, mask, objects


def write(folder: Path, count: int) -> None:
    """Write that many photos, of which every fifth is in the list "val"."""
    for name in ("JPEGImages", "SegmentationClass", "ImageSets/Segmentation"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    photos = sorted(demo_photos(Console()).glob("*.jpg"))
    for part, numbers in (("train", [n for n in range(count) if n % 5]), ("val", list(range(0, count, 5)))):
        coco: dict[str, list[Any]] = {
            "images": [],
            "annotations": [],
            "categories": [{"id": number, "name": name} for number, name in enumerate(CLASSES, 1)],
        }
        for number in numbers:
            name = f"{number:06}"
            with Image.open(photos[number % len(photos)]) as file:
                photo, mask, objects = add_objects(file.convert("RGB").resize(SIZE), random.Random(number))  # noqa: S311
            photo.save(folder / "JPEGImages" / f"{name}.jpg", quality=92)
            mask.save(folder / "SegmentationClass" / f"{name}.png")
            coco["images"].append({"id": number, "file_name": f"{name}.jpg", "width": SIZE[0], "height": SIZE[1]})
            for label, (left, top, right, bottom) in objects:
                coco["annotations"].append(
                    {
                        "id": len(coco["annotations"]) + 1,
                        "image_id": number,
                        "category_id": label,
                        "bbox": [left, top, right - left, bottom - top],
                        "area": (right - left) * (bottom - top),
                        "iscrowd": 0,
                    }
                )
        (folder / f"instances_{part}.json").write_text(json.dumps(coco), encoding="utf-8")
        names = "".join(f"{number:06}\n" for number in numbers)
        (folder / "ImageSets" / "Segmentation" / f"{part}.txt").write_text(names, encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    parser.add_argument("count", metavar="COUNT", type=int)
    options = parser.parse_args()
    write(options.folder, options.count)
