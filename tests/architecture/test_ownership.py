"""Nobody writes the fields of another object: a module assigns attributes of its own classes' objects alone."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from tests.architecture.import_graph import ROOT, modules

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# Code that is written out, with the reason beside it.
_INLINED = {
    # A call would let a signal handler in, after a batch was noted and before it is returned.
    ("spdl.dataloader._pytorch.loader_iterators", "__next__"),
    # Every item passes through it, and calls would cost small ops a third of their throughput.
    ("spdl.pipeline._stages.function", "start"),
}

# Attributes that Python or another library wants to be set from outside.
_FOREIGN = {
    "__cause__",
    "__context__",
    "__class__",
    "__code__",
    "__notes__",
    "__qualname__",
    "_log_destroy_pending",
    "_worker_info",
    "args",
    "atexit",
    "daemon",
    "dispatch_table",
    "filename",
    "header",
    "pool_classes_by_scheme",
    "maxother",
    "maxstring",
    "propagate",
    "title",
    "title_justify",
    "title_style",
}

# A stage's record, and that of the channel it takes from, are the stage's own.
_OWN_RECORDS = {"counters", "self.counters", "self.counters.queue"}
_RECORD_KEEPERS = tuple(f"spdl.pipeline.{it}." for it in ("_engine", "_stages", "_elsewhere"))


def _declared(tree: ast.Module) -> set[str]:
    """Return the attributes that the classes of a module declare."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            for inner in ast.walk(node):
                if isinstance(inner, ast.Attribute) and ast.unparse(inner.value) in ("self", "cls", node.name):
                    found.add(inner.attr)
                elif isinstance(inner, ast.AnnAssign) and isinstance(inner.target, ast.Name):
                    found.add(inner.target.id)
    return found


def _assigned(node: ast.AST, function: str = "") -> Iterator[tuple[str, ast.Attribute]]:
    """Yield what is assigned, with the function that does it."""
    for child in ast.iter_child_nodes(node):
        inside = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
        if isinstance(child, ast.Attribute) and not isinstance(child.ctx, ast.Load):
            yield inside, child
        yield from _assigned(child, inside)


def find_trespasses(module: str, source: str) -> list[str]:
    """Return the assignments of a module to attributes that its classes do not declare."""
    tree = ast.parse(source)
    declared = _declared(tree)
    found = []
    for function, target in _assigned(tree):
        owner = ast.unparse(target.value)
        if owner in ("self", "cls") or target.attr in _FOREIGN or (module, function) in _INLINED:
            continue
        if owner in _OWN_RECORDS and module.startswith(_RECORD_KEEPERS):
            continue
        # An object of a class of this module.
        if target.attr in declared and "." not in owner and owner not in ("engine", "node", "source"):
            continue
        found.append(f"{module}:{target.lineno}: {ast.unparse(target)}")
    return found


def test_nobody_writes_the_fields_of_another_object() -> None:
    found = [
        each
        for module, path in modules().items()
        if path.suffix == ".py"
        for each in find_trespasses(module, path.read_text(encoding="utf-8"))
    ]
    assert not found, "\n".join(found)


def test_a_trespass_is_found() -> None:
    source = """
class Mine:
    def __init__(self):
        self.own = 0

    def act(self, other, engine):
        self.own = 1
        other.own = 2
        engine.own = 3
        other.theirs = 4
        self.part.theirs += 5
"""
    assert find_trespasses("spdl.somewhere", source) == [
        "spdl.somewhere:9: engine.own",
        "spdl.somewhere:10: other.theirs",
        "spdl.somewhere:11: self.part.theirs",
    ]


def test_what_is_excepted_is_there() -> None:
    paths: dict[str, Path] = modules()
    for module, function in _INLINED:
        assert f"def {function}(" in paths[module].read_text(encoding="utf-8")
    assert ROOT.is_dir()
