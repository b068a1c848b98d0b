"""Every public name is documented in full: arguments and results with units, errors, and an example."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import itertools
import re
import textwrap
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import spdl

if TYPE_CHECKING:
    from collections.abc import Callable

SOURCE = Path(spdl.__file__).parent.parent
REFERENCE = Path(__file__).parents[2] / "docs" / "reference"
PUBLIC = sorted(
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in SOURCE.glob("spdl/**/*.py")
    if not any(part.startswith("_") and part != "__init__.py" for part in path.relative_to(SOURCE).parts)
)
MODULES = [name for name in PUBLIC if name not in ("spdl", "spdl.cli")]


class Named:
    """A public name and its documentation."""

    def __init__(self, module: str, name: str, value: Any) -> None:
        self.module = module
        self.path = f"{module}.{name}"
        self.value = value
        self.is_class = inspect.isclass(value)
        self.doc = inspect.getdoc(value) or "" if self.is_class or inspect.isroutine(value) else _below(module, name)
        own = dict(vars(value)) if self.is_class else {}
        # Slots are the fields, which the class describes.
        # A base that is not public is described by its subclasses.
        for base in value.__mro__[1:] if self.is_class else ():
            if base.__module__.startswith("spdl.") and base.__name__ not in _exported():
                own = {**vars(base), **own}
        self.methods = {
            key: member
            for key, member in own.items()
            if not key.startswith("_")
            and (inspect.isroutine(_function(member)) or inspect.isdatadescriptor(member))
            and not inspect.ismemberdescriptor(member)
        }

    @property
    def everything(self) -> str:
        """Return the name's own text and that of its methods."""
        texts = [inspect.getdoc(_function(member)) or "" for member in self.methods.values()]
        if self.is_class:
            texts += [inspect.getdoc(vars(self.value).get(name)) or "" for name in ("__new__", "__init__")]
        return "\n".join([self.doc, *texts, *_fields(self.value).values()])

    def __str__(self) -> str:
        return self.path


def _function(member: Any) -> Any:
    if isinstance(member, property):
        return member.fget
    return member.__func__ if isinstance(member, classmethod | staticmethod) else member


