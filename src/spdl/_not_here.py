"""Missing names, arguments and packages: of spdl 0.8.0, of other libraries, and packages that are extras."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.
from spdl._locate import callers_line

P = ParamSpec("P")
Result = TypeVar("Result")


def require(package: str, purpose: str, *, extra: str = "", least: str = "") -> Any:
    """Return a package, or a module of it, that an extra of this distribution installs.

    The extra has the package's name, or another one.

    Raises:
        ModuleNotFoundError: If it is not installed, or older than `least`. The message has the remedy.
    """
    remedy = f"pip install 'spdl-turbo[{extra or package}]'"
    whole = package.partition(".")[0]
    try:
        found = importlib.import_module(package)
    except ModuleNotFoundError as error:
        if not f"{package}.".startswith(f"{error.name}."):  # It is there, but lacks something itself.
            raise
        raise ModuleNotFoundError(f"{purpose} needs the package {whole}: {remedy}", name=whole) from None
    if least and _numbers(found.__version__) < _numbers(least):
        raise ModuleNotFoundError(
            f"{purpose} needs the package {package} {least} or newer, and {found.__version__} is installed: {remedy}",
            name=package,
        )
    return found


def _numbers(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", version)[:3]]


PAGE = "docs/departures.md, 'Not here yet'"

NOT_HERE = {
    "spdl": {"autoresearch": "it is a separate product"},
}
"""The reason by module and name. A module asks only for a name that it lacks, so one that arrives needs no change here.
"""

_PACKAGES = ("spdl.dataloader", "spdl.source", "spdl.io", "spdl.pipeline", "spdl.store", "spdl.observe")

_ELSEWHERE = {
    "DatasetFolder": "spdl.source.ImageFolder",
    "RandomSampler": "spdl.source.ShuffledOrder",
    "Subset": "a list for it: [source[index] for index in indices]",
    "VideoLoader": "spdl.dataloader.ClipLoader",
    "WebDataset": "spdl.source.TarShards",
    "WeightedRandomSampler": "spdl.source.WeightedOrder",
    "WebLoader": "spdl.dataloader.ImageLoader, over spdl.source.TarShards",
    "imread": "spdl.io.load_image",
}
"""Ours by the names that other libraries have for it, for which we have no similar name."""

_SIMILAR = 0.8
_TELLING = 8
"""How many letters of one of our names identify it, if more follow."""


def missing(module: str, name: str) -> AttributeError | ImportError:
    """Return what a module's ``__getattr__`` raises for a name that it does not have.

    An `ImportError` if the name is imported: Python replaces the text of an `AttributeError` there.
    Everywhere else an `AttributeError`, so that `hasattr` answers.
    """
    reason = NOT_HERE.get(module, {}).get(name)
    if reason is not None:
        text = f"{module}.{name} is in spdl 0.8.0: {reason}. See {PAGE}"
    elif meant := _meant(module, name):
        text = f"module {module!r} has no attribute {name!r}. There is {meant}"
    else:
        return AttributeError(f"module {module!r} has no attribute {name!r}", name=name)
    return ImportError(text, name=module) if _is_import() else AttributeError(text, name=name)


def _meant(module: str, name: str) -> str:
    """Return the whole name of what was probably meant: something of that name or a similar one here or beside it."""
    if name.startswith("_") or not name[:1].isalpha():
        # Libraries look for those in any module.
        return ""
    from difflib import get_close_matches  # noqa: PLC0415 - only for a name that is missing.
    from importlib import import_module  # noqa: PLC0415

    if name in _ELSEWHERE:
        return _ELSEWHERE[name]
    known: dict[str, str] = {}
    for each in (module, *_PACKAGES):
        with suppress(ImportError):
            for public in getattr(import_module(each), "__all__", ()):
                known.setdefault(public, each)
    # The longest of our names that it begins with, such as ImageFolder of ImageFolderSource.
    begins = max((each for each in known if name.startswith(each)), key=len, default="")
    similar = [begins] if len(begins) >= _TELLING else get_close_matches(name, known, 1, _SIMILAR)
    return f"{known[similar[0]]}.{similar[0]}" if similar else ""


def _is_import() -> bool:
    """Return whether the module's ``__getattr__`` was called by ``from module import name``."""
    from dis import opmap  # noqa: PLC0415 - only for a name that is missing.

    frame = sys._getframe(3)  # noqa: SLF001 - of this function, `missing` and ``__getattr__``: the one that asks.
    code, position = frame.f_code.co_code, frame.f_lasti
    return 0 <= position < len(code) and code[position] == opmap["IMPORT_FROM"]


_NOT_NEEDED = "leave it out, since workers are threads of this process"
_THREADS = "use `num_threads`, since workers are threads of this process"

LOADER_WORDS = {
    "batch_sampler": "use `order` and `batch_size`",
    "collate_fn": "use `batch_transform`, which gets each batch",
    "dataset": "use `source`",
    "drop_remainder": "use `drop_last`",
    "generator": "use `seed`",
    "multiprocessing_context": _NOT_NEEDED,
    "num_workers": _THREADS,
    "persistent_workers": _NOT_NEEDED,
    "pin_memory": "use `device`, to which batches are copied through pinned memory",
    "prefetch_factor": "use `prefetch`, the number of finished batches that may wait",
    "sampler": "use `shuffle` or `order`",
    "worker_count": _THREADS,
    "worker_init_fn": _NOT_NEEDED,
}
"""What to use in a ready-made loader for the arguments of PyTorch's, tf.data's and Grain's loaders."""

MEDIA_WORDS = {
    **LOADER_WORDS,
    "target_transform": "use spdl.source.MappedRecords, which changes the records of a source",
    "transforms": "use `transform`",
}
"""The same for loaders of labelled media, with torchvision's words."""


def refuses(words: Mapping[str, str]) -> Callable[[Callable[P, Result]], Callable[P, Result]]:
    """Return a decorator. Its function refuses these arguments, which other libraries have, and says what to use.

    Raises:
        TypeError: From the function.
    """

    def decorate(function: Callable[P, Result]) -> Callable[P, Result]:
        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> Result:
            if theirs := [name for name in kwargs if name in words]:
                ours = type(args[0]).__name__ if function.__name__ == "__init__" else f"{function.__name__}()"
                has = "; no ".join(f"`{name}`: {words[name]}" for name in theirs)
                raise TypeError(f"{ours} has no argument {has} ({callers_line()}).")
            return function(*args, **kwargs)

        return call

    return decorate
