"""Describe the public API: one line for each public name, method and field, with its signature."""

from __future__ import annotations

import importlib
import inspect
import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import spdl

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["NEEDS_TORCH", "describe_public_api"]

# What is missing where PyTorch is not installed.
NEEDS_TORCH = ("spdl.dataloader.PyTorchDataLoader", "spdl.dataloader.get_pytorch_dataloader")

_ROOT = Path(spdl.__file__).parent

# Users do not create objects of these classes, as their constructors are private.
_MADE_ELSEWHERE = ("NpzFile", "Pipeline", "PipelineIterator")

# A default value may be an object without its own repr.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def _modules() -> list[str]:
    paths = [path.relative_to(_ROOT.parent).with_suffix("") for path in _ROOT.rglob("*.py")]
    public = [path for path in paths if not any(part.startswith("_") and part != "__init__" for part in path.parts)]
    return sorted(".".join(path.parts).removesuffix(".__init__") for path in public)


def describe_public_api() -> list[str]:
    """Return the lines, sorted by module and name."""
    lines: list[str] = []
    for module in _modules():
        namespace = importlib.import_module(module)
        for name in sorted(getattr(namespace, "__all__", ())):
            if f"{module}.{name}" in NEEDS_TORCH and find_spec("torch") is None:
                continue
            lines += _describe(f"{module}.{name}", getattr(namespace, name))
    return lines


def _describe(path: str, value: Any) -> Iterator[str]:
    if not inspect.isclass(value):
        yield f"{path}{_signature(value)}" if callable(value) else f"{path}: {type(value).__name__}"
        return
    constructor = "" if value.__name__ in _MADE_ELSEWHERE else _signature(value)
    bases = ", ".join(base.__name__ for base in value.__mro__[1:-1] if not base.__module__.startswith("spdl."))
    yield f"{path}{constructor} [{bases}]"
    ours = [base for base in reversed(value.__mro__) if base.__module__.startswith("spdl.")]
    members = {name: member for base in ours for name, member in vars(base).items()}
    for name, member in sorted(members.items()):
        special = name in ("__call__", "__enter__", "__exit__", "__getitem__", "__iter__", "__len__", "__next__")
        if name.startswith("_") and not special:
            continue
        function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if inspect.isroutine(function):
            yield f"{path}.{name}{_signature(function)}"
        else:
            yield f"{path}.{name}: {'property' if inspect.isdatadescriptor(member) else type(member).__name__}"


def _signature(value: Any) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        # A native function gives its signature in the first line of its docstring.
        first = (getattr(value, "__doc__", None) or "").partition("\n")[0]
        return first.partition(" -> ")[0].partition("(")[2].join("()") if "(" in first else "(...)"
    parameters = [each.replace(annotation=each.empty) for each in signature.parameters.values()]
    shown = _ADDRESS.sub("", str(signature.replace(parameters=parameters, return_annotation=signature.empty)))
    # Which classes show that depends on the Python.
    return "(...)" if not inspect.isroutine(value) and shown == "(*args, **kwargs)" else shown
