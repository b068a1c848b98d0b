"""The lines of a job that change when it switches to spdl."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from pathlib import Path

_NEW_IMPORT = "from spdl.dataloader import PyTorchDataLoader"


@dataclass(frozen=True)
class Change:
    """A change of one statement, from its first line to its last: `old` is in one line."""

    line: int
    last: int
    old: str
    new: tuple[str, ...]


def find_changes(file: str, line: int) -> list[Change]:
    """Return the changes that make the call on a line of a file use spdl's loader in place of PyTorch's.

    None if the file cannot be read, or if the call does not name PyTorch's `DataLoader`.
    """
    try:
        text = Path(file).read_text(encoding="utf-8")
        tree = ast.parse(text)
    except (OSError, ValueError, SyntaxError):
        return []
    lines = text.splitlines()
    call = _called(tree, line)
    if call is None:
        return []
    if isinstance(call, ast.Attribute):
        old = lines[call.lineno - 1]
        new = old.replace(ast.unparse(call), "PyTorchDataLoader")
        place = _first_import(tree)
        added = Change(place, place, lines[place - 1], (_NEW_IMPORT, lines[place - 1]))
        return [added, Change(call.lineno, call.lineno, old, (new,))] if new != old else []
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or node.module not in (
            "torch.utils.data",
            "torch.utils.data.dataloader",
        ):
            continue
        for alias in node.names:
            if alias.name == "DataLoader" and (alias.asname or alias.name) == call.id:
                return [_without(node, alias, lines)]
    return []


def _called(tree: ast.Module, line: int) -> ast.Attribute | ast.Name | None:
    """Return the name `DataLoader`, under whatever name it is known, of the innermost call on a line."""
    found = None
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.lineno <= line <= (node.end_lineno or node.lineno):
            if isinstance(node.func, ast.Attribute) and node.func.attr == "DataLoader":
                found = node.func
            elif isinstance(node.func, ast.Name) and _is_imported(tree, node.func.id):
                return node.func
    return found


def _is_imported(tree: ast.Module, name: str) -> bool:
    return any(
        alias.name == "DataLoader" and (alias.asname or alias.name) == name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    )


def _first_import(tree: ast.Module) -> int:
    return next(
        (
            node.lineno
            for node in tree.body
            if isinstance(node, ast.Import | ast.ImportFrom) and getattr(node, "module", "") != "__future__"
        ),
        1,
    )


def _without(node: ast.ImportFrom, name: ast.alias, lines: list[str]) -> Change:
    """Return the change of an import that brings a name from spdl, and the others from where they came."""
    others = ast.ImportFrom(node.module, [alias for alias in node.names if alias is not name], node.level)
    indent = " " * node.col_offset
    new = f"{_NEW_IMPORT} as {name.asname or name.name}"
    statements = [ast.unparse(others)] if others.names else []
    end = node.end_lineno or node.lineno
    old = " ".join(part.strip() for part in lines[node.lineno - 1 : end])
    return Change(node.lineno, end, old, tuple(indent + statement for statement in [*statements, new]))