@cache
def _fields(value: Any) -> dict[str, str]:
    """Return the fields that a class declares, with the text below each."""
    try:
        (tree,) = ast.parse(textwrap.dedent(inspect.getsource(value))).body
    except (OSError, TypeError):
        return {}
    if not isinstance(tree, ast.ClassDef):
        return {}
    found = {}
    for statement, below in zip(tree.body, [*tree.body[1:], None], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            text = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else ""
            if not statement.target.id.startswith("_"):
                found[statement.target.id] = str(text)
    return found


def _below(module: str, name: str) -> str:
    """Return the text below the definition of an alias."""
    for path in sorted(Path(inspect.getfile(importlib.import_module(module))).parent.rglob("*.py")):
        for first, second in itertools.pairwise(ast.parse(path.read_text(encoding="utf-8")).body):
            target = first.target if isinstance(first, ast.AnnAssign) else None
            if isinstance(target, ast.Name) and target.id == name and isinstance(second, ast.Expr):
                return inspect.cleandoc(ast.literal_eval(second.value))
    return ""


@cache
def _exported() -> frozenset[str]:
    return frozenset(name for module in MODULES for name in importlib.import_module(module).__all__)


def _public() -> list[Named]:
    found: dict[int, Named] = {}
    for module in MODULES:
        namespace = importlib.import_module(module)
        for name in namespace.__all__:
            value = getattr(namespace, name)
            found.setdefault(id(value), Named(module, name, value))
    return list(found.values())


NAMES = _public()
FUNCTIONS = [name for name in NAMES if inspect.isroutine(name.value)]
CLASSES = [name for name in NAMES if name.is_class]


def section(doc: str, *titles: str) -> str:
    """Return the text below a heading of a docstring."""
    found = re.search(rf"^(?:{'|'.join(titles)}):\n((?:[ ]{{4}}.*(?:\n|$)|\n)*)", doc, re.MULTILINE)
    return found[1] if found else ""


def entries(text: str) -> dict[str, str]:
    """Return the arguments, or fields, that a section describes."""
    parts = re.split(r"^ {4}\*{0,2}(\w[\w, ]*?)(?: \([^)]*\))?:", text, flags=re.MULTILINE)
    return {
        name.strip(): said for names, said in zip(parts[1::2], parts[2::2], strict=True) for name in names.split(",")
    }


def parameters(function: Any) -> list[str]:
    try:
        found = inspect.signature(function).parameters
    except (ValueError, TypeError):  # nanobind's functions give theirs in their text.
        return []
    return [name for name in found if name not in ("self", "cls")]


def described(name: Named) -> dict[str, str]:
    """Return the descriptions of a name's arguments and fields, by name."""
    return entries(section(name.doc, "Args", "Attributes")) | {k: v for k, v in _fields(name.value).items() if v}


def users_make(name: Named) -> bool:
    """Return whether users create objects of a class, with arguments of their own."""
    return bool(section(name.doc, "Args"))


def test_modules_are_found() -> None:
    assert {"spdl.pipeline", "spdl.pipeline.defs", "spdl.pipeline.config", "spdl.io", "spdl.io.utils"} <= set(MODULES)
    assert {"spdl.dataloader", "spdl.source", "spdl.source.utils", "spdl.source.imagenet"} <= set(MODULES)
    assert len(NAMES) > 100
    assert {"spdl.io.load_npy", "spdl.io.load_image_batch", "spdl.io.to_torch"} <= {name.path for name in LOADERS}
    assert {"spdl.io.save_npy", "spdl.io.save_npz", "spdl.io.transfer_buffer"} <= {name.path for name in TAKERS}


def check_it_says_what_it_is(name: Named) -> None:
    first, _, _ = name.doc.partition("\n")
    assert first.endswith((".", ":")), "the first line is a sentence"
    inherited = [getattr(base, "__doc__", None) for base in name.value.__mro__[1:]] if name.is_class else []
    assert name.doc not in [inspect.cleandoc(text) for text in inherited if text], "the text is another class's"


def check_an_example_shows_it(name: Named) -> None:
    assert ">>>" in name.everything
    if not (name.is_class or inspect.isroutine(name.value)):  # doctest does not find the text below an alias.
        test = doctest.DocTestParser().get_doctest(name.doc, {}, name.path, None, None)
        assert doctest.DocTestRunner().run(test).failed == 0


def introduction(doc: str) -> str:
    """Return the text above the first heading."""
    return re.split(r"^(?:Args|Attributes|Returns|Yields|Raises|Example):$", doc, maxsplit=1, flags=re.MULTILINE)[0]


def says_what_it_raises(doc: str) -> bool:
    told = r"\b[Nn]ever raises|\b[Ww]hat (\w+\s){1,3}raises|\b(Its|An|Any) exceptions?\b|\bIf (\w+\s){1,4}raises\b"
    return bool(section(doc, "Raises") or re.search(told, introduction(doc) + section(doc, "Returns")))


def says_what_it_returns(function: Any, doc: str) -> bool:
    """Return whether a section or the first words say it, or there is nothing to say."""
    if result_of(function) in {"None", "Self", "AsyncIterator[None]", ""}:
        return True
    told = re.match(r"(Return|Whether|How many|The|What|An?)\b|.*(\. | and )[Rr]eturn\b", doc)
    return bool(told or section(doc, "Returns", "Yields"))


def result_of(function: Any) -> str:
    try:
        result = inspect.signature(function).return_annotation
    except (ValueError, TypeError):  # nanobind's functions have none.
        return ""
    return "" if result is inspect.Signature.empty else str(result)


def check_arguments_results_and_errors(name: Named) -> None:
    taken = parameters(name.value)
    assert set(taken) <= set(described(name)), "the Args of the docstring lack some"
    assert not taken or says_what_it_raises(name.doc), "what it raises is not said"
    assert says_what_it_returns(name.value, name.doc), "what it returns is not said"


def check_fields_and_arguments_of_a_class(name: Named) -> None:
    lacking = set(_fields(name.value)) - set(described(name))
    assert not lacking, "fields without a description"
    if users_make(name):
        assert set(parameters(name.value)) <= set(described(name)), "the Args of the docstring lack some"
        assert says_what_it_raises(name.doc), "what it raises is not said"


def check_methods_of_a_class(name: Named) -> None:
    for key, member in name.methods.items():
        doc = inspect.getdoc(_function(member)) or ""
        assert doc, f"{key} is not described"
        if inspect.isroutine(_function(member)) and not isinstance(member, property):
            # A single argument that the first line mentions needs no list.
            taken = parameters(_function(member))
            said = entries(section(doc, "Args"))
            assert set(taken) <= set(said) or (len(taken) == 1 and not said), f"{key}: Args lack some of {taken}"
            assert not taken or says_what_it_raises(doc), f"{key}: what it raises is not said"
            assert says_what_it_returns(_function(member), doc), f"{key}: what it returns is not said"


DURATIONS = re.compile(r"timeout|delay|(^|stats_)interval|seconds|elapsed|(^|_)time$")
SIZES = {"width": "pixels", "height": "pixels", "scale_width": "pixels", "scale_height": "pixels"}


def check_units_are_named(name: Named) -> None:
    for key, said in described(name).items():
        if DURATIONS.search(key) and key != "on_timeout":
            assert re.search(r"[Ss]econds|`stop`|As for|Accepted for compatibility|[Tt]ime ", said), (
                f"{key}: in which unit?"
            )
        if key in SIZES:
            assert SIZES[key] in name.doc, f"{key}: in which unit?"
        if "bytes" in key:
            assert "bytes" in said.lower(), f"{key}: in which unit?"


ARRAYS = re.compile(r"ndarray|Tensor|CPUBuffer|CUDABuffer|jax\.Array|NpzFile")
OWNERSHIP = re.compile(
    r"view|copied|copies|copy|own memory|memory of its own|of their own|shares?|keeps? .*alive|read-only"
)
ELEMENTS = re.compile(r"uint8|float|int16|dtype|element|bytes")
SHAPES = re.compile(r"\(\s*\w+(, ?\w+)+,?\)|shape|dimension|by key")


LOADERS = [name for name in FUNCTIONS if ARRAYS.search(str(inspect.signature(name.value).return_annotation))]


TAKEN = re.compile(r"ndarray|NDArray|ArrayLike|ArrayInterface|CPUBuffer|CUDABuffer")
TAKERS = [
    name
    for name in FUNCTIONS
    if any(TAKEN.search(str(parameter.annotation)) for parameter in inspect.signature(name.value).parameters.values())
]


def check_arrays_that_are_taken_have_shapes_and_types(name: Named) -> None:
    said = name.doc.partition("\nExample:\n")[0]
    assert SHAPES.search(said), "of which shape is it?"
    assert ELEMENTS.search(said), "what are its elements?"


def check_arrays_have_shapes_types_and_owners(name: Named) -> None:
    said = section(name.doc, "Returns")
    assert said, "what it returns is not said"
    assert OWNERSHIP.search(said), "whose memory is it?"
    assert SHAPES.search(name.doc), "of which shape is it?"
    assert ELEMENTS.search(name.doc), "what are its elements?"


HANDED_ON = re.compile(r"ImagePackets|ImageFrames")
HANDING_ON = [name for name in FUNCTIONS if HANDED_ON.search(str(inspect.signature(name.value)))]


def check_packets_and_frames_have_owners(name: Named) -> None:
    said = name.doc.partition("\nExample:\n")[0]
    assert re.search(r"consume|keeps? |kept ", said), "who has them afterwards?"


def listed(page: str) -> list[str]:
    """Return the names that a page of the reference lists, which have pages of their own, or describes itself."""
    found = re.findall(r"py:data:: (\S+)$", page, re.MULTILINE)
    lists = r"currentmodule:: (\S+)\n\n\.\. autosummary::\n(?: {3}:.*\n)+\n((?: {3}\w+\n)+)"
    for module, names in re.findall(lists, page):
        found += [f"{module}.{name}" for name in names.split()]
    return found


def test_every_public_name_is_in_the_reference() -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in REFERENCE.glob("*.md"))
    whole = set(re.findall(r"automodule:: (\S+)\n(?! +:no-members:)", pages))
    single = listed(pages)
    # A name of two modules has one page.
    shown = {id(getattr(importlib.import_module(path.rpartition(".")[0]), path.rpartition(".")[2])) for path in single}
    lacking = [name.path for name in NAMES if name.module not in whole and id(name.value) not in shown]
    assert lacking == [], "list them in the page of their module in docs/reference"
    assert len(single) == len(set(single)), "some are there twice"
    assert len(shown) > 250


