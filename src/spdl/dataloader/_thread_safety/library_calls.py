"""Calls of library functions, and the calls that these may make to their arguments."""

from __future__ import annotations

import ast
import contextlib
import copy
import dataclasses
import functools
import itertools
import random
import types
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from torch.utils.data import default_collate

from spdl.dataloader._thread_safety import known
from spdl.dataloader._thread_safety.lookups import has_function, unknown
from spdl.dataloader._thread_safety.values import (
    ABSENT,
    CONTAINERS,
    MAPPINGS,
    PLAIN,
    Args,
    BoundMethod,
    Held,
    Local,
    Made,
    NamedMethod,
    Thing,
    Unproven,
    Value,
    has_code,
    is_array,
    is_of_python,
)

if TYPE_CHECKING:
    from spdl.dataloader._thread_safety.search import CodeSearch

# Not what operators and functions of libraries call.
_NOT_CALLED = known.words(
    "__init__ __new__ __del__ __setattr__ __delattr__ __getattr__ __getattribute__ __setitem__ __delitem__ __enter__ "
    "__exit__ __call__ __init_subclass__ __class_getitem__ __set_name__ __post_init__ __iadd__ __isub__ __imul__ "
    "__itruediv__ __ior__ __iand__ __subclasshook__ __instancecheck__ __subclasscheck__ __getitems__"
)

# Libraries call these of what is like a file or a dict.
_OF_FILES = known.words(
    "read read1 readinto readline readlines seek tell write close flush fileno get items keys values"
)


# Members of classes that are not Python code.
_NATIVE = (
    types.WrapperDescriptorType,
    types.MethodDescriptorType,
    types.ClassMethodDescriptorType,
    types.BuiltinFunctionType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)


def escape(search: CodeSearch, value: Value, node: ast.AST) -> Value:
    """Follow what a library may do with a value: the special methods of its objects, and of what they hold.

    Return the objects of Python code and the dicts among them, which an array of objects would hold, and what the
    special methods return.
    """
    found = PLAIN
    everything = reach(search, value)
    for thing in everything:
        kind = getattr(thing, "kind", None)
        if not isinstance(thing, (Held, Made)) or kind is None or kind in CONTAINERS or is_array(kind):
            # An array of objects holds the objects themselves.
            found |= PLAIN if kind in {list, tuple, None} or _is_of_numbers(thing) else frozenset([thing])
            continue
        if not is_of_python(kind) or known.is_known_object(thing):
            continue
        if isinstance(thing, Held) and search.is_listed(kind.__module__):
            raise unknown(thing)
        found |= frozenset([thing])
        if isinstance(getattr(kind, "__iter__", None), types.FunctionType):
            found |= search.iterate(frozenset([thing]), node)
        for name in dir(kind):
            function = _special_method(search, kind, name)
            if function is not None:
                functions = search.objects.value_of([function], f"{kind.__name__}.{name}")
                for it in functions:
                    found |= search.call(frozenset([BoundMethod(it, thing)]), Args(others=frozenset(everything)), node)
    return found


def _is_of_numbers(thing: Thing) -> bool:
    return isinstance(thing, Made) or (
        isinstance(thing, Held)
        and is_array(thing.kind)
        and not any(getattr(getattr(it, "dtype", None), "hasobject", False) for it in thing.objects)
    )


def _special_method(search: CodeSearch, kind: type, name: str) -> types.FunctionType | None:
    special = name.startswith("__") and name.endswith("__") and name not in _NOT_CALLED
    # NumPy's functions of one argument call the method of their name.
    if not special and name not in _OF_FILES and getattr(getattr(np, name, None), "nin", 0) != 1:
        return None
    for base in kind.__mro__:
        if name in vars(base):
            found = vars(base)[name]
            if not isinstance(found, types.FunctionType):
                native = isinstance(found, _NATIVE) or search.is_listed(base.__module__)
                if native or not special or not (callable(found) or hasattr(found, "__get__")):
                    return None
                raise Unproven(f"`{kind.__name__}.{name}` is not looked at")
            if found.__code__.co_filename == "<string>":
                return None
            # Dataclasses write it.
            if found.__code__.co_filename == dataclasses.__file__:
                return None
            if base.__module__ == "collections":
                raise Unproven(f"`{kind.__name__}.{name}` is not looked at")
            return None if search.is_listed(found.__module__) else found
    return None


def _shown(held: Held) -> set[str] | None:
    """Return the attributes that the methods compare and show which dataclasses write, and namespaces have."""
    if held.kind is types.SimpleNamespace:
        return {name for it in held.objects for name in vars(it)}
    if is_of_python(held.kind) and dataclasses.is_dataclass(held.kind):
        return {field.name for field in dataclasses.fields(held.kind)}
    return None


