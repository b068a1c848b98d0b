"""Random crops of random area and aspect ratio, drawn as torchvision does, for contenders that have none."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random

SCALE, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)


def draw_crop(chance: random.Random, width: int, height: int) -> tuple[int, int, int, int]:
    """Return left, top, right and bottom."""
    for _ in range(10):
        area = width * height * chance.uniform(*SCALE)
        ratio = math.exp(chance.uniform(math.log(RATIO[0]), math.log(RATIO[1])))
        wide, high = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < wide <= width and 0 < high <= height:
            left, top = chance.randint(0, width - wide), chance.randint(0, height - high)
            return left, top, left + wide, top + high
    return 0, 0, width, height
