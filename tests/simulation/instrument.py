"""Imports the engine in the simulated world: with its clocks and threads, and with a step before each statement."""

from __future__ import annotations

import ast
import atexit
import importlib
import importlib.util
import os
import pkgutil
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.simulation.scheduler import step, step_with
from tests.simulation.sites import add_site, delicate_names

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import CodeType, ModuleType

__all__ = ["AFTER_FORK", "AT_EXIT", "Patch", "import_all", "install"]

# What runs with a step before each statement. The rest declares, plans and words messages, in one thread.
_STEPPED = (
    "spdl.pipeline._engine.",
    "spdl.pipeline._state.",
    "spdl.pipeline._stages.aggregate",
    "spdl.pipeline._stages.executors",
    "spdl.pipeline._stages.function",
    "spdl.pipeline._stages.held_back",
    "spdl.pipeline._stages.hooked",
    "spdl.pipeline._stages.measuring",
    "spdl.pipeline._stages.op_node",
    "spdl.pipeline._stages.process_work",
    "spdl.pipeline._stages.queues",
    "spdl.pipeline._stages.routes",
    "spdl.pipeline._report.counters",
    "spdl.pipeline._report.failures",
    "spdl.pipeline._pipeline",
    "spdl.pipeline._iterators",
)
# Where a Ctrl-C may come: Python looks for one also between a call and the name that its result gets.
_INTERRUPTED = ("spdl.pipeline._pipeline", "spdl.pipeline._iterators")
_WORLD = "spdl.pipeline._world"
_STEP, _TAKEN = "__step__", "__taken__"


class Patch(NamedTuple):
    """A change of the source: what this file of ``src/spdl/pipeline`` holds instead."""

    file: str
    source: str


def install(patch: Patch | None = None) -> None:
    """Have the pipeline's modules imported in the simulated world from now on.

    Args:
        patch: A change to make to them, such as a planted bug.

    Raises:
        RuntimeError: If they were imported before.
    """
    if "spdl.pipeline" in sys.modules:
        raise RuntimeError("spdl.pipeline was imported already: a process has one world.")
    from tests.simulation import world  # noqa: PLC0415 - it has no place in processes that only import this.

    _collect_endings()
    sys.modules[_WORLD] = world
    sys.meta_path.insert(0, _Finder(patch))


# What the engine has called at the interpreter's exit, and in forked children.
AT_EXIT: list[Callable[[], object]] = []
AFTER_FORK: list[Callable[[], object]] = []


def _collect_endings() -> None:
    """Collect what the engine registers, for exits and forks that are simulated."""
    register, register_at_fork = atexit.register, os.register_at_fork

    def note_exit(function: Callable[..., Any], *args: Any, **options: Any) -> Callable[..., Any]:
        if _is_ours(function):
            AT_EXIT.append(function)
            return function
        return register(function, *args, **options)

    def note_fork(**functions: Callable[[], object]) -> None:
        after = functions.get("after_in_child")
        if after is not None and _is_ours(after):
            AFTER_FORK.append(after)
        else:
            register_at_fork(**functions)

    atexit.register, os.register_at_fork = note_exit, note_fork  # type: ignore[assignment]


def _is_ours(function: object) -> bool:
    return str(getattr(function, "__module__", "")).startswith("spdl.pipeline._engine.")


def import_all() -> None:
    """Import all that is otherwise imported at its first use: the first run would take other steps than later ones."""
    import spdl.pipeline  # noqa: PLC0415 - the world must be installed before.

    for module in pkgutil.walk_packages(spdl.pipeline.__path__, "spdl.pipeline."):
        if module.name.startswith(_STEPPED):
            importlib.import_module(module.name)