CHECKS: dict[Callable[[Named], None], list[Named]] = {
    check_it_says_what_it_is: NAMES,
    check_an_example_shows_it: NAMES,
    check_arguments_results_and_errors: FUNCTIONS,
    check_fields_and_arguments_of_a_class: CLASSES,
    check_methods_of_a_class: CLASSES,
    check_units_are_named: NAMES,
    check_arrays_have_shapes_types_and_owners: LOADERS,
    check_arrays_that_are_taken_have_shapes_and_types: TAKERS,
    check_packets_and_frames_have_owners: HANDING_ON,
}


# One test for all names, because each test looks for leaks, which takes longer than reading a docstring.
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: str(check.__name__.removeprefix("check_")))
def test_every_public_name(check: Callable[[Named], None]) -> None:
    faults = {}
    for name in CHECKS[check]:
        try:
            check(name)
        except AssertionError as fault:
            faults[name.path] = str(fault).partition("\n")[0]
    assert faults == {}


@pytest.mark.parametrize(
    ("doc", "wrong"),
    [
        ("Waits.\n\nArgs:\n    timeout: How long.\n\nRaises:\n    OSError: If so.\n", check_units_are_named),
        ("Return it.\n\nArgs:\n    timeout: Seconds.\n\nExample:\n    >>> 1\n", check_arguments_results_and_errors),
        ("Return it.\n\nRaises:\n    OSError: If so.\n\nExample:\n    >>> 1\n", check_arguments_results_and_errors),
        ("Waits.\n\nArgs:\n    timeout: Seconds.\n\nRaises:\n    OSError: If so.\n", check_an_example_shows_it),
        (
            "Waits.\n\nArgs:\n    timeout: Seconds.\n\nRaises:\n    OSError: If so.\n",
            check_arguments_results_and_errors,
        ),
        ("no sentence", check_it_says_what_it_is),
    ],
)
def test_what_is_lacking_is_found(doc: str, wrong: Any) -> None:
    def function(timeout: float) -> float:
        return timeout

    function.__doc__ = doc
    with pytest.raises(AssertionError):
        wrong(Named("spdl", "function", function))


@pytest.mark.parametrize(
    ("doc", "fault"),
    [
        ("", "not described"),
        ("Return it.\n\nArgs:\n    other: What.\n\nRaises:\n    OSError: If so.", "Args lack"),
        ("Return it.\n\nArgs:\n    op: What it raises fails all.", "raises is not said"),
        ("Wait until the ops return.\n\nArgs:\n    op: It.\n\nRaises:\n    OSError: If so.", "returns is not said"),
    ],
)
def test_what_methods_lack_is_found(doc: str, fault: str) -> None:
    class Waiter:
        def wait(self, op: str) -> str:
            return op

    Waiter.wait.__doc__ = doc
    with pytest.raises(AssertionError, match=fault):
        check_methods_of_a_class(Named("spdl", "Waiter", Waiter))


@pytest.mark.parametrize(
    "doc", ["Copy it.\n\nArgs:\n    array: Of bytes.", "Copy it.\n\nArgs:\n    array: Of any shape."]
)
def test_arrays_without_shape_or_type_are_found(doc: str) -> None:
    def function(array: object) -> None: ...

    function.__doc__ = doc
    with pytest.raises(AssertionError):
        check_arrays_that_are_taken_have_shapes_and_types(Named("spdl", "function", function))
