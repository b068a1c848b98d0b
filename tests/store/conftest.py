"""A server of objects for the tests of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.store.range_server import running

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running() as url:
        yield url
