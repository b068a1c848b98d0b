"""Objects of libraries that threads may share."""

from __future__ import annotations

import functools
import operator
import types
from typing import TYPE_CHECKING, Any

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

from .known_methods import words
from .objects import full_name
from .values import Args, Held, Thing, Unproven, Value

if TYPE_CHECKING:
    import ast

    from .any_search import AnySearch

__all__ = ["ITEM_METHODS", "call_known_object", "is_known_object", "is_library_dataset", "item_of_library_dataset"]

# By these, datasets of libraries give items.
ITEM_METHODS = frozenset({"__getitem__", "__getitems__"})

# They make each item of a table or a file that nobody changes.
_DATASETS = {"datasets.arrow_dataset.Dataset", "spdl.source._records.records.Records"}

# Transforms that draw no random numbers and keep nothing, in torchvision.transforms and torchvision.transforms.v2.
_TRANSFORMS = words(
    "Resize CenterCrop Normalize ToTensor PILToTensor ToImage ToDtype ConvertImageDtype ToPILImage ToPureTensor "
    "Grayscale Pad FiveCrop TenCrop LinearTransformation RGB ClampBoundingBoxes ConvertBoundingBoxFormat"
)
_IN_TURN = words("Compose Sequential")

# Modules of torch.nn without parameters that training changes, or whose forward keeps nothing.
_MODULES = words("ReLU Identity Sigmoid Tanh GELU SiLU Softmax Flatten Unflatten LeakyReLU ELU Linear")

_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
)

_FUNCTIONS = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    types.MethodDescriptorType,
    types.ModuleType,
    type,
    functools.partial,
    operator.itemgetter,
    operator.attrgetter,
)
_OTHERS = {
    "logging.Logger",
    "logging.RootLogger",
    "os._Environ",
    "types.SimpleNamespace",
    "numpy.ufunc",
    "numpy._ArrayFunctionDispatcher",
}


def is_known_object(thing: Thing) -> bool:
    """Return whether a library may be given the object: it does not change it, and threads may share it."""
    if not isinstance(thing, Held):
        return False
    return (
        issubclass(thing.kind, _FUNCTIONS)
        or full_name(thing.kind) in _OTHERS
        or _is_transform(thing.kind)
        or (is_library_dataset(thing.kind))
    )


def is_library_dataset(kind: type) -> bool:
    """Return whether the class is one of a library's datasets, which any number of threads may read."""
    own = any(full_name(base) in _DATASETS for base in kind.__mro__)
    return own and kind.__module__.startswith(("datasets.", "spdl."))


def item_of_library_dataset(search: AnySearch, held: Held, node: ast.AST) -> Value:
    """Return what a dataset of a library gives: something new, or the result of a user's function."""
    made = search.made(node)
    for it in held.objects:
        for name, function in _functions_of(it):
            found = search.call(search.objects.value_of([function], f"{held.path}.{name}"), Args((made,)), node)
            made |= found
    return made


def _functions_of(dataset: Any) -> list[tuple[str, Any]]:
    """Return the user's functions that a dataset of a library calls."""
    if hasattr(dataset, "format") and dataset.format["type"] == "custom":
        return [("transform", dataset.format["format_kwargs"]["transform"])]
    if type(dataset).__name__ == "MappedRecords":
        # Of one that maps another's records, both functions.
        source, function = dataset._source, dataset._function  # noqa: SLF001 - the package's own.
        return [*_functions_of(source), ("function", function)]
    return []


def _is_transform(kind: type) -> bool:
    if kind.__module__.startswith("torchvision.transforms"):
        return kind.__name__ in _TRANSFORMS | _IN_TURN | {"Lambda"}
    return kind.__module__.startswith("torch.nn.modules") and kind.__name__ in _MODULES | _IN_TURN


def call_known_object(search: AnySearch, it: Any, held: Held, args: Args, node: ast.AST) -> Value | None:
    """Return what a call of a transform or a module of torch returns, or None if it is neither.

    Raises:
        Unproven: If the object is not known.
    """
    kind = type(it)
    module = any(full_name(base) == "torch.nn.modules.module.Module" for base in kind.__mro__)
    if module and any(vars(it).get(name) for name in _HOOKS):
        raise Unproven(f"`{held.path}` has hooks, which are not looked at")
    if _is_transform(kind):
        if kind.__name__ in _IN_TURN:
            return _call_in_turn(search, it, held, args, node)
        if kind.__name__ == "Lambda":
            function = search.objects.value_of([it.lambd], f"{held.path}.lambd")
            return search.call(function, args, node) | args.all()
        if getattr(it, "inplace", False):
            raise Unproven(f"`{held.path}` changes its input in place")
        return search.made(node, args.all()) | args.all()
    if module and type(it).__call__.__module__ == "torch.nn.modules.module":
        forward = search.attribute(frozenset([held]), "forward", node)
        return search.call(forward, args, node)
    return None


def _call_in_turn(search: AnySearch, it: Any, held: Held, args: Args, node: ast.AST) -> Value:
    parts = it.transforms if hasattr(it, "transforms") else list(it)
    value = args.all()
    for index, part in enumerate(parts):
        function = search.objects.value_of([part], f"{held.path}.transforms[{index}]")
        value = search.call(function, type(args)((value,)), node)
    return value
