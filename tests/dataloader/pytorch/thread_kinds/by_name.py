"""Attributes that are found by name while the code runs: by libraries' `__getattr__`, in format strings, by getters.

Rows of the tables are what a dataset holds, and what it does with that and the index.
"""
# mypy: ignore-errors

import abc
import argparse
import codecs
import collections
import collections.abc
import ctypes
import datetime
import enum
import functools
import io
import itertools
import operator
import os
import re
import string
import tempfile
import types
import unittest.mock
import urllib.request
import weakref
from operator import attrgetter, itemgetter, methodcaller

import numpy as np
import torch

TEXT = "".join(f"{number:05d}\n" for number in range(400))


class Counting:
    """Counts how often its attribute is read."""

    n = 0

    @property
    def x(self):
        self.n += 1
        return self.n

    def __getitem__(self, key):
        self.n += 1
        return self.n

    def bump(self, *_):
        self.n += 1
        return self.n


class Shown(Counting):
    """Counts how often it is shown."""

    __getitem__ = None

    def __format__(self, spec):
        return str(self.bump())

    __str__ = __repr__ = lambda self: str(self.bump())


class Point:
    """Is only read."""

    def __init__(self, x=1.5):
        self.x = x
        self.parts = [x, x]

    def shifted(self, by):
        return self.x + by

    @property
    def double(self):
        return 2 * self.x


