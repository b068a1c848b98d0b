"""The messages that the page on troubleshooting quotes are in the source."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest
from tests.repository.texts import texts

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
QUOTED = re.findall(r"^### `(.*)`$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


@cache
def all_texts() -> list[str]:
    """Return all texts of the package."""
    return [text for path in (ROOT / "src" / "spdl").rglob("*.py") for text in texts(path)]


@pytest.mark.parametrize("message", QUOTED)
def test_a_quoted_message_is_one_of_ours(message: str) -> None:
    assert any(message in text for text in all_texts())


def test_there_are_messages_and_others_are_not_ours() -> None:
    assert len(QUOTED) > 10
    assert not any("no such message of ours" in text for text in all_texts())
