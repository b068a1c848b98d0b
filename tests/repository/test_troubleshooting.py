"""The messages that the page on troubleshooting quotes are in the source."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "troubleshooting.md"
QUOTED = re.findall(r"^### `(.*)`$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


@cache
def texts() -> list[str]:
    """Return all texts of the package, with `...` for what is filled in."""
    found = []
    for path in (ROOT / "src" / "spdl").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
            elif isinstance(node, ast.JoinedStr):
                found.append("".join(str(it.value) if isinstance(it, ast.Constant) else "..." for it in node.values))
    return found


@pytest.mark.parametrize("message", QUOTED)
def test_a_quoted_message_is_one_of_ours(message: str) -> None:
    assert any(message in text for text in texts())


def test_there_are_messages_and_others_are_not_ours() -> None:
    assert len(QUOTED) > 10
    assert not any("no such message of ours" in text for text in texts())
