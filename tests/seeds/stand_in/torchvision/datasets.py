"""The data set of that name, with a folder for each class."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image


def _load(path: str) -> Any:
    with Image.open(path) as image:
        return image.convert("RGB")


class ImageNet:
    """Pairs of a loaded image and the number of its class."""

    def __init__(
        self,
        root: str,
        split: str = "train",
        transform: Callable[[Any], Any] | None = None,
        loader: Callable[[str], Any] = _load,
    ) -> None:
        self.transform = transform
        self.loader = loader
        folders = sorted(Path(root, split).iterdir())
        self.samples = [(str(path), index) for index, folder in enumerate(folders) for path in sorted(folder.iterdir())]

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        path, target = self.samples[index]
        sample = self.loader(path)
        return (sample if self.transform is None else self.transform(sample)), target
