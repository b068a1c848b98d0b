"""Reads the code of a function as far as it says what is changed, and what calls whom."""

from __future__ import annotations
import __future__

import ast
import contextlib
import sys
from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from spdl.dataloader._thread_safety.functions import FunctionNode, Scope
from spdl.dataloader._thread_safety.library_calls import escape
from spdl.dataloader._thread_safety.values import (
    ABSENT,
    PLAIN,
    RAISED,
    UNASSIGNED,
    Args,
    Held,
    Made,
    Super,
    Unproven,
    Value,
)

if TYPE_CHECKING:
    from spdl.dataloader._thread_safety.search import CodeSearch


class CodeReading:
    """Reads the code of one function. A method is named after the kind of node that it reads.

    The order of statements is not looked at: a variable may be anything that is ever stored in it. So the body is read
    again until nothing new is found. The caller is the first argument and the class of the method that the code belongs
    to, for ``super()``.
    """

    def __init__(self, search: CodeSearch, scope: Scope, caller: tuple[Value, type | None]) -> None:
        self._search = search
        self._scope = scope
        self._caller = caller
        self._file = scope.function.__code__.co_filename
        self.returned: Value = UNASSIGNED
        self.yielded: Value = UNASSIGNED

    def read(self, node: FunctionNode) -> None:
        body = [ast.Return(node.body)] if isinstance(node, ast.Lambda) else node.body
        while True:
            before = self._search.version, self.returned, self.yielded
            for statement in body:
                self.visit(statement)
            if before == (self._search.version, self.returned, self.yielded):
                return

    def visit(self, node: ast.AST) -> Value:
        """Read a statement, or an expression, and return the value of the latter. `Unproven` says where it is."""
        self._search.count()
        try:
            found: Value | None = getattr(self, f"_read_{type(node).__name__.lower()}", self._refuse)(node)
        except Unproven as error:
            if isinstance(node, (ast.expr, ast.stmt)) and hasattr(node, "lineno"):
                code = ast.unparse(node).partition("\n")[0]
                code = code if len(code) <= 80 else f"{code[:77]}..."  # noqa: PLR2004 - a line of a message.
                error.lies_at(f"{self._file}:{node.lineno}: `{code}`")
            raise
        return found or PLAIN

    def _refuse(self, node: ast.AST) -> Value:
        raise Unproven(f"code with {type(node).__name__} is not looked at")

    def _all(self, nodes: Iterable[ast.AST | None]) -> Value:
        return PLAIN.union(*(self.visit(it) for it in nodes if it is not None))

    def _read_expr(self, node: ast.Expr | ast.FormattedValue) -> Value:
        return self._all(ast.iter_child_nodes(node))

    _read_formattedvalue = _read_expr

    def _made(self, node: ast.AST, contents: Value, kind: type | None = None) -> Value:
        return self._search.made(node, contents, kind)

    # Statements.

    def _read_pass(self, _node: Any) -> None:
        pass

    _read_break = _read_continue = _read_constant = _read_pass

    def _read_global(self, node: ast.Global | ast.Nonlocal) -> None:
        raise Unproven(f"`{node.names[0]}`, which calls may share, is set while an item is loaded")

    _read_nonlocal = _read_global

    def _read_return(self, node: ast.Return) -> None:
        if node.value is not None:
            self.returned |= self.visit(node.value)

    def _read_assign(self, node: ast.Assign) -> None:
        value = self.visit(node.value)
        for target in node.targets:
            self._store(target, value)

    def _read_annassign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self._store(node.target, self.visit(node.value))

    def _read_augassign(self, node: ast.AugAssign) -> None:
        target = node.target
        value = self.visit(node.value)
        before = self._scope.load(target.id) if isinstance(target, ast.Name) else self.visit(target)
        for it in before:
            if not (isinstance(it, Held) and it.kind in {tuple, frozenset}):
                self._search.change(it, value, node)
        result = self._search.operation(node, before | value) | frozenset(it for it in before if isinstance(it, Made))
        self._store(target, result)

    def _read_namedexpr(self, node: ast.NamedExpr) -> Value:
        value = self.visit(node.value)
        self._store(node.target, value)
        return value

    def _read_delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            if isinstance(target, ast.Subscript):
                escape(self._search, self.visit(target.slice), target)
            if isinstance(target, (ast.Attribute, ast.Subscript)):
                self._change_all(self.visit(target.value), ABSENT, target)
            elif not isinstance(target, ast.Name):
                self._refuse(target)

    def _store(self, target: ast.AST, value: Value) -> None:
        self._search.count()
        match target:
            case ast.Name(id=name):
                self._keep(name, value)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                if any(isinstance(part, ast.Starred) for part in parts):
                    elements = [self._search.iterate(value, target)] * len(parts)
                else:
                    elements = self._search.unpack(value, len(parts), target)
                for part, element in zip(parts, elements, strict=True):
                    if isinstance(part, ast.Starred):
                        self._store(part.value, self._made(part, element, list))
                    else:
                        self._store(part, element)
            case ast.Attribute(value=owner):
                self._change_all(self.visit(owner), value, target)
            case ast.Subscript(value=owner, slice=index):
                place = self.visit(index)
                escape(self._search, place, target)
                self._change_all(self.visit(owner), value | place, target)
            case _:
                self._refuse(target)

    def _change_all(self, owners: Value, value: Value, target: ast.AST) -> None:
        for owner in owners:
            try:
                self._search.change(owner, value, of=target)
            except Unproven as error:
                code = ast.unparse(target)
                error.lies_at(f"{self._file}:{getattr(target, 'lineno', 0)}: `{code}`")
                raise

    def _keep(self, name: str, value: Value) -> None:
        values = self._scope.owner(name).values
        if not value <= values[name]:
            values[name] |= value
            self._search.note()

    def _read_if(self, node: ast.If | ast.While) -> None:
        self._test(node.test)
        self._all([*node.body, *node.orelse])

    _read_while = _read_if

    def _test(self, *nodes: ast.expr) -> Value:
        value = self._all(nodes)
        self._search.truth(value, nodes[0])
        return value

    def _read_for(self, node: ast.For) -> None:
        self._store(node.target, self._search.iterate(self.visit(node.iter), node))
        self._all([*node.body, *node.orelse])

    def _read_with(self, node: ast.With) -> None:
        for item in node.items:
            entered = self._search.enter(self.visit(item.context_expr))
            if item.optional_vars is not None:
                self._store(item.optional_vars, entered)
        self._all(node.body)

    def _read_try(self, node: ast.Try) -> None:
        self._all(node.body)
        for handler in node.handlers:
            if handler.type is not None:
                self.visit(handler.type)
            if handler.name:
                self._keep(handler.name, self._search.made(RAISED))
            self._all(handler.body)
        self._all([*node.orelse, *node.finalbody])

    _read_trystar = _read_try

    def _read_raise(self, node: ast.Raise) -> None:
        # An error that is caught holds its arguments.
        self._search.made(RAISED, self._all([node.exc, node.cause]))

    def _read_assert(self, node: ast.Assert) -> None:
        self._test(node.test)
        self._all([node.msg])

    def _read_import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.name if alias.asname else alias.name.partition(".")[0]
            self._import(alias, name, name)

    def _read_importfrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            self._import(alias, node.module if not node.level else None, f"{node.module}.{alias.name}", alias.name)

    def _import(self, alias: ast.alias, module: str | None, name: str, attribute: str = "") -> None:
        found = sys.modules.get(module or "")
        if found is None and module and self._search.may_import(module):
            with contextlib.suppress(ImportError):
                found = import_module(module)
        if attribute and found is not None:
            found = getattr(found, attribute, None)
        if found is None:
            raise Unproven(f"`{name}` is imported while an item is loaded; import it at the top of the file")
        self._keep(alias.asname or alias.name.partition(".")[0], self._search.objects.value_of([found], name))

    def _read_functiondef(self, node: ast.FunctionDef) -> None:
        value = self._read_lambda(node)
        for decorator in reversed(node.decorator_list):
            value = self._search.call(self.visit(decorator), Args((value,)), decorator)
        self._keep(node.name, value)

    # Expressions.

    def _read_lambda(self, node: ast.FunctionDef | ast.Lambda) -> Value:
        if not self._scope.function.__code__.co_flags & __future__.annotations.compiler_flag:
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            self._all([*(it.annotation for it in arguments), getattr(node, "returns", None)])
        defaults = [
            self.visit(it) for it in [*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)]
        ]
        return frozenset([self._search.local(node, self._scope, defaults)])

    def _read_name(self, node: ast.Name) -> Value:
        return self._scope.load(node.id)

    def _read_attribute(self, node: ast.Attribute) -> Value:
        value = self.visit(node.value)
        if node.attr == "obj" and value & self._search.made(RAISED):
            # In an AttributeError it is the object that lacks the attribute.
            raise Unproven("the object of an error is not looked at")
        return self._search.attribute(value, self._mangled(node.attr), node)

    def _mangled(self, name: str) -> str:
        """Return the name of an attribute. Python adds the class's name if it begins with two underscores."""
        owner = self._scope.function.__qualname__.split(".")[-2:-1]
        if name.startswith("__") and not name.endswith("__") and owner not in ([], ["<locals>"]):
            return f"_{owner[0].lstrip('_')}{name}"
        return name

    def _read_subscript(self, node: ast.Subscript) -> Value:
        index = self.visit(node.slice)
        escape(self._search, index, node)
        return self._search.subscript(self.visit(node.value), index, node)

    def _read_slice(self, node: ast.Slice) -> Value:
        escape(self._search, self._all([node.lower, node.upper, node.step]), node)
        return PLAIN

    def _read_call(self, node: ast.Call) -> Value:
        function = node.func
        if isinstance(function, ast.Name) and function.id == "super" and not node.args:
            return self._super()
        positional, others, unnamed = [], None, False
        for argument in node.args:
            if isinstance(argument, ast.Starred):
                others = (others or ABSENT) | self._search.iterate(self.visit(argument.value), node)
            elif others is None:
                positional.append(self.visit(argument))
            else:
                # It could be anywhere.
                others |= self.visit(argument)
        keywords = []
        for keyword in node.keywords:
            value = self.visit(keyword.value)
            if keyword.arg is None:
                escape(self._search, value, node)
                others = (others or ABSENT) | self._search.iterate(value, node)
                unnamed = True
            else:
                keywords.append((keyword.arg, value))
        args = Args(tuple(positional), tuple(keywords), others, unnamed=unnamed)
        if isinstance(function, ast.Attribute):
            return self._search.call_method(self.visit(function.value), self._mangled(function.attr), args, node)
        return self._search.call(self.visit(function), args, node)

    def _super(self) -> Value:
        first, kind = self._caller
        if kind is None:
            raise Unproven("`super()` outside of a method is not looked at")
        return frozenset(Super(kind, it) for it in first)

    def _read_binop(self, node: ast.BinOp) -> Value:
        return self._search.operation(node, self.visit(node.left) | self.visit(node.right))

    def _read_unaryop(self, node: ast.UnaryOp) -> Value:
        value = self.visit(node.operand)
        # `+` of a tensor is the tensor.
        return self._search.operation(node, value) | (value if isinstance(node.op, ast.UAdd) else PLAIN)

    def _read_compare(self, node: ast.Compare) -> Value:
        return self._search.operation(node, self._all([node.left, *node.comparators]))

    def _read_boolop(self, node: ast.BoolOp) -> Value:
        return self._test(*node.values)

    def _read_ifexp(self, node: ast.IfExp) -> Value:
        self._test(node.test)
        return self.visit(node.body) | self.visit(node.orelse)

    def _read_tuple(self, node: ast.Tuple) -> Value:
        if any(isinstance(part, ast.Starred) for part in node.elts):
            return self._made(node, self._unpacked(node.elts), tuple)
        return self._search.tuple_of(node, [self.visit(part) for part in node.elts])

    def _read_list(self, node: ast.List) -> Value:
        return self._made(node, self._unpacked(node.elts), list)

    def _read_set(self, node: ast.Set) -> Value:
        contents = self._unpacked(node.elts)
        escape(self._search, contents, node)
        return self._made(node, contents, set)

    def _unpacked(self, parts: list[ast.expr]) -> Value:
        found = PLAIN
        for part in parts:
            if isinstance(part, ast.Starred):
                found |= self._search.iterate(self.visit(part.value), part)
            else:
                found |= self.visit(part)
        return found

    def _read_dict(self, node: ast.Dict) -> Value:
        contents = self._all(node.keys)
        escape(self._search, contents, node)
        for key, value in zip(node.keys, node.values, strict=True):
            found = self.visit(value)
            # Of another dict these are its values, and its keys.
            contents |= (
                found if key is not None else self._search.elements(found, node) | escape(self._search, found, node)
            )
        return self._made(node, contents, dict)

    def _read_joinedstr(self, node: ast.JoinedStr) -> Value:
        escape(self._search, self._all(node.values), node)
        return PLAIN

    def _read_yield(self, node: ast.Yield) -> Value:
        if node.value is not None:
            self.yielded |= self.visit(node.value)
        return PLAIN

    def _read_yieldfrom(self, node: ast.YieldFrom) -> Value:
        # The value that the inner generator returns is among its contents.
        found = self._search.iterate(self.visit(node.value), node)
        self.yielded |= found
        return found

    def _read_listcomp(self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> Value:
        kinds = {ast.ListComp: list, ast.SetComp: set}
        return self._comprehend(node, node.generators, [node.elt], kinds.get(type(node)))

    _read_setcomp = _read_generatorexp = _read_listcomp

    def _read_dictcomp(self, node: ast.DictComp) -> Value:
        return self._comprehend(node, node.generators, [node.key, node.value], dict)

    def _comprehend(
        self, node: ast.AST, generators: list[ast.comprehension], elements: list[ast.expr], kind: type | None
    ) -> Value:
        # The first iterable belongs to the scope around.
        iterable = self.visit(generators[0].iter)
        inner = self._search.scope_of(node, self._scope, [it.target for it in generators])
        outer, self._scope = self._scope, inner
        try:
            for generator in generators:
                if generator is not generators[0]:
                    iterable = self.visit(generator.iter)
                self._store(generator.target, self._search.iterate(iterable, generator))
                for condition in generator.ifs:
                    self._test(condition)
            contents = self._all(elements)
            if kind is not None and kind is not list:
                # Keys, and what is in sets.
                escape(self._search, contents, node)
            return self._made(node, contents, kind)
        finally:
            self._scope = outer
