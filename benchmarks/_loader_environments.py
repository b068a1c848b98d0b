"""The environments of the contenders of `loaders.py`: those of `images.py`, and those of loaders with an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from _image_environments import MAKERS as IMAGE_MAKERS
from _image_environments import OPENCV, peer
from spdl.cli._demo.turn import TORCH, install_torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from spdl.cli._common.console import Console

# PyTorch with the libraries that its users load photos with: one environment for three contenders.
TORCHDATA = ("torchdata>=0.11.0", *TORCH, *OPENCV)
GRAIN = ("grain>=0.2.18", *OPENCV)
TENSORFLOW = ("tensorflow-cpu>=2.21.0", "numpy")

MAKERS: dict[str, Callable[[Console], tuple[str, ...]]] = {
    **IMAGE_MAKERS,
    "torchdata": peer("torchdata", TORCHDATA, install_torch),
    "grain": peer("grain", GRAIN),
    "tensorflow": peer("tensorflow", TENSORFLOW),
}
