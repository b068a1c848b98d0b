"""Finds what keeps threads from sharing a dataset: follows the calls of the code that loads an item."""

from __future__ import annotations

import ast
import dataclasses
import enum
import functools
import inspect
import operator
import sys
import types
import typing
import warnings
from collections.abc import Iterable, Sequence
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from spdl.dataloader._thread_safety import known
from spdl.dataloader._thread_safety.code_reading import CodeReading
from spdl.dataloader._thread_safety.functions import FunctionNode, Scope, bind, find_node
from spdl.dataloader._thread_safety.library_calls import LibraryCalls, escape, reach
from spdl.dataloader._thread_safety.lookups import (
    Lookups,
    attribute_of_class,
    has_function,
    unknown,
)
from spdl.dataloader._thread_safety.values import (
    ABSENT,
    CONTAINERS,
    PLAIN,
    RAISED,
    UNASSIGNED,
    Args,
    BoundMethod,
    Held,
    Local,
    Made,
    NamedMethod,
    Objects,
    Thing,
    Unproven,
    Value,
    full_name,
    has_code,
    is_array,
    is_of_python,
    reachable,
)

# How much code is read: about half a second's worth.
_MOST_STEPS = 60_000

_OPERATORS = {abs, round, divmod, pow, operator.add, operator.sub, operator.mul, operator.truediv, operator.neg}

# It stands for every getter of elements that the code makes: which element it finds is not looked at.
_ITEM_GETTER = operator.itemgetter(0)

# The search follows at most this many functions for one call.
_MOST_FUNCTIONS = 64

# Code of these libraries is not read: what is known of it is in tables.
_LISTED = {
    *("numpy", "torch", "torchvision", "torchaudio", "PIL", "pyarrow", "datasets", "pandas", "scipy", "cv2", "sklearn"),
    *("transformers", "tokenizers", "h5py", "soundfile", "librosa", "tensorflow", "jax"),
}
_READ_NEVERTHELESS = ("torch.utils.data.dataset", "torchvision.datasets")


