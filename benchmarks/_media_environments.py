"""The environments of the contenders of `video.py` and `audio.py`. Each contender has its own, made once and kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from _image_environments import MAKERS, OWN, WHEEL, peer
from spdl.cli._demo.turn import TORCH, install_torch

if TYPE_CHECKING:
    from collections.abc import Callable

    from _image_environments import Command
    from spdl.cli._common.console import Console

# Newer releases of torchcodec want the libraries of CUDA.
TORCHCODEC = ("torchcodec==0.13.0", *TORCH)
# With PyTorch, as it is measured in PyTorch's DataLoader too.
DECORD = ("decord==0.6.0", *TORCH)
PYAV = ("av==18.1.0", "numpy")
SOUNDFILE = ("soundfile==0.14.0", "numpy")

MEDIA_MAKERS: dict[str, Callable[[Console], Command]] = {
    OWN: MAKERS[OWN],
    WHEEL: MAKERS[WHEEL],
    "reference": MAKERS["reference"],
    "opencv": MAKERS["opencv"],
    "pyav": peer("pyav", PYAV),
    "decord": peer("decord", DECORD, install_torch),
    "torchcodec": peer("torchcodec", TORCHCODEC, install_torch),
    "soundfile": peer("soundfile", SOUNDFILE),
}