class _Finder(MetaPathFinder):
    def __init__(self, patch: Patch | None) -> None:
        self._patch = patch

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith("spdl.pipeline.") or name == _WORLD:
            return None
        for finder in sys.meta_path:
            # An editable installation has a finder of its own.
            if finder is not self and (spec := finder.find_spec(name, path, target)) is not None:
                assert spec.origin is not None
                if spec.origin.endswith("__init__.py"):
                    return spec
                patch = self._patch
                if patch is not None and not spec.origin.endswith(f"spdl/pipeline/{patch.file}"):
                    patch = None
                if patch is None and not name.startswith(_STEPPED):
                    return spec
                loader = _Stepped(name, spec.origin, patch)
                return importlib.util.spec_from_file_location(name, spec.origin, loader=loader)
        return None


class _Stepped(SourceFileLoader):
    """Loads a module from its source, never from a cache, with its steps."""

    def __init__(self, name: str, path: str, patch: Patch | None) -> None:
        super().__init__(name, path)
        self._patch = patch

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        tree = ast.parse(Path(path).read_text(encoding="utf-8") if self._patch is None else self._patch.source)
        if fullname.startswith(_STEPPED):
            tree = _Steps(fullname).visit(tree)
        return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True)

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__.update({_STEP: step, _TAKEN: step_with})
        super().exec_module(module)


class _Steps(ast.NodeTransformer):
    """Puts a step before each statement of a function, and inside of what is read, changed and written back."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._depth = 0

    def _visit_function(self, node: Any) -> Any:
        self._depth += 1
        self.generic_visit(node)
        self._depth -= 1
        return node

    visit_FunctionDef = visit_AsyncFunctionDef = visit_Lambda = _visit_function  # noqa: N815 - the names of `ast`.

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        depth, self._depth = self._depth, 0
        self.generic_visit(node)
        self._depth = depth
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.BoolOp:
        self.generic_visit(node)
        if self._depth:
            # `a and b` becomes `a and (step() or b)`: others may run between the two looks.
            node.values[1:] = [ast.BoolOp(ast.Or(), [_call(), value]) for value in node.values[1:]]
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        self.generic_visit(node)
        if self._depth and self._module.startswith(_INTERRUPTED) and isinstance(node.value, ast.Call):
            site = ast.Constant(add_site(self._module, node.lineno, frozenset({"a result that is not kept yet"})))
            node.value = ast.Call(ast.Name(_TAKEN, ast.Load()), [node.value, site], [])
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if self._depth:
            for field in ("body", "orelse", "finalbody"):
                block = getattr(node, field, None)
                if isinstance(block, list):
                    setattr(node, field, self._with_steps(block, after=delicate_names(node)))
        return node

    def _with_steps(self, block: list[ast.stmt], *, after: frozenset[str]) -> list[ast.stmt]:
        """Return the statements with their steps. ``after`` is what is named right before them."""
        stepped: list[ast.stmt] = []
        for index, statement in enumerate(block):
            docstring = (
                index == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
            ) or isinstance(statement, ast.Global | ast.Nonlocal)
            names = delicate_names(statement)
            if not docstring:
                site = add_site(self._module, statement.lineno, names | after)
                stepped.append(ast.copy_location(ast.Expr(_call(site)), statement))
            after = names
            if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Attribute):
                stepped += _in_three_steps(statement, statement.target)
            else:
                stepped.append(statement)
        return stepped


def _in_three_steps(statement: ast.AugAssign, target: ast.Attribute) -> list[ast.stmt]:
    name = "__read__"
    parts: list[ast.stmt] = [
        ast.Assign([ast.Name(name, ast.Store())], ast.Attribute(target.value, target.attr, ast.Load())),
        ast.Expr(_call()),
        ast.AugAssign(ast.Name(name, ast.Store()), statement.op, statement.value),
        ast.Assign([ast.Attribute(target.value, target.attr, ast.Store())], ast.Name(name, ast.Load())),
    ]
    return [ast.copy_location(part, statement) for part in parts]


def _call(site: int = 0) -> ast.Call:
    return ast.Call(ast.Name(_STEP, ast.Load()), [ast.Constant(site)] if site else [], [])