class CodeSearch:
    """One search.

    It knows what the code has made so far, and what its functions have returned. The version counts what was found.
    """

    def __init__(self) -> None:
        self.objects = Objects()
        self.version = 0
        lookups = Lookups(self)
        self.attribute, self.subscript, self.iterate = lookups.attribute, lookups.subscript, lookups.iterate
        self.unpack, self.enter, self.truth = lookups.unpack, lookups.enter, lookups.truth
        self._library = LibraryCalls(self)
        self.elements = self._library.elements
        self._steps = 0
        self._made: dict[tuple[ast.AST, type | None, int], Made] = {}
        self._locals: dict[tuple[ast.AST, Scope], Local] = {}
        self._scopes: dict[Any, Scope] = {}
        self._results: dict[Any, Value] = {}
        self._settled: dict[Any, int] = {}
        self._active = set[Any]()

    def count(self) -> None:
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise Unproven("there is more code than is looked at")

    def made(
        self, node: ast.AST, contents: Value = PLAIN, kind: type | None = None, parts: list[Value] | None = None
    ) -> Value:
        """Return what a piece of code makes each time.

        The kind is that of a class of Python code, or of containers that hold nothing else. The parts are what a tuple
        holds at each place, if its places are known.
        """
        key = node, kind, len(parts or ())
        if key not in self._made:
            self._made[key] = Made(kind)
        thing = self._made[key]
        if parts:
            if thing.put(parts):
                self.note()
            contents = contents.union(*parts)
        self.fill(thing, contents)
        return frozenset([thing])

    def tuple_of(self, node: ast.AST, parts: list[Value]) -> Value:
        return self.made(node, kind=tuple, parts=parts)

    def fill(self, thing: Made, contents: Value) -> None:
        if thing.fill(contents):
            self.note()

    def note(self) -> None:
        self.version += 1

    def local(self, node: ast.FunctionDef | ast.Lambda, scope: Scope, defaults: list[Value]) -> Local:
        local = self._locals.setdefault((node, scope), Local(node, scope, defaults))
        if local.add_defaults(defaults):
            self.note()
        return local

    def scope_of(self, node: ast.AST, around: Scope, targets: Iterable[ast.AST]) -> Scope:
        key = (node, around)
        if key not in self._scopes:
            self._scopes[key] = Scope(around.function, around.path, self.objects, targets, (), around)
        return self._scopes[key]

    @staticmethod
    def is_listed(module: str | None) -> bool:
        name = module or "builtins"
        package = name.partition(".")[0]
        return (package in _LISTED or package in sys.stdlib_module_names) and not name.startswith(_READ_NEVERTHELESS)

    def may_import(self, module: str) -> bool:
        return self.is_listed(module) or module.partition(".")[0] == "spdl"

    def change(self, thing: Thing, value: Value, of: ast.AST | None = None) -> None:
        """Note that something is changed, and may hold a value as well from then on."""
        if isinstance(thing, Held):
            path = f"{thing.path}.{of.attr}" if isinstance(of, ast.Attribute) else thing.path
            raise Unproven(f"`{path}` is changed while an item is loaded, and threads would share it")
        if not isinstance(thing, Made):
            raise Unproven("a function is changed while an item is loaded")
        if thing.kind is not None and has_code(thing):
            _check_plain_change(thing.kind, of)
        if thing.kind is not np.ndarray:
            # A slice, and an operation in place, stores what is in a container; in a dict, what is in pairs.
            parts = isinstance(of, ast.AugAssign) or (isinstance(of, ast.Subscript) and isinstance(of.slice, ast.Slice))
            if parts and of:
                escape(self, value, of)
                value |= self._library.pairs(value, of)
            self.fill(thing, value)

    def operation(self, node: ast.AST, value: Value) -> Value:
        if isinstance(node, ast.Compare) and all(isinstance(it, (ast.Is, ast.IsNot)) for it in node.ops):
            return PLAIN
        if not value:
            return PLAIN
        called = escape(self, value, node)
        if isinstance(node, ast.Compare) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
            return PLAIN
        contents = called
        for it in value:
            if isinstance(it, Made):
                contents |= frozenset(it.contents)
            elif isinstance(it, Held) and it.kind in CONTAINERS:
                contents |= self.objects.elements(it)
        # The result of a special method is a result, too.
        return self.made(node, contents) | (called - reach(self, value))

    def call_method(self, value: Value, name: str, args: Args, node: ast.AST) -> Value:
        found = PLAIN.union(*(self._call_method(it, name, args, node) for it in value))
        # A text could be among the values.
        text = not value or name in known.CALLING
        return found | (self._library.method_of_made(None, name, args, node) if text else PLAIN)

    def _call_method(self, thing: Thing, name: str, args: Args, node: ast.AST) -> Value:
        if isinstance(thing, Made) and not has_code(thing):
            return self._library.method_of_made(thing, name, args, node)
        if isinstance(thing, Held) and (is_array(thing.kind) or thing.kind in CONTAINERS):
            return self._library.method_of_data(thing, name, args, node)
        if isinstance(thing, Held) and known.is_logger(thing.kind):
            if name in known.LOGGER_METHODS:
                known.check_logger(thing)
                escape(self, args.all(), node)
                return PLAIN
            raise unknown(thing)
        if isinstance(thing, Held) and known.is_library_dataset(thing.kind) and name in known.ITEM_METHODS:
            return known.item_of_library_dataset(self, thing, node)
        function = self.attribute(frozenset([thing]), name, node)
        if isinstance(thing, Held) and not function and name in known.METHODS - known.DRAWING:
            # This object has no such method: a number or a text has it, which could be in its place.
            return self._library.method_of_made(None, name, args, node)
        if isinstance(thing, Made):
            # Data that it holds cannot be called. A function could have been set in the place of the method.
            function = frozenset(it for it in function if self._library.is_function(it))
            if not function:
                raise Unproven(f"it is not known what `.{name}()` of the object does")
        return self.call(function, args, node)

    def call(self, value: Value, args: Args, node: ast.AST) -> Value:
        # Of values that never change none can be called: this is `None`, and the code asks for it before.
        return PLAIN.union(*(self._call(it, args, node) for it in value))

    def _call(self, thing: Thing, args: Args, node: ast.AST) -> Value:
        match thing:
            case Local():
                return self._call_local(thing, args)
            case BoundMethod(function=function, receiver=receiver):
                return self._call(function, args.after(frozenset([receiver])), node)
            case NamedMethod(receiver=receiver, name=name):
                return self._call_named(receiver, name, args, node)
            case Made(kind=kind, contents=contents):
                if has_function(kind, "__call__"):
                    return self.call_method(frozenset([thing]), "__call__", args, node)
                # What `functools.partial` returned.
                callables = frozenset(it for it in contents if self._library.is_function(it))
                if callables:
                    return self.call(callables, Args(others=args.all() | (frozenset(contents) - callables)), node)
            case Held():
                if len(thing.objects) > _MOST_FUNCTIONS:
                    raise Unproven(f"`{thing.path}` are more functions than are looked at")
                return PLAIN.union(*(self._call_object(it, thing, args, node) for it in thing.objects))
        raise Unproven("an unknown function is called")

    def _call_named(self, receiver: Thing, name: str, args: Args, node: ast.AST) -> Value:
        if isinstance(receiver, Held) and known.is_library_dataset(receiver.kind):
            return known.item_of_library_dataset(self, receiver, node)
        if isinstance(receiver, Held):
            # A method of a container's class, of an object whose own class is of Python code.
            if name in {"__getitem__", "__iter__", "get"} and receiver.kind not in CONTAINERS:
                if has_function(receiver.kind, "__missing__"):
                    raise Unproven(f"`{receiver.path}` may change if it lacks a key")
                if name != "__iter__" and issubclass(receiver.kind, dict):
                    escape(self, self.objects.keys_and_values(receiver)[0], node)
                elements = self.objects.elements(receiver)
                return self.made(node, elements, list) | (PLAIN if name == "__iter__" else elements | args.all())
            return self._library.method_of_data(receiver, name, args, node)
        if isinstance(receiver, Made):
            return self._library.method_of_made(receiver, name, args, node)
        raise Unproven(f"`.{name}()` is not looked at here")

    def _call_object(self, it: Any, held: Held, args: Args, node: ast.AST) -> Value:  # noqa: PLR0911 - one for each kind.
        path = held.path
        special = self._call_special(it, args, node)
        if special is not None:
            return special
        if (kind := self._library.kind_of(it)) is not None:
            return self._library.call_known(it, kind, args, node)
        match it:
            case types.FunctionType():
                return self._call_function(it, path, args)
            case types.MethodType() | functools.partial():
                return self._call_bound(it, path, args, node)
            case type():
                return self._call_class(it, args, node)
            case types.MethodDescriptorType() if args.positional:
                rest = Args(args.positional[1:], args.keywords, args.others)
                return self.call_method(args.positional[0], it.__name__, rest, node)
            case types.BuiltinFunctionType(__self__=None | type()) if it.__name__ in known.COPYING:
                return self._library.call_known(it, "fresh", args, node)
            case types.BuiltinFunctionType() if not isinstance(it.__self__, (types.ModuleType, type(None))):
                return self.call_method(self.objects.value_of([it.__self__], path), it.__name__, args, node)
            case operator.itemgetter():
                found = escape(self, args.all(), node) | reach(self, args.all())
                return self.made(node, found, tuple) | found
        return self._call_instance(it, held, args, node)

    def _call_bound(self, it: types.MethodType | functools.partial[Any], path: str, args: Args, node: ast.AST) -> Value:
        if isinstance(it, types.MethodType):
            receiver = self.objects.value_of([it.__self__], f"{path}.__self__")
            return self.call(self.objects.value_of([it.__func__], path), args.after(receiver), node)
        first = [self.objects.value_of([each], f"{path}.args[{index}]") for index, each in enumerate(it.args)]
        keywords = [(name, self.objects.value_of([each], f"{path}.{name}")) for name, each in it.keywords.items()]
        both = Args((*first, *args.positional), (*keywords, *args.keywords), args.others)
        return self.call(self.objects.value_of([it.func], f"{path}.func"), both, node)

    def _call_instance(self, it: Any, held: Held, args: Args, node: ast.AST) -> Value:
        result = known.call_known_object(self, it, held, args, node)
        if result is not None:
            return result
        if has_function(type(it), "__call__") and is_of_python(type(it)):
            return self.call_method(frozenset([held]), "__call__", args, node)
        if hasattr(it, "cache_info"):
            raise Unproven(f"`{held.path}` keeps its results, and threads would share them")
        if hasattr(it, "__name__"):
            raise Unproven(f"`{held.path}` is not among the functions that are known")
        raise unknown(held)

    def _call_special(self, it: Any, args: Args, node: ast.AST) -> Value | None:
        """Follow functions that do more than read their arguments. None for all other functions."""
        if isinstance(it, types.BuiltinFunctionType):
            return self._call_builtin(it, args, node)
        if it is type and len(args.positional) == 1:
            kinds = [thing.kind for thing in args.positional[0] if isinstance(thing, (Held, Made)) and thing.kind]
            return PLAIN.union(*(self.objects.value_of([kind], kind.__name__) for kind in kinds))
        if it is typing.cast:
            return args.all()
        if it is operator.itemgetter:
            escape(self, args.all(), node)
            return self.objects.value_of([_ITEM_GETTER], "itemgetter")
        if it is warnings.warn and warnings.showwarning.__module__ != "warnings":
            raise Unproven("a warning goes to a user's function, which is not looked at")
        return None

    def _call_builtin(self, it: Any, args: Args, node: ast.AST) -> Value | None:
        if it is getattr or it is hasattr:
            name = node.args[1] if isinstance(node, ast.Call) and len(node.args) > 1 else None
            if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
                raise Unproven("`getattr` with a name that is computed is not looked at")
            found = self.attribute(args.positional[0], name.value, node)
            return PLAIN if it is hasattr else found.union(*args.positional[2:])
        if it is print:
            known.check_output(sys.stdout)
        if it is len:
            for thing in args.all():
                if has_function(getattr(thing, "kind", None), "__len__"):
                    self.call_method(frozenset([thing]), "__len__", Args(), node)
            return PLAIN
        if it in _OPERATORS:
            return self.operation(node, args.all())
        if it is isinstance or it is issubclass:
            self._check_classes(args.others or ABSENT if len(args.positional) < 2 else args.positional[1])  # noqa: PLR2004
        return None

    def _check_classes(self, classes: Value) -> None:
        """Refuse classes that say by code what belongs to them."""
        for thing in reach(self, classes):
            if isinstance(thing, Held) and issubclass(thing.kind, type):
                for kind in thing.objects:
                    hook = getattr(kind.__subclasshook__, "__func__", kind.__subclasshook__)
                    if isinstance(hook, types.FunctionType) and not self.is_listed(hook.__module__):
                        raise Unproven(f"`{kind.__name__}.__subclasshook__` is not looked at")

    def _call_class(self, kind: type, args: Args, node: ast.AST) -> Value:  # noqa: C901 - one for each kind.
        if issubclass(kind, BaseException) and not has_function(kind, "__init__"):
            return self.made(node, args.all())
        if type(kind).__call__ is not type.__call__ and not issubclass(kind, enum.Enum):
            raise Unproven(f"calls of the class `{kind.__name__}` are not looked at")
        if issubclass(kind, enum.Enum) and attribute_of_class(kind, "_missing_") is vars(enum.Enum)["_missing_"]:
            return self.objects.value_of([*kind.__members__.values()], kind.__name__)
        if self.is_listed(kind.__module__) or not is_of_python(kind):
            raise Unproven(f"`{full_name(kind)}` is not among the classes that are known")
        made = self.made(node, PLAIN, kind)
        (thing,) = made
        assert isinstance(thing, Made)
        init, new = attribute_of_class(kind, "__init__"), attribute_of_class(kind, "__new__")
        if issubclass(kind, tuple) and hasattr(kind, "_fields") and not isinstance(init, types.FunctionType):
            code = getattr(getattr(kind.__new__, "__func__", kind.__new__), "__code__", None)
            if code is None or not code.co_filename.startswith("<"):
                raise Unproven(f"`{kind.__name__}.__new__` is not looked at")
            defaults = self.objects.value_of([*getattr(kind, "_field_defaults", {}).values()], f"{kind.__name__}[...]")
            self.fill(thing, args.all() | defaults)
            return made
        if isinstance(new, staticmethod) or has_function(kind, "__del__"):
            raise Unproven(
                f"`{kind.__name__}.{'__new__' if isinstance(new, staticmethod) else '__del__'}` is not looked at"
            )
        if isinstance(init, types.FunctionType):
            if _is_generated(kind, init):
                self.fill(thing, args.all() | self._defaults_of(kind))
                if has_function(kind, "__post_init__"):
                    self.call_method(made, "__post_init__", Args(others=args.all()), node)
            else:
                function = self.objects.value_of([init], f"{kind.__name__}.__init__")
                self.call(function, args.after(made), node)
        else:
            self.fill(thing, args.all() | self._library.pairs(args.all(), node))
        return made

    def _defaults_of(self, kind: Any) -> Value:
        fields = kind.__dataclass_fields__.values()
        if any(it.default_factory not in {dataclasses.MISSING, list, dict, set} for it in fields):
            raise Unproven(f"a `default_factory` of `{kind.__name__}` is not looked at")
        if has_function(kind, "__setattr__") and not kind.__dataclass_params__.frozen:
            raise Unproven(f"`{kind.__name__}.__setattr__` is not looked at")
        defaults = [it.default for it in fields if it.default is not dataclasses.MISSING]
        return self.objects.value_of(defaults, f"{kind.__name__}[...]")

    def _call_function(self, function: types.FunctionType, path: str, args: Args) -> Value:
        if self.is_listed(function.__module__):
            raise Unproven(f"`{path}` is not among the functions that are known")
        definition = find_node(function)
        if definition is None:
            raise Unproven(f"the code of `{path}` cannot be read: its source is not there, or was changed since")
        if function.__code__.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
            raise Unproven(f"`{path}` is a coroutine, which is not looked at")
        first = [
            self.objects.value_of([it], f"{path}.__defaults__[{i}]") for i, it in enumerate(function.__defaults__ or ())
        ]
        keywords = {
            name: self.objects.value_of([it], f"{path}.__kwdefaults__[{name!r}]")
            for name, it in (function.__kwdefaults__ or {}).items()
        }
        names = bind(self.made, definition, args, first, keywords)
        caller = (next(iter(names.values()), ABSENT), _class_around(function))
        return self._run((function, args), function, path, definition, names, caller, None)

    def _call_local(self, local: Local, args: Args) -> Value:
        arguments = local.node.args
        count = len(arguments.defaults)
        names_with = [
            it.arg for it, d in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if d is not None
        ]
        keywords = dict(zip(names_with, local.defaults[count:], strict=True))
        names = bind(self.made, local.node, args, local.defaults[:count], keywords)
        scope = local.scope
        return self._run((local, args), scope.function, scope.path, local.node, names, (ABSENT, None), scope)

    def _run(  # noqa: PLR0917 - what a call is made of.
        self,
        key: Any,
        function: types.FunctionType,
        path: str,
        node: FunctionNode,
        names: dict[str, Value],
        caller: tuple[Value, type | None],
        around: Scope | None,
    ) -> Value:
        if key in self._active or self._settled.get(key) == self.version:
            return self._results.get(key, UNASSIGNED)
        if key not in self._scopes:
            body = [node.body] if isinstance(node, ast.Lambda) else node.body
            self._scopes[key] = Scope(function, path, self.objects, body, names, around)
        scope = self._scopes[key]
        for name, value in names.items():
            scope.values[name] |= value
        reading = CodeReading(self, scope, caller)
        self._active.add(key)
        try:
            before = -1
            # The result may be among the things that it reads: it may call itself.
            while before != self.version:
                before = self.version
                reading.read(node)
                self._note_result(key, node, reading)
        finally:
            self._active.discard(key)
        self._settled[key] = self.version
        return self._results[key]

    def _note_result(self, key: Any, node: FunctionNode, reading: CodeReading) -> None:
        result = reading.returned
        if _yields(node):
            result = self.made(node, reading.yielded | reading.returned)
            # `StopIteration` carries it.
            self.made(RAISED, reading.returned)
        before = self._results.setdefault(key, UNASSIGNED)
        if not result <= before:
            self._results[key] = before | result
            self.note()