def reach(search: CodeSearch, value: Value) -> set[Thing]:
    """Return the things of a value and all that they hold."""
    seen = set[Thing]()
    todo = list(value)
    while todo:
        thing = todo.pop()
        if thing in seen:
            continue
        seen.add(thing)
        if isinstance(thing, Made):
            todo += thing.contents
        elif isinstance(thing, Held):
            if issubclass(thing.kind, defaultdict):
                raise Unproven(f"`{thing.path}` is a defaultdict, which reading a missing key changes")
            if is_array(thing.kind) or issubclass(thing.kind, CONTAINERS):
                todo += search.objects.elements(thing)
            elif (names := _shown(thing)) is not None:
                for name in names:
                    todo += search.objects.instance_attribute(thing, name) or ABSENT
            elif not (is_of_python(thing.kind) or known.is_known_object(thing)):
                raise unknown(thing)
    return seen


# Arguments that tell a function to change its input, or to return it.
_IN_PLACE = frozenset({"inplace", "in_place", "copy", "overwrite_input"})

# These yield tuples of the elements of their arguments.
_TUPLES = {zip, itertools.zip_longest, itertools.product, itertools.combinations, itertools.permutations}
_TUPLES |= {itertools.pairwise, getattr(itertools, "batched", zip)}

_DICTS = {dict, OrderedDict, defaultdict, Counter}

# More arguments than this may be flags, such as that a function may change its argument.
_MOST_ARGUMENTS = 3

# More arguments than one may have them change the first, or return it.
_ALONE = {"nan_to_num", "relu", "diff"}

# Generators of random numbers, which the call makes.
_GENERATORS = {"Random", "default_rng", "RandomState", "Generator"}

# Copies of objects have methods that are not followed.
_COPYING = {copy.deepcopy, dataclasses.asdict, dataclasses.astuple}

# These are given functions and classes, and call none.
_ASKING = {isinstance, issubclass, callable, id, hash, repr, str, print}

# Of these, the ones that call no methods, either.
_ONLY_ASKING = {isinstance, issubclass, callable, id}

# These hold the arguments themselves.
_HOLDERS = {functools.partial, types.SimpleNamespace, contextlib.nullcontext}


def _copying(kind: type) -> frozenset[str]:
    return (
        known.ARRAY_COPYING
        if kind.__module__.startswith(("numpy", "torch"))
        else known.TEXT_COPYING | known.ARRAY_COPYING
    )


def _holds_objects(thing: Thing) -> bool:
    return isinstance(thing, Held) and any(
        getattr(getattr(it, "dtype", None), "hasobject", False) for it in thing.objects
    )


