"""The part of the search that its modules call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

from .values import PLAIN

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterable

    from .objects import Objects
    from .scope import Scope
    from .values import Args, Local, Made, Thing, Value

__all__ = ["AnySearch"]


class AnySearch(Protocol):
    """Follows code. Most of its methods take the piece of code that asks, and raise `Unproven`.

    Attributes:
        objects: Looks into what outlives the call.
        version: Counts what was found.
    """

    objects: Objects
    version: int

    def count(self) -> None:
        """Count a step. There is a limit."""

    def note(self) -> None:
        """Note that something new was found."""

    def is_listed(self, module: str | None) -> bool:
        """Return whether the code of a module is not read, since tables say what is known of it."""

    def may_import(self, module: str) -> bool:
        """Return whether a module may be imported, since the code will, and that does no harm."""

    def made(
        self, node: ast.AST, contents: Value = PLAIN, kind: type | None = None, parts: list[Value] | None = None
    ) -> Value:
        """Return what a piece of code makes each time."""

    def tuple_of(self, node: ast.AST, parts: list[Value]) -> Value:
        """Return a tuple."""

    def fill(self, thing: Made, contents: Value) -> None:
        """Note what an object may hold as well."""

    def change(self, thing: Thing, value: Value, of: ast.AST | None = None) -> None:
        """Note that something is changed, and may hold a value as well from then on."""

    def operation(self, node: ast.AST, value: Value) -> Value:
        """Return what an operator makes of its operands."""

    def local(self, node: ast.FunctionDef | ast.Lambda, scope: Scope, defaults: list[Value]) -> Local:
        """Return the function that a piece of code defines."""

    def scope_of(self, node: ast.AST, around: Scope, targets: Iterable[ast.AST]) -> Scope:
        """Return the scope of a comprehension."""

    def call(self, value: Value, args: Args, node: ast.AST) -> Value:
        """Return what a call returns, whichever of its things a value is."""

    def call_method(self, value: Value, name: str, args: Args, node: ast.AST) -> Value:
        """Return what a method of what a value may be returns."""

    def attribute(self, value: Value, name: str, node: ast.AST) -> Value:
        """Return an attribute of what a value may be."""

    def subscript(self, value: Value, index: Value, node: ast.Subscript) -> Value:
        """Return an element, or a part, of what a value may be."""

    def iterate(self, value: Value, node: ast.AST) -> Value:
        """Return what iterating over a value may yield."""

    def elements(self, value: Value, node: ast.AST) -> Value:
        """Return what iterating over those yields that are containers."""

    def unpack(self, value: Value, count: int, node: ast.AST) -> list[Value]:
        """Return what is at each place of a value that is unpacked."""

    def enter(self, value: Value, node: ast.AST) -> Value:
        """Return what a context manager gives."""

    def truth(self, value: Value, node: ast.AST) -> None:
        """Follow what the code does that says whether a value is true."""