def _check_plain_change(kind: type, of: ast.AST | None) -> None:
    """Refuse that code of a class runs when an object of it is changed."""
    if isinstance(of, ast.AugAssign):
        raise Unproven(f"an operation in place on a {kind.__name__} is not looked at")
    for name in ("__setattr__", "__setitem__", "__delattr__", "__delitem__"):
        if has_function(kind, name):
            raise Unproven(f"`{kind.__name__}.{name}` is not looked at")
    if isinstance(of, ast.Attribute):
        found = attribute_of_class(kind, of.attr)
        if hasattr(found, "__set__") and not isinstance(found, types.MemberDescriptorType):
            raise Unproven(f"setting `{kind.__name__}.{of.attr}` is not looked at")


def _yields(node: FunctionNode) -> bool:
    todo: list[ast.AST] = [node.body] if isinstance(node, ast.Lambda) else list(node.body)
    while todo:
        it = todo.pop()
        if isinstance(it, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(it, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)):
            todo += ast.iter_child_nodes(it)
    return False


def _class_around(function: types.FunctionType) -> type | None:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        if name == "__class__":
            found: type = cell.cell_contents
            return found
    return None


def _is_generated(kind: type, function: types.FunctionType) -> bool:
    return "__dataclass_fields__" in vars(kind) and function.__code__.co_filename == "<string>"


