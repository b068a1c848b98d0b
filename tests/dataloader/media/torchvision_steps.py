"""What torchvision makes of an image by one step. Run it with torchvision to write `torchvision_steps.json` anew."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

VECTORS = Path(__file__).with_suffix(".json")

SIZE = (14, 11)
"""The width and height of the image of the vectors."""

STEPS: list[tuple[str, float]] = [
    ("identity", 0),
    *[(name, sign * 0.09) for name in ("shear_x", "shear_y") for sign in (1, -1)],
    ("translate_x", 1),
    ("translate_x", -1),
    ("translate_y", 1),
    ("translate_y", -1),
    ("rotate", 9),
    ("rotate", -9),
    *[(name, 1 + sign * 0.27) for name in ("brightness", "saturation", "contrast", "sharpness") for sign in (1, -1)],
    ("sharpness", 2),
    ("posterize", 7),
    ("posterize", 4),
    ("posterize", 1),
    ("solarize", 178.5),
    ("solarize", 128),
    ("autocontrast", 0),
    ("equalize", 0),
    ("grayscale", 0),
    ("hue", 0.1),
    ("hue", -0.35),
    *[("blur", sigma) for sigma in (0.1, 0.5, 1, 2)],
]
"""Those of RandAugment with its default magnitude, and others."""

KERNEL = 7
"""The weights of the blurs."""


def make_picture(size: tuple[int, int] = SIZE, seed: int = 0) -> Any:
    """Return an image, uint8 (H, W, 3), that has no value twice as often as others, and not all values."""
    width, height = size
    noise = np.random.default_rng(seed).integers(0, 120, (height, width, 3))
    return (noise + np.linspace(10, 110, width)[None, :, None] + [0, 7, 20]).astype(np.uint8)


def by_torchvision(picture: Any, name: str, value: float, kernel: int = KERNEL) -> Any:
    """Return the image, uint8 (H, W, 3), after one step of torchvision's v2 functions, as its policies call them."""
    import torch  # noqa: PLC0415 - only some environments have these.
    from torchvision.transforms.v2 import functional  # noqa: PLC0415

    image = torch.from_numpy(picture).permute(2, 0, 1).contiguous()
    still: dict[str, Any] = {"angle": 0.0, "translate": [0, 0], "scale": 1.0, "shear": [0.0, 0.0]}
    tilt = math.degrees(math.atan(value)) if name.startswith("shear") else 0.0
    calls: dict[str, Any] = {
        "identity": lambda: image,
        "shear_x": lambda: functional.affine(image, **{**still, "shear": [tilt, 0.0]}, center=[0, 0]),
        "shear_y": lambda: functional.affine(image, **{**still, "shear": [0.0, tilt]}, center=[0, 0]),
        "translate_x": lambda: functional.affine(image, **{**still, "translate": [int(value), 0]}),
        "translate_y": lambda: functional.affine(image, **{**still, "translate": [0, int(value)]}),
        "rotate": lambda: functional.rotate(image, value),
        "brightness": lambda: functional.adjust_brightness(image, value),
        "saturation": lambda: functional.adjust_saturation(image, value),
        "contrast": lambda: functional.adjust_contrast(image, value),
        "sharpness": lambda: functional.adjust_sharpness(image, value),
        "hue": lambda: functional.adjust_hue(image, value),
        "posterize": lambda: functional.posterize(image, int(value)),
        "solarize": lambda: functional.solarize(image, value),
        "autocontrast": lambda: functional.autocontrast(image),
        "equalize": lambda: functional.equalize(image),
        "grayscale": lambda: functional.rgb_to_grayscale(image, 3),
        "blur": lambda: functional.gaussian_blur(image, [kernel, kernel], [value, value]),
    }
    return calls[name]().permute(1, 2, 0).numpy()


def load_vectors() -> dict[tuple[str, float], Any]:
    """Return what torchvision made of `make_picture()` by each of the steps."""
    width, height = SIZE
    return {
        (name, value): np.frombuffer(bytes.fromhex(pixels), np.uint8).reshape(height, width, 3)
        for name, value, pixels in json.loads(VECTORS.read_text())
    }


def write_vectors() -> None:
    picture = make_picture()
    lines = [json.dumps([*step, by_torchvision(picture, *step).tobytes().hex()]) for step in STEPS]
    VECTORS.write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[3]))
    import tests.repository.beside_torchvision  # noqa: F401

    write_vectors()
