"""Fixtures for the tests of audio and video."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.io.av import media, real_media


@pytest.fixture(scope="session")
def clip() -> Callable[[str], Path]:
    """Return a function that makes a clip by its name (`media.CLIPS`), once, and returns its path."""
    return media.clip


@pytest.fixture(scope="session")
def real_clip() -> Callable[[str], Path]:
    """Return a function that fetches a clip of other projects by its name (`real_media.CLIPS`), once."""
    return real_media.real_clip