class LibraryCalls:
    def __init__(self, search: CodeSearch) -> None:
        self._search = search
        self._known = known.KnownFunctions()

    def kind_of(self, function: Any) -> known.Kind | None:
        return self._known.kind_of(function)

    def method_of_made(self, thing: Made | None, name: str, args: Args, node: ast.AST) -> Value:
        """Return what a method returns of an object that the call has made. Without one, it is of a plain value."""
        if name in known.DRAWING and (thing is None or thing.kind is not random.Random):
            raise Unproven(f"`.{name}()` may draw from a generator of the whole program")
        if name in known.CHANGING_ARGUMENTS:
            for it in args.all():
                self._search.change(it, ABSENT)
        elif name not in known.READING | known.CHANGING | known.DRAWING:
            raise Unproven(f"it is not known what `.{name}()` of the object does")
        inside: Value = frozenset(thing.contents) if thing else PLAIN
        self._check_format(name, args)
        if name not in known.STORING | known.CALLING and not name.endswith("_"):
            # Generators of NumPy write to their third argument.
            self._check_not_in_place(args, args.positional[1:], frozenset())
        results = self._call_back(args, node, inside)
        escape(self._search, inside | args.all(), node)
        given = args.all()
        if name in known.CHANGING | known.DRAWING:
            if thing and name in known.STORING:
                self._search.fill(thing, given | self.pairs(given, node))
            made = frozenset([thing]) if thing else self._search.made(node)
            kept = given | self.elements(given, node) if name in known.STORING | known.DRAWING | {"pop"} else PLAIN
            return inside | kept | made
        if name in known.SHALLOW_COPYING:
            return self._collection(name, inside | self.elements(given, node), node)
        if name in known.COPYING:
            # Copies of arrays do not hold the arrays that they were made of.
            kept = frozenset(it for it in inside if not (isinstance(it, Held) and is_array(it.kind)))
            return self._search.made(node, kept | results)
        kept = given if name in known.LOOKING else PLAIN
        return self._search.made(node) | inside | kept | (frozenset([thing]) if thing else PLAIN)

    def method_of_data(self, held: Held, name: str, args: Args, node: ast.AST) -> Value:  # noqa: PLR0911 - one for each kind.
        """Return what a method of a container or an array that outlives the call returns."""
        self._check_not_in_place(args, args.positional[1:], frozenset())
        self._call_back(args, node)
        escape(self._search, args.all(), node)
        elements = self._search.objects.elements(held)
        self._compare(held, name, node)
        if held.kind in CONTAINERS:
            if issubclass(held.kind, dict) and name in {"keys", "values", "items"}:
                keys, values = self._search.objects.keys_and_values(held)
                contents = {"keys": keys, "values": values}.get(name)
                if contents is None:
                    contents = self._search.tuple_of(node, [keys, values])
                return self._search.made(node, contents, list)
            if name in known.SHALLOW_COPYING:
                return self._collection(name, elements | self.elements(args.all(), node), node)
            if name == "__iter__":
                return self._search.made(node, elements, list)
            if name in known.LOOKING and not (name == "__getitem__" and held.kind is defaultdict):
                objects = self._search.objects
                found = objects.keys_and_values(held)[1] if issubclass(held.kind, MAPPINGS) else elements
                return found | args.all()
            if name in {"index", "count"}:
                return PLAIN
        elif name in _copying(held.kind) and not args.unnamed | any(told == "copy" for told, _ in args.keywords):
            return self._search.made(node, elements) | elements
        elif name in known.ALIASING | _copying(held.kind) or name in {"__getitem__", "__len__"}:
            return frozenset([held]) | args.all()
        what = "changes it while an item is loaded, and threads would share it"
        raise Unproven(
            f"`{held.path}.{name}()` {what if name in known.CHANGING or name.endswith('_') else 'is not known'}"
        )

    def _compare(self, held: Held, name: str, node: ast.AST) -> None:
        """Follow what a method may call of what its container holds: comparisons, hashes and sums."""
        if issubclass(held.kind, MAPPINGS) and name in known.LOOKING:
            escape(self._search, self._search.objects.keys_and_values(held)[0], node)
        elif name not in known.NOT_COMPARING | known.ALIASING | {"__getitem__"}:
            escape(self._search, self._search.objects.elements(held), node)

    def _check_format(self, name: str, args: Args) -> None:
        """Refuse that a format string looks up attributes of objects whose classes may have code for that."""
        for thing in reach(self._search, args.all()) if name in {"format", "format_map"} else ():
            kind = getattr(thing, "kind", None) or object
            is_data = kind in CONTAINERS or is_array(kind) or (isinstance(thing, Made) and not has_code(thing))
            if not is_data:
                raise Unproven("a format string may look up attributes, which is not looked at, unlike an f-string")

    def _collection(self, name: str, contents: Value, node: ast.AST) -> Value:
        if name in {"items", "most_common"}:
            contents = self._search.tuple_of(node, [contents, contents])
        return self._search.made(node, contents, list)

    def pairs(self, value: Value, node: ast.AST) -> Value:
        """Return what is in the containers among those, and in the pairs that they hold."""
        found = self.elements(value, node)
        return found | self.elements(found, node)

    def elements(self, value: Value, node: ast.AST) -> Value:
        containers = frozenset(
            it
            for it in value
            if isinstance(it, Made) or (isinstance(it, Held) and (is_array(it.kind) or it.kind in CONTAINERS))
        )
        return self._search.iterate(containers, node)

    def _check_not_in_place(self, args: Args, written: Sequence[Value], telling: frozenset[str]) -> None:
        """Refuse that a function of a library writes to what outlives the call.

        Results could be written to the arguments in `written`; the keywords in `telling` have a function change what it
        is given.
        """
        results = [*written, *(value for name, value in args.keywords if name in {"out", "dst"})]
        if args.others is not None:
            # It could be any argument.
            results.append(args.others)
        if args.unnamed or any(name in telling for name, _ in args.keywords):
            results.append(args.all())
        for thing in reach(self._search, PLAIN.union(*results)):
            if isinstance(thing, Held) and (is_array(thing.kind) or thing.kind is list):
                raise Unproven(f"`{thing.path}` may be written to while an item is loaded, and threads would share it")

    @staticmethod
    def is_function(thing: Thing) -> bool:
        if isinstance(thing, (Local, BoundMethod, NamedMethod)):
            return True
        if isinstance(thing, Made):
            return has_function(thing.kind, "__call__") or thing.kind is functools.partial
        return isinstance(thing, Held) and callable(thing.objects[0]) and not is_array(thing.kind)

    def _call_back(self, args: Args, node: ast.AST, also: Value = ABSENT) -> Value:
        """Follow functions among the arguments of a function of a library, which may call them with the others."""
        functions = frozenset(it for it in args.all() if self.is_function(it))
        if not functions:
            return ABSENT
        others = frozenset(reach(self._search, also | (args.all() - functions)))
        found = PLAIN
        for it in functions:
            # Types of numbers and of containers make something new.
            new = isinstance(it, Held) and issubclass(it.kind, type) and all(map(self._known.kind_of, it.objects))
            if not new:
                found |= self._search.call(frozenset([it]), Args(others=others), node)
        # The results of a key function are compared.
        escape(self._search, found, node)
        return found

    def call_known(self, function: Any, kind: known.Kind, args: Args, node: ast.AST) -> Value:
        written = args.positional[self._known.readable(function) :]
        flags = self._known.readable(function) < known.ANY and len(args.positional) > _MOST_ARGUMENTS
        if flags or (getattr(function, "__name__", "") in _ALONE and len(args.positional) > 1):
            written = args.positional
        if written or self._known.readable(function) < known.ANY or args.keywords:
            self._check_not_in_place(args, written, _IN_PLACE)
        results = ABSENT if function in _ASKING else self._call_back(args, node)
        objects = ABSENT if function in _ONLY_ASKING else escape(self._search, args.all(), node)
        match kind:
            case "fresh":
                if function in _COPYING and any(has_code(it) for it in objects):
                    raise Unproven("a copy of an object of Python code is not looked at")
                made = self._made_fresh(function, objects | results, args, node) | results
                if function is default_collate:
                    # Given an array instead of a list, it makes a tensor of the same memory.
                    held = frozenset(it for it in args.all() if isinstance(it, Held))
                    made |= frozenset(it for it in held if is_array(it.kind) or it.kind is list)
                return made
            case "shallow":
                return self._made_of_elements(function, results, args, node)
            case "element":
                found = self._search.iterate(args.positional[0] if args.positional else args.others or ABSENT, node)
                named = PLAIN.union(*(value for name, value in args.keywords if name == "default"))
                return found.union(*args.positional[1:], named)
        shared = frozenset(
            it for it in reach(self._search, self._data(args)) if getattr(it, "kind", None) not in CONTAINERS
        )
        return self._search.made(node, shared) | shared

    def _made_of_elements(self, function: Any, results: Value, args: Args, node: ast.AST) -> Value:
        if function in _HOLDERS:
            return self._search.made(node, args.all(), functools.partial if function is functools.partial else None)
        data = self._data(args)
        named = PLAIN.union(*(value for name, value in args.keywords if name != "key"))
        if function in _DICTS:
            made = self._search.made(node, kind=list) if function is defaultdict else PLAIN
            contents = self.pairs(data, node) | named | results | made | (args.others or ABSENT)
            return self._search.made(node, contents, dict)
        if function is sum or function is functools.reduce:
            found = self._search.iterate(data, node) | results | frozenset().union(*args.positional[1:])
            return found | self._search.made(node, self.pairs(data, node))
        if function is copy.copy and any(has_function(getattr(it, "kind", None), "__init__") for it in data):
            raise Unproven("`copy.copy` of an object of Python code is not looked at")
        contents = self._search.iterate(data, node) | named
        if function is not sorted:
            contents |= results
        if function is enumerate:
            contents = self._search.tuple_of(node, [PLAIN, contents])
        elif function is zip and args.others is None:
            each = [self._search.iterate(it, node) for it in args.positional]
            contents = self._search.tuple_of(node, each)
        elif function in _TUPLES:
            contents = self._search.made(node, contents, tuple)
        return self._search.made(node, contents, function if function in CONTAINERS else list)

    def _made_fresh(self, function: Any, objects: Value, args: Args, node: ast.AST) -> Value:
        """Return what a function makes without a trace of its arguments; arrays of numbers keep none later, either."""
        package = str(getattr(function, "__module__", None) or "torch").partition(".")[0]
        if getattr(function, "__name__", "") in _GENERATORS:
            return self._search.made(node, kind=random.Random)
        if package != "numpy":
            return self._search.made(node, kind=np.ndarray if package == "torch" else None)
        everything = frozenset(reach(self._search, args.all()))
        told = [it.value for it in ast.walk(node) if isinstance(it, ast.Constant)]
        of_objects = any(isinstance(it, Held) and any(each is object for each in it.objects) for it in args.all()) or {
            "O",
            "object",
        } & set(map(str, told))
        if of_objects or any(map(_holds_objects, everything)):
            return self._search.made(node, everything) | everything
        return self._search.made(node, objects, None if objects else np.ndarray)

    def _data(self, args: Args) -> Value:
        return frozenset(it for it in args.all() if not self.is_function(it))
