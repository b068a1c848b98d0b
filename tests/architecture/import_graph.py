"""Which module of the package imports which, read from the sources without importing anything."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import NamedTuple

import spdl

__all__ = ["ROOT", "Import", "find_circles", "imports", "modules"]

ROOT = Path(spdl.__file__).parent


class Import(NamedTuple):
    """One module imports another.

    Attributes:
        importer: The importing module, as ``spdl.pipeline._engine.engine``.
        imported: The imported one.
        line: Where.
        typing_only: Whether it is imported for type checkers alone.
    """

    importer: str
    imported: str
    line: int
    typing_only: bool


def modules() -> dict[str, Path]:
    """Return the modules of the package and their files; a package stands for its ``__init__``."""
    found = {}
    # The native module is known by its stub.
    for path in sorted([*ROOT.rglob("*.py"), *ROOT.rglob("*.pyi")]):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


def imports() -> list[Import]:
    """Return all imports of modules of the package by others, those inside functions included."""
    known = modules()
    found = []
    for importer, path in known.items():
        package = importer if path.stem == "__init__" else importer.rpartition(".")[0]
        tree = ast.parse(path.read_text(encoding="utf-8"))
        typing_only = {
            id(node)
            for block in ast.walk(tree)
            if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
            for statement in block.body
            for node in ast.walk(statement)
        }
        for node in ast.walk(tree):
            for name in _imported_names(node, package):
                # `from package import module` names a module, `from module import name` does not.
                target = name if name in known else name.rpartition(".")[0]
                if target in known and target != importer:
                    found.append(Import(importer, target, node.lineno, id(node) in typing_only))  # type: ignore[attr-defined]
    return found


def _imported_names(node: ast.AST, package: str) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not isinstance(node, ast.ImportFrom):
        return []
    base = node.module or ""
    if node.level:
        above = package.split(".")[: len(package.split(".")) - node.level + 1]
        base = ".".join([*above, base] if base else above)
    return [f"{base}.{alias.name}" for alias in node.names]


def find_circles(edges: list[Import]) -> list[list[str]]:
    """Return the groups of modules that import each other, directly or by way of others."""
    following: dict[str, set[str]] = {}
    for edge in edges:
        following.setdefault(edge.importer, set()).add(edge.imported)
    reached = {module: _reachable(module, following) for module in following}
    circles = {
        tuple(sorted(other for other in reached[module] if module in reached.get(other, ())))
        for module in following
        if module in reached[module]
    }
    return [list(circle) for circle in sorted(circles)]


def _reachable(module: str, following: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    pending = [module]
    while pending:
        new = following.get(pending.pop(), set()) - found
        found |= new
        pending += new
    return found
