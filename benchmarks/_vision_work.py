"""One contender's turn of `vision.py`: loads for some seconds and prints how many images a CPU-second loads.

An image counts once, whatever the number of its views.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BATCH = 32
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
CLASSES = 10


def list_photos(folder: str) -> list[tuple[str, int]]:
    """Return the photos with classes, so often that an epoch is longer than a turn."""
    paths = sorted(map(str, Path(folder).glob("*.jpg")))
    return [(path, number % CLASSES) for number, path in enumerate(paths)] * 64


def mask_of(number: int) -> bytes:
    """Return a mask of a photo, a palette PNG of 500x375 pixels with some classes."""
    import io  # noqa: PLC0415

    import numpy as np  # noqa: PLC0415
    from PIL import Image  # noqa: PLC0415

    random = np.random.default_rng(number)
    ids = np.kron(random.integers(0, 21, (15, 20)), np.ones((25, 25))).astype(np.uint8)
    picture = Image.fromarray(ids, "P")
    picture.putpalette(random.integers(0, 256, 768, np.uint8).tobytes())
    file = io.BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()


MASKS = 64


def boxes_of(number: int) -> tuple[list[list[float]], list[int]]:
    """Return five boxes in a photo of 500x375 pixels, and their classes."""
    import random  # noqa: PLC0415

    drawn = random.Random(number)  # noqa: S311
    boxes = []
    for _ in range(5):
        left, top = drawn.uniform(0, 400), drawn.uniform(0, 300)
        boxes.append([left, top, left + drawn.uniform(5, 100), top + drawn.uniform(5, 75)])
    return boxes, [drawn.randrange(CLASSES) for _ in boxes]


def targets_of(job: str, photos: list[tuple[str, int]]) -> Any:
    """Return a function that returns what belongs to a photo: a mask, or boxes and labels."""
    masks = [mask_of(number) for number in range(MASKS)] if job == "segmentation" else []
    boxes = [boxes_of(number) for number in range(len(set(photos)))] if job == "detection" else []

    def find(index: int) -> dict[str, Any]:
        if masks:
            return {"mask": masks[index % len(masks)]}
        if not boxes:
            return {}
        found, labels = boxes[index % len(boxes)]
        return {"boxes": found, "labels": labels}

    return find


class Samples:
    """Photos and what belongs to them, as records."""

    def __init__(self, folder: str, job: str) -> None:
        self._photos = list_photos(folder)
        self._targets = targets_of(job, self._photos)

    def __len__(self) -> int:
        return len(self._photos)

    def __getitem__(self, index: int) -> dict[str, Any]:
        path, label = self._photos[index]
        return {"image": path, "label": label, **self._targets(index)}


def by_us(folder: str, job: str, workers: int) -> Iterator[Any]:
    """Load with ImageLoader."""
    from spdl.dataloader import Boxes, ImageAugment, ImageLoader, Mask, Values  # noqa: PLC0415 - each has its own.

    colors = {"brightness": 0.4, "contrast": 0.4, "saturation": 0.2, "hue": 0.1, "jitter": 0.8, "grayscale": 0.2}
    sharp = ImageAugment(scale=(0.32, 1), **colors, blur=0.1, blur_kernel=23, solarize=0.2)  # type: ignore[arg-type]
    blurred = ImageAugment(scale=(0.32, 1), **colors, blur=1, blur_kernel=23)  # type: ignore[arg-type]
    small = ImageAugment(scale=(0.05, 0.32), **colors, blur=0.5, blur_kernel=9, size=96)  # type: ignore[arg-type]
    both = ImageAugment(**colors, blur=0.5, blur_kernel=23, solarize=0.2)  # type: ignore[arg-type]
    options: dict[str, dict[str, Any]] = {
        "classification": {"augment": "train"},
        "simclr": {"augment": both, "views": 2},
        "dino": {"views": {"image": [blurred, sharp], "local": [small] * 6}},
        "segmentation": {"augment": "train", "size": 512, "targets": {"mask": Mask()}},
        "detection": {
            "augment": ImageAugment(scale=None),
            "size": 640,
            "mode": "pad",
            "pad_value": 114,
            "targets": {"boxes": Boxes(), "labels": Values(of="boxes")},
        },
    }
    loader = ImageLoader(
        Samples(folder, job),  # type: ignore[arg-type]  # A sequence as far as a loader needs one.
        BATCH,
        shuffle=True,
        mean=MEAN,
        std=STD,
        num_threads=workers,
        **{"size": 224, **options[job]},
    )
    return iter(loader)


def transforms_of_torchvision(job: str) -> list[Any]:
    """Return the transforms of each view. They take an image of Pillow."""
    import torch  # noqa: PLC0415
    from torchvision.transforms import v2  # noqa: PLC0415

    last = [v2.ToDtype(torch.float32, scale=True), v2.Normalize(MEAN, STD)]

    def view(size: int, scale: tuple[float, float], blur: float, kernel: int, solarize: float) -> Any:
        steps: list[Any] = [
            v2.ToImage(),
            v2.RandomResizedCrop(size, scale, antialias=True),
            v2.RandomHorizontalFlip(),
            v2.RandomApply([v2.ColorJitter(0.4, 0.4, 0.2, 0.1)], 0.8),
            v2.RandomGrayscale(0.2),
        ]
        if blur:
            steps.append(v2.RandomApply([v2.GaussianBlur(kernel, (0.1, 2.0))], blur))
        if solarize:
            steps.append(v2.RandomSolarize(128, solarize))
        return v2.Compose([*steps, *last])

    if job in ("classification", "segmentation"):
        crop = v2.RandomResizedCrop(224 if job == "classification" else 512, antialias=True)
        return [v2.Compose([v2.ToImage(), crop, v2.RandomHorizontalFlip(), *last])]
    if job == "detection":
        letterbox = [v2.Resize((480, 640), antialias=True), v2.Pad([0, 80], fill=114)]
        return [v2.Compose([v2.ToImage(), *letterbox, v2.RandomHorizontalFlip(), v2.SanitizeBoundingBoxes(), *last])]
    if job == "simclr":
        return [view(224, (0.08, 1), 0.5, 23, 0.2)] * 2
    large = [view(224, (0.32, 1), 1, 23, 0), view(224, (0.32, 1), 0.1, 23, 0.2)]
    return large + [view(96, (0.05, 0.32), 0.5, 9, 0)] * 6


def transforms_of_albumentations(job: str) -> list[Any]:
    """Return the transforms of each view. They take an array (H, W, 3)."""
    import albumentations as A  # noqa: N812, PLC0415
    from albumentations.pytorch import ToTensorV2  # noqa: PLC0415

    def view(size: int, scale: tuple[float, float], blur: float, kernel: int, solarize: float) -> Any:
        steps: list[Any] = [
            A.RandomResizedCrop((size, size), scale=scale),
            A.HorizontalFlip(p=0.5),
            A.ColorJitter((0.6, 1.4), (0.6, 1.4), (0.8, 1.2), (-0.1, 0.1), p=0.8),
            A.ToGray(p=0.2),
        ]
        if blur:
            steps.append(A.GaussianBlur(blur_limit=(kernel, kernel), sigma_limit=(0.1, 2.0), p=blur))
        if solarize:
            steps.append(A.Solarize((0.5, 0.5), p=solarize))
        return A.Compose([*steps, A.Normalize(MEAN, STD), ToTensorV2()])

    flipped = [A.HorizontalFlip(p=0.5), A.Normalize(MEAN, STD), ToTensorV2()]
    if job in ("classification", "segmentation"):
        side = 224 if job == "classification" else 512
        return [A.Compose([A.RandomResizedCrop((side, side)), *flipped])]
    if job == "detection":
        letterbox = [A.LongestMaxSize(640), A.PadIfNeeded(640, 640, fill=114)]
        boxes = A.BboxParams("pascal_voc", label_fields=["labels"])
        return [A.Compose([*letterbox, *flipped], bbox_params=boxes)]
    if job == "simclr":
        return [view(224, (0.08, 1), 0.5, 23, 0.2)] * 2
    large = [view(224, (0.32, 1), 1, 23, 0), view(224, (0.32, 1), 0.1, 23, 0.2)]
    return large + [view(96, (0.05, 0.32), 0.5, 9, 0)] * 6


class Photos:
    """A map-style dataset: the views of a photo that one of the libraries makes, and its label."""

    def __init__(self, photos: list[tuple[str, int]], library: str, job: str) -> None:
        self._photos = photos
        self._views = {"torchvision": transforms_of_torchvision, "albumentations": transforms_of_albumentations}[
            library
        ](job)
        self._load = {"torchvision": self._by_pillow, "albumentations": self._by_opencv}[library]
        self._targets = targets_of(job, photos)

    def __len__(self) -> int:
        return len(self._photos)

    def __getitem__(self, index: int) -> Any:
        path, label = self._photos[index]
        return self._load(path, self._targets(index)), label

    def _by_pillow(self, path: str, targets: dict[str, Any]) -> Any:
        from PIL import Image  # noqa: PLC0415

        with Image.open(path) as file:
            image = file.convert("RGB")
        if not targets:
            return [view(image) for view in self._views]
        import torch  # noqa: PLC0415
        from torchvision import tv_tensors  # noqa: PLC0415

        sample: dict[str, Any] = {"image": image}
        if "mask" in targets:
            sample["mask"] = tv_tensors.Mask(torch.from_numpy(read_mask(targets["mask"])))
        else:
            size = (image.height, image.width)
            sample["boxes"] = tv_tensors.BoundingBoxes(targets["boxes"], format="XYXY", canvas_size=size)
            sample["labels"] = torch.tensor(targets["labels"])
        return self._views[0](sample)

    def _by_opencv(self, path: str, targets: dict[str, Any]) -> Any:
        import cv2  # noqa: PLC0415

        image = cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2RGB)
        if not targets:
            return [view(image=image)["image"] for view in self._views]
        if "mask" in targets:
            return self._views[0](image=image, mask=read_mask(targets["mask"]))
        return self._views[0](image=image, bboxes=targets["boxes"], labels=targets["labels"])


def read_mask(data: bytes) -> Any:
    """Return the indices of a palette PNG, int64 (H, W)."""
    import io  # noqa: PLC0415

    import numpy as np  # noqa: PLC0415
    from PIL import Image  # noqa: PLC0415

    return np.array(Image.open(io.BytesIO(data)), np.int64)


def collate(samples: list[tuple[Any, int]]) -> Any:
    """Return the images of samples as one tensor, masks too, and boxes as a list."""
    import torch  # noqa: PLC0415

    fields = [sample for sample, _ in samples]
    if "mask" in fields[0]:
        return torch.stack([it["image"] for it in fields]), torch.stack([torch.as_tensor(it["mask"]) for it in fields])
    boxes = [it["boxes"] if "boxes" in it else torch.tensor(it["bboxes"]) for it in fields]
    return torch.stack([it["image"] for it in fields]), boxes, [torch.as_tensor(it["labels"]) for it in fields]


def by_workers(library: str) -> Callable[[str, str, int], Iterator[Any]]:
    """Return a function that loads with PyTorch's DataLoader in processes."""

    def load(folder: str, job: str, workers: int) -> Iterator[Any]:
        import torch  # noqa: PLC0415
        from torch.utils.data import DataLoader  # noqa: PLC0415

        torch.set_num_threads(1)
        if library == "albumentations":
            import cv2  # noqa: PLC0415

            cv2.setNumThreads(0)
        photos: Any = Photos(list_photos(folder), library, job)
        kinds: dict[str, Any] = {"collate_fn": collate} if job in ("segmentation", "detection") else {}
        return iter(
            DataLoader(photos, BATCH, shuffle=True, num_workers=workers, multiprocessing_context="fork", **kinds)
        )

    return load


