"""Folders of photos."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.dataloader.media.image_loading import BROKEN, COUNT
from tests.io.images import make_jpeg

from spdl.source import ImageFolder


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> ImageFolder:
    """Photos of two classes, each of its own."""
    root = tmp_path_factory.mktemp("photos")
    for index in range(COUNT):
        name = root / ("cats" if index < 9 else "dogs") / f"{index:02}.jpg"
        name.parent.mkdir(exist_ok=True)
        name.write_bytes(make_jpeg(40 + index, 50 - index, seed=index))
    return ImageFolder(root)


@pytest.fixture(scope="module")
def broken(photos: ImageFolder, tmp_path_factory: pytest.TempPathFactory) -> ImageFolder:
    """The same photos, some of them damaged."""
    root = tmp_path_factory.mktemp("broken")
    for sample in photos:
        name = root / Path(sample.path).relative_to(photos.root)
        name.parent.mkdir(exist_ok=True)
        name.write_bytes(b"no photo" if sample.index in BROKEN else Path(sample.path).read_bytes())
    return ImageFolder(root)
