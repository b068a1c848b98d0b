"""A server of objects for the tests of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.store.range_server import running

from spdl.store import _requests

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Repeat requests at once. So the number of attempts ends a call, at no time that a busy machine could miss."""
    monkeypatch.setattr(_requests, "full_jitter", lambda *_: 0.0)


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with running() as url:
        yield url
