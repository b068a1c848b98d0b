"""One contender's turn of `labelled.py`: loads for some seconds and prints how many images came in a second."""

from __future__ import annotations

import json
import math
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

BATCH, SIZE = 32, 224
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
COLORS = {"brightness": 0.4, "contrast": 0.4, "saturation": 0.4, "hue": 0.1}
CLASSES = 10


def list_photos(folder: str) -> list[tuple[str, int]]:
    """Return the photos with classes, so often that an epoch is longer than a turn."""
    paths = sorted(map(str, Path(folder).glob("*.jpg")))
    return [(path, number % CLASSES) for number, path in enumerate(paths)] * 64


def run_loader(photos: list[tuple[str, int]], workers: int, colors: bool) -> Iterator[Any]:  # noqa: FBT001 - from JSON.
    """Load with ImageLoader."""
    from spdl.dataloader import ImageAugment, ImageLoader  # noqa: PLC0415 - each process has its own library.
    from spdl.source import ImageList  # noqa: PLC0415

    loader = ImageLoader(
        ImageList(photos),
        BATCH,
        size=SIZE,
        augment=ImageAugment(**(COLORS if colors else {})),  # type: ignore[arg-type]
        shuffle=True,
        mean=MEAN,
        std=STD,
        num_threads=workers,
    )
    return iter(loader)


def run_bare(photos: list[tuple[str, int]], workers: int, colors: bool) -> Iterator[Any]:  # noqa: FBT001
    """Call load_image_batch in a pool of threads, as far ahead as the loader is."""
    from spdl.io import (  # noqa: PLC0415
        ImageOptions,
        load_image_batch,
        random_color_jitter,
        random_flip,
        random_resized_crop,
    )

    options = ImageOptions(SIZE, SIZE, "stretch", "bilinear", layout="NCHW", dtype="float32", mean=MEAN, std=STD)
    order = list(range(len(photos)))
    random.Random(0).shuffle(order)  # noqa: S311 - no secret.

    def load(indices: list[int]) -> Any:
        key: dict[str, Any] = {"indices": indices, "seed": 0, "epoch": 0}
        return load_image_batch(
            [photos[index][0] for index in indices],
            options=options,
            crop=random_resized_crop(**key),
            flip=random_flip(**key),
            jitter=random_color_jitter(**key, **COLORS) if colors else None,
        )

    batches = (order[at : at + BATCH] for at in range(0, len(order), BATCH))
    with ThreadPoolExecutor(workers) as pool:
        under_way = [pool.submit(load, next(batches)) for _ in range(workers + 2)]
        for indices in batches:
            yield under_way.pop(0).result()
            under_way.append(pool.submit(load, indices))


class PillowPhotos:
    """A map-style dataset with the calls of torchvision's transforms on Pillow images."""

    def __init__(self, photos: list[tuple[str, int]], colors: bool) -> None:  # noqa: FBT001
        self._photos = photos
        self._colors = colors

    def __len__(self) -> int:
        return len(self._photos)

    def __getitem__(self, index: int) -> Any:
        import numpy as np  # noqa: PLC0415
        import torch  # noqa: PLC0415
        from PIL import Image, ImageOps  # noqa: PLC0415

        path, label = self._photos[index]
        with Image.open(path) as file:
            image = file.convert("RGB")
        box = draw_box(*image.size)
        image = image.resize((SIZE, SIZE), Image.Resampling.BILINEAR, box=box)
        if random.random() < 0.5:  # noqa: S311, PLR2004
            image = ImageOps.mirror(image)
        if self._colors:
            image = jitter(image)
        # ToTensor and Normalize.
        tensor = torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous().to(torch.float32).div(255)
        mean, std = (torch.tensor(values).view(3, 1, 1) for values in (MEAN, STD))
        return tensor.sub_(mean).div_(std), label


def draw_box(width: int, height: int) -> tuple[int, int, int, int]:
    """Draw a crop as RandomResizedCrop does."""
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1)  # noqa: S311
        aspect = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))  # noqa: S311
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            left, top = random.randint(0, width - w), random.randint(0, height - h)  # noqa: S311
            return left, top, left + w, top + h
    return 0, 0, width, height


def jitter(image: Any) -> Any:
    """Change the colours of a Pillow image as ColorJitter does."""
    import numpy as np  # noqa: PLC0415
    from PIL import Image, ImageEnhance  # noqa: PLC0415

    names = list(COLORS)
    random.shuffle(names)
    for name in names:
        amount = COLORS[name]
        if name == "hue":
            turn = random.uniform(-amount, amount)  # noqa: S311
            hue, saturation, value = image.convert("HSV").split()
            turned = (np.array(hue).astype(np.int16) + int(turn * 255)).astype(np.uint8)
            image = Image.merge("HSV", (Image.fromarray(turned), saturation, value)).convert("RGB")
            continue
        factor = random.uniform(1 - amount, 1 + amount)  # noqa: S311
        enhance = {
            "brightness": ImageEnhance.Brightness,
            "contrast": ImageEnhance.Contrast,
            "saturation": ImageEnhance.Color,
        }
        image = enhance[name](image).enhance(factor)
    return image


def run_torch(photos: list[tuple[str, int]], workers: int, colors: bool) -> Iterator[Any]:  # noqa: FBT001
    """Load with PyTorch's DataLoader in processes."""
    import torch  # noqa: PLC0415
    from torch.utils.data import DataLoader  # noqa: PLC0415

    torch.set_num_threads(1)
    dataset: Any = PillowPhotos(photos, colors)
    return iter(DataLoader(dataset, BATCH, shuffle=True, num_workers=workers, multiprocessing_context="fork"))


RUNS = {"loader": run_loader, "bare": run_bare, "torch": run_torch}


def main() -> None:
    """Load for some seconds after the first batches."""
    arguments = json.loads(sys.argv[1])
    batches = RUNS[arguments["work"]](list_photos(arguments["folder"]), arguments["workers"], arguments["colors"])
    for _ in range(4):
        next(batches)
    count, begun, seconds = 0, time.perf_counter(), 0.0
    # A fast machine may come to the end of a small folder before.
    while seconds < arguments["seconds"] and next(batches, None) is not None:
        count += BATCH
        seconds = time.perf_counter() - begun
    del batches
    print(json.dumps({"images_per_second": count / seconds}))


if __name__ == "__main__":
    main()
