"""The syntax tree of a function, if it is certain that the function was compiled from it."""

from __future__ import annotations

import ast
import linecache
from functools import lru_cache
from types import CodeType
from typing import TYPE_CHECKING

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FunctionType

__all__ = ["FunctionNode", "find_node"]

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def find_node(function: FunctionType) -> FunctionNode | None:
    """Return the definition of a function, or None if there is none, or its file has changed since it was imported."""
    code = function.__code__
    lines = tuple(linecache.getlines(code.co_filename, function.__globals__))
    if not lines:
        return None
    for node, compiled in _definitions(lines, code.co_filename).get((code.co_firstlineno, code.co_name), ()):
        # Equal codes have the same instructions, constants, names and positions.
        if compiled == code:
            return node
    return None


@lru_cache(maxsize=64)
def _definitions(lines: tuple[str, ...], name: str) -> dict[tuple[int, str], list[tuple[FunctionNode, CodeType]]]:
    """Return the functions that a file defines, with their codes, by their first lines and names."""
    source = "".join(lines)
    try:
        tree = ast.parse(source)
        whole = compile(tree, name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return {}
    codes: dict[tuple[int, str], list[CodeType]] = {}
    for code in _codes(whole):
        codes.setdefault((code.co_firstlineno, code.co_name), []).append(code)
    found: dict[tuple[int, str], list[tuple[FunctionNode, CodeType]]] = {}
    for node in ast.walk(tree):
        if isinstance(node, FunctionNode):
            key = _key(node)
            matching = codes.get(key, [])
            # Lambdas of one line are told apart by their columns.
            inside = [code for code in matching if len(matching) == 1 or _is_of(code, node)]
            found.setdefault(key, []).extend((node, code) for code in inside)
    return found


def _key(node: FunctionNode) -> tuple[int, str]:
    if isinstance(node, ast.Lambda):
        return node.lineno, "<lambda>"
    first = node.decorator_list[0].lineno if node.decorator_list else node.lineno
    return first, node.name


def _codes(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes(constant)


def _is_of(code: CodeType, node: FunctionNode) -> bool:
    body = [node.body] if isinstance(node, ast.Lambda) else node.body
    begin, end = (body[0].lineno, body[0].col_offset), (body[-1].end_lineno or 0, body[-1].end_col_offset or 0)
    places = [place for place in code.co_positions() if None not in place and place[2:] != (0, 0)]
    first = min((place[0], place[2]) for place in places)
    last = max((place[1], place[3]) for place in places)
    return begin == first and last == end
