"""Looks up attributes, elements and iterators of values."""

from __future__ import annotations

import ast
import contextlib
import enum
import inspect
import types
from collections import Counter, defaultdict
from importlib import import_module
from typing import TYPE_CHECKING

from spdl.dataloader._thread_safety import known
from spdl.dataloader._thread_safety.values import (
    ABSENT,
    CONTAINERS,
    FIELDS,
    MAPPINGS,
    PLAIN,
    UNASSIGNED,
    Args,
    BoundMethod,
    Held,
    Made,
    NamedMethod,
    Super,
    Thing,
    Unproven,
    Value,
    full_name,
    has_code,
    is_array,
    is_of_python,
)

if TYPE_CHECKING:
    from spdl.dataloader._thread_safety.search import CodeSearch

_MISSING = object()

# Attributes of arrays that share nothing with them.
_SHAPES = known.words("shape dtype ndim size nbytes itemsize device is_cuda requires_grad layout strides flags")

_NAMES = known.words("__name__ __qualname__ __module__ __doc__")

# Slices of these are copies.
_COPIED_SLICES = {"builtins.bytearray", "array.array", "mmap.mmap"}


def unknown(held: Held) -> Unproven:
    name = full_name(held.kind).removeprefix("builtins.")
    return Unproven(f"`{held.path}` is a {name}, and it is not known whether threads may share that")


def attribute_of_class(kind: type, name: str) -> object:
    """Return an attribute of a class, without calling descriptors. A class without it returns a marker."""
    return inspect.getattr_static(kind, name, _MISSING)


def _check_plain_access(kind: type) -> None:
    """Refuse classes that find attributes in their own way."""
    if not isinstance(attribute_of_class(kind, "__getattribute__"), types.WrapperDescriptorType):
        raise Unproven(f"`{kind.__name__}.__getattribute__` is not looked at")


def has_function(kind: type | None, name: str) -> bool:
    return kind is not None and isinstance(attribute_of_class(kind, name), types.FunctionType)


