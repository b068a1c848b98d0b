"""The contenders that load photos: ours and others, with their environment, program and resize."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from _image_environments import OWN, find_environments
from _loader_environments import MAKERS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from spdl.cli._common.console import Console

BATCH, FLOW = "spdl-turbo, load_image_batch", "spdl-turbo, image by image"
REFERENCE = "spdl 0.8.0, image by image"
BARE = "libjpeg-turbo, bare decode"
ANTIALIASED, AREA, NO_RESIZE = "stretch, bilinear, antialiased", "stretch, area average", "full size"


@dataclass(frozen=True)
class Contender:
    """One loader.

    Attributes:
        environment: The environment that it runs in, by its name in `_loader_environments`.
        program: The module of `_loaders_work` that opens it.
        workers: The kind of its workers.
        distribution: The distribution whose version identifies it.
        resize: The way it resizes, in words.
        keywords: Further arguments of the program.
    """

    environment: str
    program: str
    workers: Literal["threads", "processes"]
    distribution: str
    resize: str = ANTIALIASED
    keywords: dict[str, str] = field(default_factory=dict)


OURS = (BATCH, FLOW)

# In the order of the tables. Loaders whose antialiased bilinear filter is missing or slow use area averaging.
CONTENDERS = {
    BATCH: Contender(OWN, "load_spdl", "threads", "spdl-turbo", keywords={"flow": "batch"}),
    FLOW: Contender(OWN, "load_spdl", "threads", "spdl-turbo", keywords={"flow": "seed"}),
    REFERENCE: Contender("reference", "load_spdl", "threads", "spdl", keywords={"flow": "seed"}),
    "PyTorch DataLoader, Pillow": Contender(
        "torchdata", "load_torch", "processes", "torch", keywords={"library": "pillow"}
    ),
    "PyTorch DataLoader, OpenCV": Contender(
        "torchdata", "load_torch", "processes", "torch", AREA, {"library": "opencv"}
    ),
    "torchdata nodes, OpenCV": Contender("torchdata", "load_nodes", "threads", "torchdata", AREA),
    "DALI, CPU": Contender("dali", "load_dali", "threads", "nvidia-dali-cuda130"),
    "Grain, OpenCV": Contender("grain", "load_grain", "threads", "grain", AREA),
    "tf.data": Contender("tensorflow", "load_tf", "threads", "tensorflow-cpu", AREA),
    "OpenCV, thread pool": Contender("opencv", "load_opencv", "threads", "opencv-python-headless", AREA),
    "FFCV": Contender("ffcv", "load_ffcv", "threads", "ffcv", AREA),
}
CONTENDERS[BARE] = Contender(OWN, "load_bare", "threads", "spdl-turbo", NO_RESIZE)
"""The limit, which no loader can beat that decodes whole photos with libjpeg-turbo."""


def find_contenders(names: Iterable[str], console: Console) -> tuple[dict[str, tuple[str, ...]], dict[str, str]]:
    """Return the command of each contender's interpreter, and the reasons why others are missing."""
    environments = {name: CONTENDERS[name].environment for name in names}
    commands, missing = find_environments(list(environments.values()), console, MAKERS)
    return (
        {name: commands[it] for name, it in environments.items() if it in commands},
        {name: missing[it] for name, it in environments.items() if it in missing},
    )
