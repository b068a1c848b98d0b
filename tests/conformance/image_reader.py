"""Our pixels, by each of the calls that read an image."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl.io import load_image, load_image_batch, to_numpy
from tests.conformance.image_oracle import SIZE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conformance.reading import Arrays


def load_path(path: Path, _: bytes) -> Arrays:
    """Read the file by its path."""
    return {"stored": to_numpy(load_image(path))}


def load_batch(_: Path, data: bytes) -> Arrays:
    """Read the bytes, in the image's own size."""
    return {"stored": to_numpy(load_image_batch([data], width=None, height=None))[0]}


def load_resized(_: Path, data: bytes) -> Arrays:
    """Read the bytes, and resize the upright image."""
    width, height = SIZE
    return {"resized": to_numpy(load_image_batch([data], width=width, height=height, mode="stretch"))[0]}