_INDEX = ast.Subscript(ast.Name("dataset"), ast.Name("index"))
_INDICES = ast.List([])
_ITEMS = ast.List([])
_BATCH = ast.Call(ast.Name("collate_fn"), [], [])

# How many objects of a sampler are looked at.
_MOST_OBJECTS = 1_000_000


def find_obstacle(dataset: Any, collate_fn: Any, samplers: Sequence[Any], *, batched: bool) -> str | None:
    """Return why it is not proven that threads may share a dataset, or None if it is.

    It follows the code that loads an item from ``__getitem__`` on, through all functions of Python code, and knows the
    objects that they use. Threads may share the dataset if all that outlives the loading of an item is only read: by
    code that was followed, and by functions and methods of libraries that are known for it.

    The samplers are those that are not PyTorch's or ours: what they yield may be slices, and they may change the
    dataset.
    """
    search = CodeSearch()
    try:
        data = search.objects.value_of([dataset], "dataset")
        index = search.made(_INDEX) if samplers else PLAIN
        batch = _follow(
            search, data, collate_fn, index, in_one_call=batched and hasattr(dataset, "__getitems__"), batched=batched
        )
        for thing in reach(search, batch):
            _check_given_away(thing)
    except Unproven as found:
        return f"{found.what} ({found.place})" if found.place else found.what
    except Exception as error:  # noqa: BLE001 - objects may do anything when they are looked at.
        return f"its code cannot be followed: {error!r}"
    return _find_changing_sampler(samplers, {id(dataset), *search.objects.shared()})