class Asked:
    """Answers every name with what it keeps."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        def call(*_):
            self.calls.append(name)
            return len(self.calls)

        return call


class FoundByPartial:
    """Has a function of a library for names that it lacks."""

    __getattr__ = functools.partialmethod(getattr)


class Intercepting:
    """Counts what is read."""

    calls = []

    def __getattribute__(self, name):
        Intercepting.calls.append(name)
        return len(Intercepting.calls)


class InterceptingByLibrary(Point):
    """Reads names with a function that is not Python code."""

    __getattribute__ = functools.partialmethod(getattr)


class Row(collections.namedtuple("Row", "name size")):
    """Is a tuple with names."""


Pair = collections.namedtuple("Pair", "name size")


class Color(enum.Enum):
    """Has a value for each name."""

    RED = 1
    BLUE = 2


class CountingColor(enum.Enum):
    """Counts how often it is asked."""

    RED = 1

    @property
    def x(self):
        KEPT.n += 1
        return KEPT.n


class CountingMeta(type):
    """Counts what is done with its classes."""

    n = 0

    def _count(cls, *_):
        CountingMeta.n += 1
        return CountingMeta.n

    x = property(_count)
    __eq__ = __len__ = __contains__ = _count
    __hash__ = type.__hash__

    def __iter__(cls):
        return iter([cls._count()])

    def __str__(cls):
        return str(cls._count())


class OfCountingMeta(metaclass=CountingMeta):
    """Has a class that counts."""


class Hooked(abc.ABC):
    """Counts questions."""

    @classmethod
    def __subclasshook__(cls, other):
        KEPT.n += 1
        return True


class Zone(datetime.tzinfo):
    """Counts how often it is asked."""

    n = 0

    def utcoffset(self, when):
        Zone.n += 1
        return datetime.timedelta(0)


class AsArray:
    """Counts how often it is made an array."""

    n = 0

    @property
    def __array_interface__(self):
        self.n += 1
        return np.zeros(2).__array_interface__


class AsTensor:
    """Counts the functions that it is given to."""

    n = 0

    @classmethod
    def __torch_function__(cls, *_):
        cls.n += 1
        return torch.tensor(cls.n)


class Mapping(collections.abc.Mapping):
    """Counts lookups."""

    n = 0

    def __getitem__(self, key):
        self.n += 1
        return self.n

    def __iter__(self):
        return iter(["x"])

    def __len__(self):
        return 1


class Formatting(string.Formatter):
    """Counts lookups of fields."""

    n = 0

    def get_field(self, *_):
        self.n += 1
        return self.n, "x"


def file_of(make):
    """Return a function that makes a file with text."""

    def write():
        file = make()
        file.write(TEXT)
        file.flush()
        file.seek(0)
        return file

    return write


def path_of_text():
    path = os.path.join(tempfile.mkdtemp(), "text.txt")
    with open(path, "w") as file:
        file.write(TEXT)
    return path


def frame(**columns):
    """Return a function that makes a table of pandas."""

    def make():
        import pandas as pd

        return pd.DataFrame(columns)

    return make


def lists():
    return [[number] for number in range(24)]


def counting_and_list():
    held = Counting()
    return types.SimpleNamespace(one=held, all=[held, Counting()], by_name={"a": held}, pair=(held, held))


def read_at(file, i):
    file.seek(6 * i)
    return file.readline()


def append_to(column, i):
    column[i].append(1)
    return len(column[i])


UNSAFE = {
    # Names that only `__getattr__` or `__getattribute__` of libraries knows.
    "ctypes_library": (lambda: ctypes.CDLL(None), lambda lib, i: lib.rand() % 1000),
    "ctypes_library_with_the_interpreters_lock": (lambda: ctypes.PyDLL(None), lambda lib, i: lib.rand() % 1000),
    "ctypes_of_python": (lambda: ctypes.pythonapi, lambda lib, i: lib.rand() % 1000),
    "ctypes_loader": (lambda: ctypes.cdll, lambda loader, i: loader.msvcrt),
    "ctypes_library_by_getattr": (lambda: ctypes.CDLL(None), lambda lib, i: getattr(lib, "rand")() % 1000),  # noqa: B009
    "ctypes_function": (lambda: ctypes.CDLL(None).rand, lambda rand, i: rand() % 1000),
    "ctypes_function_by_element": (lambda: ctypes.CDLL(None), lambda lib, i: lib["rand"]() % 1000),
    "ctypes_library_in_a_list": (lambda: [ctypes.CDLL(None)], lambda libs, i: libs[0].rand() % 1000),
    "ctypes_function_that_is_passed_on": (lambda: ctypes.CDLL(None), lambda lib, i: list(map(lib.abs, [i]))),
    "temporary_file": (file_of(lambda: tempfile.NamedTemporaryFile("w+")), read_at),
    "temporary_file_position": (file_of(lambda: tempfile.NamedTemporaryFile("w+")), lambda f, i: f.read(1)),
    "temporary_file_iterated": (file_of(lambda: tempfile.NamedTemporaryFile("w+")), lambda f, i: next(iter(f))),
    "temporary_file_entered": (file_of(lambda: tempfile.NamedTemporaryFile("w+")), lambda f, i: f.tell()),
    "spooled_file": (file_of(lambda: tempfile.SpooledTemporaryFile(mode="w+")), read_at),
    "file_of_codecs": (lambda: codecs.open(path_of_text(), encoding="utf8"), lambda f, i: f.tell()),
    "lines_of_codecs": (lambda: codecs.open(path_of_text(), encoding="utf8"), lambda f, i: f.readline()),
    "reader_of_codecs": (lambda: codecs.getreader("utf8")(io.BytesIO(TEXT.encode())), lambda f, i: f.tell()),
    "writer_of_codecs": (lambda: codecs.getwriter("utf8")(io.BytesIO()), lambda f, i: f.tell()),
    "recoder_of_codecs": (lambda: codecs.EncodedFile(io.BytesIO(TEXT.encode()), "utf8"), lambda f, i: f.tell()),
    "response_of_urllib": (lambda: urllib.request.urlopen(f"file://{path_of_text()}"), lambda f, i: f.read(1)),
    "mock": (unittest.mock.Mock, lambda mock, i: (mock.name(i), mock.name.call_count)[1]),
    "mock_that_is_called": (lambda: unittest.mock.Mock(side_effect=[*range(999)]), lambda mock, i: mock(i)),
    "mock_with_magic": (unittest.mock.MagicMock, lambda mock, i: (mock[i], mock.__getitem__.call_count)[1]),
    "mock_attribute": (unittest.mock.Mock, lambda mock, i: (mock.a.b.c(), len(mock.mock_calls))[1]),
    "mock_call_object": (lambda: unittest.mock.call, lambda call, i: len(call.a(i))),
    "attribute_of_a_weak_reference": (lambda: weakref.proxy(KEPT), lambda proxy, i: proxy.bump()),
    "answers_to_every_name": (Asked, lambda asked, i: asked.count(i)),
    "answer_that_is_kept": (lambda: Asked().count, lambda count, i: count(i)),
    "function_of_a_library_for_missing_names": (FoundByPartial, lambda o, i: o.nothing),
    "intercepted_names": (Intercepting, lambda o, i: o.anything),
    "names_intercepted_by_a_library": (InterceptingByLibrary, lambda o, i: o.x),
    "intercepted_names_by_getattr": (Intercepting, lambda o, i: getattr(o, "anything")),  # noqa: B009
    "intercepted_names_by_hasattr": (Intercepting, lambda o, i: hasattr(o, "anything") + len(Intercepting.calls)),
    "asked_whether_it_has_a_name": (lambda: ctypes.CDLL(None), lambda lib, i: hasattr(lib, "rand")),
    "operators_of_torch": (lambda: torch.zeros(3), lambda t, i: float(torch.ops.aten.add_(t, 1)[0])),
    # Format strings.
    "format_place": (Counting, lambda o, i: "{0.x}".format(o)),
    "format_next_place": (Counting, lambda o, i: "{.x}".format(o)),
    "format_keyword": (Counting, lambda o, i: "{a.x}".format(a=o)),
    "format_element": (lambda: [Counting()], lambda o, i: "{a[0].x}".format(a=o)),
    "format_of_a_users_element": (Counting, lambda o, i: "{0[x]}".format(o)),
    "format_in_a_dict": (lambda: {"a": Counting()}, lambda o, i: "{a.x}".format(**o)),
    "format_in_a_list": (lambda: [Counting()], lambda o, i: "{.x}".format(*o)),
    "format_map": (lambda: {"a": Counting()}, lambda o, i: "{a.x}".format_map(o)),
    "format_map_of_a_dict_of_the_call": (Counting, lambda o, i: "{a.x}".format_map({"a": o})),
    "format_map_of_a_users_mapping": (Mapping, lambda o, i: "{x}".format_map(o)),
    "format_width": (Counting, lambda o, i: "{0:{1.x}}".format(i, o)),
    "format_that_is_held": (lambda: ("{0.x}", Counting()), lambda o, i: o[0].format(o[1])),
    "format_of_two": (lambda: (["{0.x}", Counting()], Counting()), lambda o, i: o[0][0].format(o[1])),
    "format_that_is_made": (Counting, lambda o, i: ("{0." + "x}").format(o)),
    "format_method_that_is_kept": (lambda: ("{0.x}".format, Counting()), lambda o, i: o[0](o[1])),
    "format_method_of_the_call": (Counting, lambda o, i: [f(o) for f in ["{0.x}".format]]),
    "format_method_in_map": (lambda: [Counting()], lambda o, i: list(map("{0.x}".format, o))),
    "format_method_in_a_partial": (Counting, lambda o, i: functools.partial("{0.x}".format, o)()),
    "format_of_the_class": (Counting, lambda o, i: str.format("{0.x}", o)),
    "format_of_the_class_in_map": (lambda: [Counting()], lambda o, i: list(map(str.format, ["{0.x}"], o))),
    "format_by_getattr": (Counting, lambda o, i: getattr("{0.x}", "format")(o)),  # noqa: B009
    "format_calls_format": (Shown, lambda o, i: "{}".format(o)),
    "format_calls_repr": (Shown, lambda o, i: "{!r}".format(o)),
    "format_calls_str_in_a_list": (lambda: [Shown()], lambda o, i: "{}".format(o)),
    "format_calls_format_of_fields": (Shown, lambda o, i: f"{o}"),
    "format_function": (Shown, lambda o, i: format(o)),
    "percent": (Shown, lambda o, i: "%s" % o),
    "percent_of_a_mapping": (Mapping, lambda o, i: "%(x)s" % o),
    "join_in_map": (lambda: [Counting()], lambda o, i: [f(o) for f in [" ".join]]),
    "formatter_of_python": (lambda: (string.Formatter(), Counting()), lambda o, i: o[0].format("{0.x}", o[1])),
    "formatter_of_the_user": (Formatting, lambda o, i: o.format("{x}")),
    "template_of_python": (lambda: (string.Template("$x"), Mapping()), lambda o, i: o[0].substitute(o[1])),
    "format_below_a_named_tuple": (lambda: Pair(Counting(), 1), lambda o, i: "{0.name.x}".format(o)),
    "format_of_a_namespace": (lambda: types.SimpleNamespace(o=Counting()), lambda o, i: "{0.o.x}".format(o)),
    # Getters.
    "getter_in_map": (Counting, lambda o, i: list(map(attrgetter("x"), [o]))),
    "getter_in_map_of_a_module": (Counting, lambda o, i: list(map(operator.attrgetter("x"), [o]))),
    "getter_as_a_key_of_max": (counting_and_list, lambda o, i: max(o.all, key=attrgetter("x")).n),
    "getter_as_a_key_of_min": (counting_and_list, lambda o, i: min(o.all, key=attrgetter("x")).n),
    "getter_as_a_key_of_sorted": (counting_and_list, lambda o, i: sorted(o.all, key=attrgetter("x"))[0].n),
    "getter_as_a_key_of_groupby": (
        counting_and_list,
        lambda o, i: [key for key, _ in itertools.groupby(o.all, attrgetter("x"))],
    ),
    "getter_in_filter": (counting_and_list, lambda o, i: len(list(filter(attrgetter("x"), o.all))) + o.one.n),
    "getter_in_takewhile": (
        counting_and_list,
        lambda o, i: len([*itertools.takewhile(attrgetter("x"), o.all)]) + o.one.n,
    ),
    "getter_that_is_called": (Counting, lambda o, i: attrgetter("x")(o)),
    "getter_in_a_variable": (Counting, lambda o, i: [get(o) for get in (attrgetter("x"),)]),
    "getter_of_two_names": (Counting, lambda o, i: list(map(attrgetter("n", "x"), [o]))),
    "getter_of_a_path": (lambda: types.SimpleNamespace(a=Counting()), lambda o, i: list(map(attrgetter("a.x"), [o]))),
    "getter_of_a_computed_name": (lambda: ("x", Counting()), lambda o, i: list(map(attrgetter(o[0]), o[1:]))),
    "getter_that_is_held": (lambda: (attrgetter("x"), Counting()), lambda o, i: o[0](o[1])),
    "getter_that_is_held_in_map": (lambda: (attrgetter("x"), [Counting()]), lambda o, i: list(map(*o))),
    "getter_in_a_partial": (Counting, lambda o, i: functools.partial(attrgetter("x"), o)()),
    "getter_in_a_held_partial": (lambda: functools.partial(attrgetter("x"), Counting()), lambda f, i: f()),
    "getter_of_a_method": (Counting, lambda o, i: [f() for f in map(attrgetter("bump"), [o])]),
    "item_getter_in_map": (Counting, lambda o, i: list(map(itemgetter("x"), [o]))),
    "item_getter_as_a_key": (counting_and_list, lambda o, i: max(o.all, key=itemgetter(0)).n),
    "item_getter_that_is_called": (Counting, lambda o, i: itemgetter("x")(o)),
    "item_getter_that_is_held": (lambda: (itemgetter("x"), Counting()), lambda o, i: o[0](o[1])),
    "item_getter_whose_result_is_changed": (
        lambda: [[[0]]],
        lambda o, i: (next(map(itemgetter(0), o)).append(1), len(o[0][0]))[1],
    ),
    "method_caller_in_map": (Counting, lambda o, i: list(map(methodcaller("bump"), [o]))),
    "method_caller_as_a_key": (counting_and_list, lambda o, i: max(o.all, key=methodcaller("bump")).n),
    "method_caller_that_is_called": (Counting, lambda o, i: methodcaller("bump")(o)),
    "method_caller_that_is_held": (lambda: (methodcaller("bump"), Counting()), lambda o, i: o[0](o[1])),
    "method_caller_of_a_list": (lambda: [0], lambda o, i: (methodcaller("append", 1)(o), len(o))[1]),
    "partial_in_map": (Counting, lambda o, i: list(map(functools.partial(Counting.bump, o), [1]))),
    "partial_of_a_method_in_map": (Counting, lambda o, i: list(map(functools.partial(o.bump), [1]))),
    "partial_as_a_key": (Counting, lambda o, i: max([1, 2], key=functools.partial(o.bump)) + o.n),
    "partial_of_a_partial": (
        Counting,
        lambda o, i: list(map(functools.partial(functools.partial(Counting.bump, o)), [1])),
    ),
    "methods_in_a_list": (Counting, lambda o, i: [f() for f in [o.bump]]),
    "methods_in_a_dict": (Counting, lambda o, i: {"f": o.bump}["f"]()),
    "method_of_one_of_two": (lambda: (re.compile("a"), Counting()), lambda o, i: o[0].sub(lambda _: str(o[1].x), "a")),
    # What belongs to classes.
    "property_of_an_enum": (lambda: CountingColor.RED, lambda o, i: o.x),
    "property_of_a_member": (lambda: CountingColor, lambda o, i: o.RED.x),
    "property_of_a_member_by_name": (lambda: CountingColor, lambda o, i: o["RED"].x),
    "property_of_a_member_by_value": (lambda: CountingColor, lambda o, i: o(1).x),
    "property_of_all_members": (lambda: CountingColor, lambda o, i: [each.x for each in o]),
    "property_of_a_class": (lambda: OfCountingMeta, lambda o, i: o.x),
    "property_of_a_class_by_a_getter": (lambda: OfCountingMeta, lambda o, i: list(map(attrgetter("x"), [o]))),
    "property_of_a_class_in_a_format": (lambda: OfCountingMeta, lambda o, i: "{.x}".format(o)),
    "class_that_is_shown": (lambda: OfCountingMeta, lambda o, i: f"{o}"),
    "class_that_is_compared": (lambda: OfCountingMeta, lambda o, i: (o == 1) + CountingMeta.n),
    "class_that_is_counted": (lambda: [OfCountingMeta], lambda o, i: o.count(1) + CountingMeta.n),
    "class_that_is_a_key": (lambda: {OfCountingMeta: 1}, lambda o, i: o.get(1, 0) + CountingMeta.n),
    "class_that_contains": (lambda: OfCountingMeta, lambda o, i: (1 in o) + CountingMeta.n),
    "class_that_has_a_length": (lambda: OfCountingMeta, lambda o, i: len(o)),
    "class_that_is_iterated": (lambda: OfCountingMeta, lambda o, i: list(o)),
    "class_that_is_asked_for_instances": (lambda: Hooked, lambda o, i: isinstance(i, o) + KEPT.n),
    "class_that_is_asked_for_subclasses": (lambda: Hooked, lambda o, i: issubclass(int, o) + KEPT.n),
    "time_zone": (lambda: datetime.datetime(2026, 1, 1, tzinfo=Zone()), lambda o, i: (o.isoformat(), Zone.n)[1]),
    "object_that_is_made_an_array": (AsArray, lambda o, i: (np.array(o), o.n)[1]),
    "object_that_is_given_to_torch": (AsTensor, lambda o, i: torch.add(o, 1)),
    "getattr_in_map": (lambda: [Counting()], lambda o, i: list(map(getattr, o, ["x"]))),
    "hasattr_in_map": (lambda: [Counting()], lambda o, i: (list(map(hasattr, o, ["x"])), o[0].n)[1]),
}

# Tables of pandas, by the names of their columns.
UNSAFE_TABLES = {
    "column_of_lists": (frame(tags=lists()), lambda df, i: append_to(df.tags, i)),
    "values_of_a_column_of_lists": (frame(tags=lists()), lambda df, i: append_to(df.tags.values, i)),
    "array_of_a_column_of_lists": (frame(tags=lists()), lambda df, i: append_to(df.tags.array, i)),
    "column_of_functions": (frame(f=[KEPT.bump for KEPT in [Counting()] * 24]), lambda df, i: df.f[i](i)),
    "column_in_place": (frame(a=[*range(24)]), lambda df, i: df.a.__iadd__(1)[i]),
    "column_by_getattr": (frame(tags=lists()), lambda df, i: append_to(getattr(df, "tags"), i)),  # noqa: B009
    "column_by_a_getter": (frame(tags=lists()), lambda df, i: append_to(attrgetter("tags")(df), i)),
    "group_of_a_table": (lambda: frame(a=[*range(24)], b=lists())().groupby("a"), lambda g, i: len(g.b)),
    "element_of_a_series": (lambda: frame(tags=lists())().tags, lambda s, i: append_to(s, i)),
    "name_of_a_row": (
        lambda: frame(tags=[[1]], other=[[2]])().iloc[0],
        lambda s, i: (s.tags.append(1), len(s.tags))[1],
    ),
}

SAFE = {
    "attributes": (Point, lambda o, i: o.x + i),
    "property": (Point, lambda o, i: o.double + i),
    "getattr_with_a_name": (Point, lambda o, i: getattr(o, "x") + i),  # noqa: B009
    "getattr_of_a_missing_name": (Point, lambda o, i: getattr(o, "y", i)),
    "hasattr_of_a_missing_name": (Point, lambda o, i: hasattr(o, "y") + i),
    "guarded_missing_name": (Point, lambda o, i: o.y() if hasattr(o, "y") else i),
    "namespace": (lambda: types.SimpleNamespace(x=2), lambda o, i: o.x + i),
    "namespace_of_argparse": (lambda: argparse.Namespace(x=2), lambda o, i: o.x + i),
    "named_tuple": (lambda: Pair("a", 2), lambda o, i: o.size + i),
    "subclass_of_a_named_tuple": (lambda: Row("a", 2), lambda o, i: o.size + i),
    "enum": (lambda: Color.RED, lambda o, i: o.value + i),
    "time_zone": (lambda: datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC), lambda o, i: o.isoformat()),
    "format": (lambda: "{} {}", lambda text, i: text.format(i, i + 1)),
    "format_by_name": (lambda: {"a": 1, "b": 2}, lambda o, i: "{a} {b} {i}".format(i=i, **o)),
    "format_number": (lambda: 1.5, lambda o, i: "{:.3f} {:>{}}".format(o, i, 5)),
    "format_element": (lambda: [1, 2], lambda o, i: "{0[1]} {1}".format(o, i)),
    "format_map": (lambda: {"a": 1}, lambda o, i: "{a}".format_map(o)),
    "format_of_a_held_text": (lambda: ["{:05d}.jpg", "{:03d}"], lambda o, i: o[i % 2].format(i)),
    "format_shape": (lambda: np.zeros((2, 3)), lambda o, i: "{0.shape}".format(o)),
    "format_method_in_map": (lambda: ["a", "b"], lambda o, i: list(map("<{}>".format, o))),
    "percent": (lambda: {"a": 1}, lambda o, i: str("%(a)s" % o) + str("%05d" % i)),
    "join": (lambda: ["a", "b"], lambda o, i: "-".join(o)),
    "join_in_a_variable": (lambda: ["a", "b"], lambda o, i: [join(o) for join in ["-".join]]),
    "item_getter_as_a_key": (lambda: [(3, "a"), (1, "b")], lambda o, i: sorted(o, key=itemgetter(1))[0][0]),
    "item_getter_of_dicts": (lambda: [{"a": 3}, {"a": 1}], lambda o, i: max(o, key=itemgetter("a"))["a"]),
    "item_getter_of_named_tuples": (lambda: [Pair("b", 1), Pair("a", 2)], lambda o, i: min(o, key=itemgetter(0)).size),
    "item_getter_of_the_call": (lambda: {"a": 3, "b": 4}, lambda o, i: str(itemgetter("a", "b")(o))),
    "item_getter_that_is_held": (lambda: types.SimpleNamespace(a=itemgetter("a")), lambda o, i: o.a({"a": i})),
    "partial_in_map": (lambda: 2, lambda o, i: list(map(functools.partial(pow, o), range(3)))),
    "partial_of_a_users_function": (Point, lambda o, i: str([*map(functools.partial(Point.shifted, o), [i])])),
    "lambda_in_map": (lambda: [Point(2)], lambda o, i: str([*map(lambda p: p.x, o)])),
    "methods_in_a_dict": (Point, lambda o, i: {"f": o.shifted}["f"](i)),
}

KEPT = Counting()
