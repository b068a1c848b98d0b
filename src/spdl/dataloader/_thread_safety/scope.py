"""The names that a function knows."""

from __future__ import annotations

import ast
import builtins
import contextlib
from typing import TYPE_CHECKING, Any

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

from .values import UNASSIGNED, Unproven, Value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import FunctionType

    from .objects import Objects

__all__ = ["Scope"]

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


class Scope:
    """The variables of a call, and those around it.

    Args:
        function: The function of Python that the code belongs to.
        path: What to call it.
        objects: Looks into what outlives the call.
        body: The code whose variables they are.
        names: Further variables: the arguments.
        around: The scope of the function around it, if the call has defined this one.
    """

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
        self.global_names = set[str]()
        self._nonlocals = set[str]()
        own = {*names, *self._stored(body)} - self.global_names - self._nonlocals
        self.values: dict[str, Value] = dict.fromkeys(own, UNASSIGNED)

    def _stored(self, nodes: Iterable[ast.AST]) -> Iterator[str]:
        for node in nodes:
            match node:
                case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.ExceptHandler(name=str(name)):
                    yield name
                case ast.FunctionDef(name=name):
                    yield name
                case ast.alias(name=name, asname=other):
                    yield other or name.partition(".")[0]
                case ast.Global(names=names):
                    self.global_names.update(names)
                case ast.Nonlocal(names=names):
                    self._nonlocals.update(names)
            if isinstance(node, _SCOPES):
                continue
            inner: Iterable[ast.AST] = ast.iter_child_nodes(node)
            if isinstance(node, _COMPREHENSIONS):
                # Its targets are variables of its own; those of `:=` are not.
                inner = [it for it in ast.walk(node) if isinstance(it, ast.NamedExpr)]
            yield from self._stored(inner)

    def load(self, name: str) -> Value:
        """Return what a name stands for."""
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
        """Return the scope that a name is stored in.

        Raises:
            Unproven: If it outlives the call.
        """
        scope = self._find(name)
        if scope is None:
            raise Unproven(f"`{name}`, which calls share, is set while an item is loaded")
        return scope

    def _find(self, name: str) -> Scope | None:
        scope: Scope | None = self
        while scope is not None and name not in scope.global_names:
            if name in scope.values:
                return scope
            scope = scope.around
        return None


def _builtin(names: dict[str, Any], name: str) -> Any:
    there = names.get("__builtins__", builtins)
    known = there if isinstance(there, dict) else vars(there)
    if name not in known:
        raise Unproven(f"`{name}` is not defined yet")
    return known[name]
