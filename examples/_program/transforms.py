"""The torchvision transforms that the programs use: torchvision's if installed, else copies made of Pillow and torch.

The copies give the same pixels: torchvision's ``Resize`` of a Pillow image is Pillow's bilinear resize.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

try:
    from PIL import Image
except ImportError as missing:
    raise SystemExit("This program compares with Pillow, which is missing: pip install 'spdl-turbo[demo]'") from missing

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Compose", "Normalize", "PILToTensor", "Resize"]

try:
    from torchvision.transforms import Compose, Normalize, PILToTensor, Resize
except (ImportError, RuntimeError):  # RuntimeError: torchvision was built for another torch.

    class Compose:  # type: ignore[no-redef]
        """A chain of transforms, applied one after the other."""

        def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
            self.transforms = transforms

        def __call__(self, image: Any) -> Any:
            """Return the image after all transforms."""
            for transform in self.transforms:
                image = transform(image)
            return image

    class Resize:  # type: ignore[no-redef]
        """Resizes a Pillow image to a (height, width)."""

        def __init__(self, size: tuple[int, int]) -> None:
            self.size = size

        def __call__(self, image: Image.Image) -> Image.Image:
            """Return the resized image."""
            height, width = self.size
            return image.resize((width, height), Image.Resampling.BILINEAR)

    class PILToTensor:  # type: ignore[no-redef]
        """Converts a Pillow image to a uint8 tensor (C, H, W)."""

        def __call__(self, image: Image.Image) -> torch.Tensor:
            """Return the tensor."""
            return torch.as_tensor(np.array(image, copy=True)).permute(2, 0, 1)

    class Normalize:  # type: ignore[no-redef]
        """Subtracts a mean and divides by a standard deviation, per channel, for a tensor (..., C, H, W)."""

        def __init__(self, mean: Sequence[float], std: Sequence[float]) -> None:
            self.mean = mean
            self.std = std

        def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
            """Return the normalised tensor."""
            mean = torch.tensor(self.mean, dtype=tensor.dtype, device=tensor.device).view(-1, 1, 1)
            std = torch.tensor(self.std, dtype=tensor.dtype, device=tensor.device).view(-1, 1, 1)
            return (tensor - mean) / std
