"""The transforms of torchvision that the programs use: its own if it is there, else the same from Pillow and torch.

The ones here give the same pixels: torchvision's ``Resize`` of a Pillow image is Pillow's bilinear resize.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Compose", "Normalize", "PILToTensor", "Resize"]

try:
    from torchvision.transforms import Compose, Normalize, PILToTensor, Resize
except (ImportError, RuntimeError):  # RuntimeError: one that was built for another torch.

    class Compose:  # type: ignore[no-redef]
        """One transform after the other."""

        def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
            self.transforms = transforms

        def __call__(self, image: Any) -> Any:
            """Apply them all."""
            for transform in self.transforms:
                image = transform(image)
            return image

    class Resize:  # type: ignore[no-redef]
        """Bring a Pillow image to a (height, width)."""

        def __init__(self, size: tuple[int, int]) -> None:
            self.size = size

        def __call__(self, image: Image.Image) -> Image.Image:
            """Return the resized image."""
            height, width = self.size
            return image.resize((width, height), Image.Resampling.BILINEAR)

    class PILToTensor:  # type: ignore[no-redef]
        """Make a uint8 tensor (C, H, W) of a Pillow image."""

        def __call__(self, image: Image.Image) -> torch.Tensor:
            """Return the tensor."""
            return torch.as_tensor(np.array(image, copy=True)).permute(2, 0, 1)

    class Normalize:  # type: ignore[no-redef]
        """Subtract a mean and divide by a standard deviation, each per channel, of (..., C, H, W)."""

        def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
            self.mean = mean
            self.std = std

        def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
            """Return the normalised tensor."""
            mean = torch.tensor(self.mean, dtype=tensor.dtype, device=tensor.device).view(-1, 1, 1)
            std = torch.tensor(self.std, dtype=tensor.dtype, device=tensor.device).view(-1, 1, 1)
            return (tensor - mean) / std
