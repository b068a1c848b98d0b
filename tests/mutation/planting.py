"""Where a bug goes: found by the name of a function, so that moving code between files moves no bug."""

from __future__ import annotations

import ast
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.mutation.mutants import Mutant

__all__ = ["Planted", "StaleMutantError", "find_tests", "plant"]


class StaleMutantError(Exception):
    """A bug no longer fits the sources; the message says why."""


class Planted(NamedTuple):
    """A file with a bug.

    Attributes:
        path: The file.
        source: What it holds with the bug.
    """

    path: Path
    source: str


def plant(mutant: Mutant, package: Path) -> Planted:
    """Return the file of a package that a bug changes, and what it holds with the bug.

    Raises:
        StaleMutantError: If the function is gone, does not hold the text exactly once, or would be no Python.
    """
    places = _functions(package).get(mutant.function, [])
    counts = [place.source.count(mutant.find) for place in places]
    if sum(counts) != 1:
        text = f"{mutant.function} has this text {sum(counts)} times instead of once:\n{mutant.find}"
        raise StaleMutantError(text if places else f"there is no function {mutant.function}")
    if mutant.find == mutant.replace:
        raise StaleMutantError("it changes nothing")
    place = places[counts.index(1)]
    source = place.before + place.source.replace(mutant.find, mutant.replace) + place.after
    try:
        compile(source, str(place.path), "exec")
    except SyntaxError as error:
        raise StaleMutantError(f"with its change {place.path.name} is not valid Python: {error}") from error
    return Planted(place.path, source)


def find_tests(name: str, folder: Path) -> list[str]:
    """Return the tests of this name, as pytest wants them: ``test_it``, ``TestIt::test_it`` or ``test_file.py``."""
    if name.endswith(".py"):
        return sorted(str(path) for path in folder.rglob(name))
    parts = name.partition("[")[0].split("::")
    return sorted(
        f"{path}::{name}"
        for path, source in _sources(folder)
        # One that is a method elsewhere is not found there without its class.
        if path.name.startswith("test_")
        and (f"\nclass {parts[0]}" in source or f"\ndef {parts[0]}(" in source)
        and all(f"class {it}" in source or f"def {it}(" in source for it in parts)
    )


class _Place(NamedTuple):
    path: Path
    before: str
    source: str
    after: str


@cache
def _sources(folder: Path) -> list[tuple[Path, str]]:
    return [(path, path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.py"))]


@cache
def _functions(package: Path) -> dict[str, list[_Place]]:
    found: dict[str, list[_Place]] = {}
    for path, source in _sources(package):
        lines = source.splitlines(keepends=True)
        for name, node in _walk(ast.parse(source), ""):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)]) - 1
            parts = [
                "".join(part) for part in (lines[:first], lines[first : node.end_lineno], lines[node.end_lineno :])
            ]
            found.setdefault(name, []).append(_Place(path, *parts))
    return found


def _walk(tree: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from _walk(node, f"{prefix}{node.name}.")
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield prefix + node.name, node
            yield from _walk(node, f"{prefix}{node.name}.")
        else:
            yield from _walk(node, prefix)