LOADERS: dict[str, Callable[[str, str, int], Iterator[Any]]] = {
    "spdl-turbo": by_us,
    "torchvision": by_workers("torchvision"),
    "albumentations": by_workers("albumentations"),
}


def cpu_seconds() -> float:
    """Return the CPU time of this process and of its workers so far."""
    children = [path.read_text().split() for path in Path("/proc/self/task").glob("*/children")]
    ticks = 0
    for process in [str(os.getpid()), *(child for each in children for child in each)]:
        # The name of the program, in parentheses, may have spaces.
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Load for some seconds after the first batches."""
    arguments = json.loads(sys.argv[1])
    workers = arguments["workers"]
    if arguments["contender"] == "torchvision" and "beside" in arguments:
        # PyPI's torchvision is built for CUDA.
        sys.path.insert(0, arguments["beside"])
        __import__("beside_torchvision")
    batches = LOADERS[arguments["contender"]](arguments["folder"], arguments["job"], workers)
    for _ in range(2 * workers + 2):
        next(batches)
    count, cpu, begun, seconds = 0, cpu_seconds(), time.perf_counter(), 0.0
    while seconds < arguments["seconds"] and next(batches, None) is not None:
        count += BATCH
        seconds = time.perf_counter() - begun
    cpu = cpu_seconds() - cpu
    del batches
    print(json.dumps({"images_per_cpu_second": count / cpu, "images_per_second": count / seconds}))


if __name__ == "__main__":
    main()
