"""The texts in a Python file: what its messages and docstrings are made of."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def texts(path: Path) -> list[str]:
    """Return all texts of a file, with `...` for what is filled in."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.append(node.value)
        elif isinstance(node, ast.JoinedStr):
            found.append("".join(str(it.value) if isinstance(it, ast.Constant) else "..." for it in node.values))
    return found