def _follow(
    search: CodeSearch, data: Value, collate_fn: Any, index: Value, *, in_one_call: bool, batched: bool
) -> Value:
    if in_one_call:
        items = search.call_method(data, "__getitems__", Args((search.made(_INDICES, index, list),)), _INDEX)
    else:
        items = search.subscript(data, index, _INDEX)
        items = search.made(_ITEMS, items, list) if batched else items
    collate = search.objects.value_of([collate_fn], "collate_fn")
    return search.call(collate, Args((items,)), _BATCH)


def _check_given_away(thing: Thing) -> None:
    if not isinstance(thing, Held) or thing.kind in {tuple, frozenset}:
        return
    changes = is_of_python(thing.kind)
    if is_array(thing.kind):
        changes = any(getattr(getattr(it, "flags", None), "writeable", True) for it in thing.objects)
    if changes:
        raise Unproven(f"a batch may hold `{thing.path}` itself, which the loop could change")


def _globals_of(kind: type) -> list[Any]:
    """Return the variables of modules that the methods of a class name."""
    methods = [it for base in kind.__mro__ for it in vars(base).values() if isinstance(it, FunctionType)]
    return [
        method.__globals__[name]
        for method in methods
        for name in method.__code__.co_names
        if name in method.__globals__ and not isinstance(method.__globals__[name], (FunctionType, type, ModuleType))
    ]


def _find_changing_sampler(samplers: Sequence[Any], shared: set[int]) -> str | None:
    """Return which sampler can change what worker threads read, since it holds it: the loop's thread runs samplers."""
    for sampler in samplers:
        name = type(sampler).__name__
        for number, it in enumerate(reachable([sampler, *_globals_of(type(sampler))])):
            if id(it) in shared:
                return f"the {name} holds a {type(it).__name__} of the dataset, which it could change at the same time"
            if number > _MOST_OBJECTS:
                return f"the {name} holds more objects than are looked at"
    return None