class Lookups:
    """Looks up attributes and elements. It follows the calls that this means: properties, ``__getitem__`` and so on."""

    def __init__(self, search: CodeSearch) -> None:
        self._search = search
        self._objects = search.objects

    def attribute(self, value: Value, name: str, node: ast.AST) -> Value:
        if not value and name in known.CALLING:
            return frozenset(NamedMethod(it, name) for it in self._search.made(node))
        return PLAIN.union(*(self._attribute(it, name, node) for it in value))

    def _attribute(self, thing: Thing, name: str, node: ast.AST) -> Value:
        match thing:
            case Made(kind=kind, contents=contents):
                if kind is None or not is_of_python(kind):
                    method = [NamedMethod(thing, name)] if name in known.METHODS else []
                    return frozenset([thing, *contents, *method])
                return self._of_instance(thing, kind, name, node) | frozenset(contents)
            case Super(kind=kind, receiver=receiver):
                return self._of_super(kind, receiver, name)
            case Held():
                return self._of_held(thing, name, node)
            case NamedMethod(receiver=Made()):
                # `.size` could be a method, but then the code would not continue like this.
                return PLAIN
        raise Unproven(f"`.{name}` of a function is not looked at")

    def _of_held(self, held: Held, name: str, node: ast.AST) -> Value:  # noqa: C901, PLR0911 - one for each kind.
        kind, path = held.kind, held.path
        if name == "__class__":
            return self._objects.value_of([kind], f"{path}.__class__")
        if kind is types.ModuleType:
            return self._of_module(held, name)
        if known.is_class(kind):
            return PLAIN.union(*(self._of_class(it, name, held) for it in held.objects))
        if is_array(kind):
            part = frozenset([NamedMethod(held, name) if callable(getattr(kind, name, None)) else held])
            return PLAIN if name in _SHAPES else part
        if kind is types.FunctionType and name in _NAMES:
            return PLAIN
        if kind in CONTAINERS or (known.is_library_dataset(kind) and name in known.ITEM_METHODS):
            return ABSENT if attribute_of_class(kind, name) is _MISSING else frozenset([NamedMethod(held, name)])
        _check_plain_access(kind)
        if is_of_python(kind):
            own = attribute_of_class(kind, name)
            if hasattr(type(own), "__set__") and not isinstance(own, (property, *FIELDS)):
                raise Unproven(f"`{kind.__name__}.{name}` is a {full_name(type(own))}, whose code is not looked at")
            found = None if isinstance(own, property) else self._objects.instance_attribute(held, name)
            if found is None or isinstance(own, types.FunctionType):
                found = (found or ABSENT) | self._of_instance(held, kind, name, node)
            return found
        if kind in {types.SimpleNamespace, types.MethodType}:
            found = self._objects.instance_attribute(held, name)
            if found is not None:
                return found
        raise unknown(held)

    def _of_module(self, held: Held, name: str) -> Value:
        module = held.objects[0]
        found = vars(module).get(name, _MISSING)
        if found is _MISSING:
            # Modules of the libraries that are known import their parts when they are wanted.
            if not self._search.may_import(module.__name__):
                raise Unproven(f"`{held.path}.{name}` is not there yet")
            with contextlib.suppress(ImportError):
                import_module(f"{module.__name__}.{name}")
            found = getattr(module, name)
        return self._objects.value_of([found], f"{module.__name__}.{name}")

    def _of_class(self, kind: type, name: str, held: Held) -> Value:
        found = attribute_of_class(kind, name)
        path = f"{kind.__name__}.{name}"
        if isinstance(found, classmethod):
            return self._bind(found.__func__, self._objects.value_of([kind], held.path), path)
        if isinstance(found, staticmethod):
            found = found.__func__
        if isinstance(found, types.ClassMethodDescriptorType):
            found = getattr(kind, name)
        if found is _MISSING or isinstance(found, (property, types.GetSetDescriptorType, types.MemberDescriptorType)):
            if name in _NAMES:
                return PLAIN
            raise Unproven(f"`{path}` is not looked at")
        return self._objects.value_of([found], path)

    def _of_instance(self, thing: Thing, kind: type, name: str, node: ast.AST) -> Value:  # noqa: PLR0911 - one for each kind.
        """Return what a class of Python code gives its objects under the name."""
        _check_plain_access(kind)
        found = attribute_of_class(kind, name)
        path = f"{kind.__name__}.{name}"
        me: Value = frozenset([thing])
        match found:
            case types.FunctionType():
                return self._bind(found, me, path)
            case property() if found.fget is not None and type(found) is property:
                return self._search.call(self._objects.value_of([found.fget], path), Args((me,)), node)
            case staticmethod():
                return self._objects.value_of([found.__func__], path)
            case classmethod():
                return self._bind(found.__func__, self._objects.value_of([kind], kind.__name__), path)
        if type(found).__name__ == "_tuplegetter":
            # A field of a named tuple that the call has made.
            return frozenset(getattr(thing, "contents", ()))
        if found is not _MISSING:
            if isinstance(found, (types.WrapperDescriptorType, types.MethodDescriptorType)):
                return frozenset([NamedMethod(thing, name)])
            return self._objects.class_attribute_value(kind, name) or ABSENT
        if attribute_of_class(kind, "__getattr__") is not _MISSING:
            raise Unproven(f"`.{name}` is found by `{kind.__name__}.__getattr__`, which is not looked at")
        # It may be set later, or asked for in vain.
        return ABSENT

    def _bind(self, function: object, receivers: Value, path: str) -> Value:
        functions = self._objects.value_of([function], path)
        return frozenset(BoundMethod(it, receiver) for it in functions for receiver in receivers)

    def _of_super(self, kind: type, receiver: Thing, name: str) -> Value:
        own = getattr(receiver, "kind", None)
        if isinstance(receiver, Held) and issubclass(receiver.kind, type):
            own = receiver.objects[0]
        if own is None or kind not in own.__mro__:
            raise Unproven("`super()` is not looked at here")
        for base in own.__mro__[own.__mro__.index(kind) + 1 :]:
            found = vars(base).get(name, _MISSING)
            if isinstance(found, types.FunctionType):
                return self._bind(found, frozenset([receiver]), f"{base.__name__}.{name}")
            if found is not _MISSING:
                if base is object and name == "__init__":
                    return self._objects.value_of([object], "object")
                if base in CONTAINERS:
                    return frozenset([NamedMethod(receiver, name)])
                break
        raise Unproven(f"`super().{name}` is not looked at")

    def subscript(self, value: Value, index: Value, node: ast.Subscript) -> Value:
        return PLAIN.union(*(self._subscript(it, index, node) for it in value))

    def _subscript(self, thing: Thing, index: Value, node: ast.Subscript) -> Value:
        sliced = isinstance(node.slice, ast.Slice)
        match thing:
            case Made(kind=kind, contents=contents):
                if has_function(kind, "__getitem__"):
                    return self._search.call_method(frozenset([thing]), "__getitem__", Args((index,)), node)
                if kind in CONTAINERS and not sliced and not index:
                    part = _part(thing, node)
                    return frozenset(contents) if part is None else part
                return frozenset([thing, *contents])
            case Held(kind=kind):
                return self._subscript_held(thing, index, node, sliced=sliced)
            case NamedMethod():
                return PLAIN
        raise Unproven("an element of a function is not looked at")

    def _subscript_held(self, held: Held, index: Value, node: ast.Subscript, *, sliced: bool) -> Value:  # noqa: PLR0911 - one for each kind.
        kind = held.kind
        if known.is_library_dataset(kind):
            return known.item_of_library_dataset(self._search, held, node)
        if has_function(kind, "__getitem__") and is_of_python(kind):
            return self._search.call_method(frozenset([held]), "__getitem__", Args((index,)), node)
        if is_array(kind):
            return self._part_of_array(held, index, node)
        if kind is not Counter and (issubclass(kind, defaultdict) or has_function(kind, "__missing__")):
            raise Unproven(f"`{held.path}` is a {kind.__name__}, which reading a missing key changes")
        if issubclass(kind, CONTAINERS):
            if issubclass(kind, MAPPINGS):
                keys, values = self._objects.keys_and_values(held)
                # The key is compared with those that are there.
                self._search.operation(node, keys)
                return values
            elements = self._objects.elements(held)
            if (sliced or index) and issubclass(kind, (list, tuple)):
                return self._search.made(node, elements, list) | (elements if index else PLAIN)
            return elements
        if kind is enum.EnumType:
            return self._members(held)
        if known.is_class(kind) and self._search.is_listed(held.objects[0].__module__):
            return PLAIN
        raise unknown(held)

    def _part_of_array(self, held: Held, index: Value, node: ast.AST) -> Value:
        if full_name(held.kind) in _COPIED_SLICES:
            return PLAIN
        if index and all(isinstance(it, Made) and it.kind is list for it in index):
            # A list of indices copies.
            return self._search.made(node, self._objects.elements(held))
        return frozenset([held]) | self._objects.elements(held)

    def unpack(self, value: Value, count: int, node: ast.AST) -> list[Value]:
        found = [UNASSIGNED] * count
        for thing in value:
            if isinstance(thing, Made) and thing.parts is not None and len(thing.parts) == count:
                found = [old | new for old, new in zip(found, thing.parts, strict=True)]
            else:
                elements = self._iterate(thing, node)
                found = [old | elements for old in found]
        return found

    def iterate(self, value: Value, node: ast.AST) -> Value:
        return PLAIN.union(*(self._iterate(it, node) for it in value))

    def _iterate(self, thing: Thing, node: ast.AST) -> Value:
        if isinstance(thing, NamedMethod):
            return PLAIN
        if not isinstance(thing, (Held, Made)):
            raise Unproven("iterating over this is not looked at")
        if isinstance(thing, Held) and known.is_library_dataset(thing.kind):
            return known.item_of_library_dataset(self._search, thing, node)
        if has_code(thing) and any(has_function(thing.kind, name) for name in ("__iter__", "__next__", "__getitem__")):
            raise Unproven("iterating over an object of Python code is not looked at")
        if isinstance(thing, Held):
            return self._iterate_held(thing)
        return frozenset(thing.contents) if thing.kind in CONTAINERS else frozenset([thing, *thing.contents])

    def _iterate_held(self, held: Held) -> Value:
        if is_array(held.kind):
            return frozenset([held]) | self._objects.elements(held)
        if issubclass(held.kind, CONTAINERS):
            return self._objects.elements(held)
        if held.kind is enum.EnumType:
            return self._members(held)
        raise unknown(held)

    def _members(self, held: Held) -> Value:
        members = [member for kind in held.objects for member in kind.__members__.values()]
        return self._objects.value_of(members, f"{held.path}[...]")

    def truth(self, value: Value, node: ast.AST) -> None:
        for thing in value:
            if isinstance(thing, (Held, Made)) and has_code(thing):
                name = "__bool__" if has_function(thing.kind, "__bool__") else "__len__"
                if has_function(thing.kind, name):
                    self._search.call_method(frozenset([thing]), name, Args(), node)

    def enter(self, value: Value) -> Value:
        found = PLAIN
        for thing in value:
            if isinstance(thing, Held):
                raise unknown(thing)
            if not isinstance(thing, Made) or has_function(thing.kind, "__enter__"):
                raise Unproven("a context manager of Python code is not looked at")
            found |= frozenset([thing, *thing.contents])
        return found


def _part(thing: Made, node: ast.Subscript) -> Value | None:
    match node.slice:
        case ast.Constant(value=int(place)) if thing.parts is not None and 0 <= place < len(thing.parts):
            return thing.parts[place]
    return None
