"""The syntax tree of a function, its names, and the arguments of a call of it."""

from __future__ import annotations

import ast
import builtins
import contextlib
import linecache
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from types import CodeType, FunctionType
from typing import Any

from spdl.dataloader._thread_safety.values import ABSENT, PLAIN, UNASSIGNED, Args, Objects, Unproven, Value

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def find_node(function: FunctionType) -> FunctionNode | None:
    """Return the definition of a function; None if it is not found, or its file has changed since it was imported."""
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
            # The columns distinguish lambdas of one line.
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


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Scope:
    """The variables of a call: `names`, those of its code, and those around it if it has defined the function."""

    def __init__(  # noqa: PLR0917 - what a scope is made of.
        self,
        function: FunctionType,
        path: str,
        objects: Objects,
        body: Iterable[ast.AST],
        names: Iterable[str],
        around: Scope | None = None,
    ) -> None:
        self.function = function
        self.path = path
        self.around = around
        self._objects = objects
        self.values: dict[str, Value] = dict.fromkeys((*names, *_stored(body)), UNASSIGNED)

    def load(self, name: str) -> Value:
        scope = self._find(name)
        if scope is not None:
            return scope.values[name]
        code, cells = self.function.__code__, self.function.__closure__ or ()
        for index, (free, cell) in enumerate(zip(code.co_freevars, cells, strict=True)):
            if free == name:
                with contextlib.suppress(ValueError):
                    return self._objects.value_of([cell.cell_contents], f"{self.path}.__closure__[{index}]")
                return UNASSIGNED
        names = self.function.__globals__
        if name in names:
            return self._objects.value_of([names[name]], f"{names.get('__name__', '__main__')}.{name}")
        return self._objects.value_of([_builtin(names, name)], name)

    def owner(self, name: str) -> Scope:
        """Return the scope that a name is stored in. One that outlives the call is refused by its declaration."""
        scope = self._find(name)
        assert scope is not None
        return scope

    def _find(self, name: str) -> Scope | None:
        scope: Scope | None = self
        while scope is not None and name not in scope.values:
            scope = scope.around
        return scope


def _stored(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.ExceptHandler(name=str(name)):
                yield name
            case ast.FunctionDef(name=name):
                yield name
            case ast.alias(name=name, asname=other):
                yield other or name.partition(".")[0]
        if isinstance(node, _SCOPES):
            continue
        inner: Iterable[ast.AST] = ast.iter_child_nodes(node)
        if isinstance(node, _COMPREHENSIONS):
            # Its targets are its own variables; targets of `:=` are not.
            inner = [it for it in ast.walk(node) if isinstance(it, ast.NamedExpr)]
        yield from _stored(inner)


def _builtin(names: dict[str, Any], name: str) -> Any:
    there = names.get("__builtins__", builtins)
    known = there if isinstance(there, dict) else vars(there)
    if name not in known:
        raise Unproven(f"`{name}` is not defined yet")
    return known[name]


def bind(
    made: Callable[[ast.AST, Value, type], Value],
    node: FunctionNode,
    args: Args,
    defaults: list[Value],
    keyword_defaults: dict[str, Value],
) -> dict[str, Value]:
    spec = node.args
    places = [it.arg for it in (*spec.posonlyargs, *spec.args)]
    names: dict[str, Value] = dict.fromkeys([*places, *(it.arg for it in spec.kwonlyargs)], UNASSIGNED)
    others = args.others
    if others is not None:
        names = dict.fromkeys(names, others)
    for name, value in zip(places[len(places) - len(defaults) :], defaults, strict=True):
        names[name] |= value
    for name, value in keyword_defaults.items():
        names[name] |= value
    given = {name: value for name, value in args.keywords if name not in {it.arg for it in spec.posonlyargs}}
    for name, value in (*zip(places, args.positional, strict=False), *given.items()):
        if name in names:
            names[name] = value
    if spec.vararg:
        rest = PLAIN.union(*args.positional[len(places) :], others or ABSENT)
        names[spec.vararg.arg] = made(spec.vararg, rest, tuple)
    if spec.kwarg:
        rest = PLAIN.union(
            *(value for name, value in args.keywords if name not in names or name not in given), others or ABSENT
        )
        names[spec.kwarg.arg] = made(spec.kwarg, rest, dict)
    return names
