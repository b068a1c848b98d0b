"""Find the pipeline that the user names for `spdl profile`."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from spdl._signatures import signature
from spdl.cli._common.console import CommandError
from spdl.pipeline import Pipeline, PipelineBuilder
from spdl.pipeline.defs import PipelineConfig

ACCEPTED = (
    "Accepted is MODULE:NAME, where NAME is a PipelineBuilder, a PipelineConfig, or a function without parameters that"
    " returns one of them"
)


def find_pipeline(subject: str) -> PipelineConfig[Any]:
    """Import the object that `subject` names, call it if it is a function, and return the pipeline's declaration.

    Modules are searched in the current folder first.
    """
    module_name, _, path = subject.partition(":")
    if not module_name or not path:
        raise CommandError(f"got {subject!r}. {ACCEPTED}, such as train:make_pipeline for make_pipeline in train.py.")
    if module_name.endswith(".py") or "/" in module_name:
        name = ".".join(Path(module_name).with_suffix("").parts).lstrip(".")
        raise CommandError(
            f"{module_name!r} is a file. {ACCEPTED}: write {name}:{path}, in the folder that Python would import it"
            " from."
        )
    with _current_folder_importable():
        found = _import(module_name)
        for part in path.split("."):
            if not hasattr(found, part):
                raise CommandError(f"{subject!r} does not exist: {_name(found)} has no {part!r}{_hint(found)}.")
            found = getattr(found, part)
        return _declaration(found, subject)


@contextmanager
def _current_folder_importable() -> Iterator[None]:
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


def _import(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise CommandError(
                f"there is no module {error.name!r}, neither in {Path.cwd()} nor where Python looks for installed ones."
                " Run the command in the folder that holds it, or set PYTHONPATH."
            ) from error
        raise CommandError(f"importing {name!r} failed: {describe(error)}") from error
    except (Exception, SystemExit) as error:
        raise CommandError(f"importing {name!r} failed: {describe(error)}") from error


def _declaration(found: Any, subject: str) -> PipelineConfig[Any]:
    what = subject
    if not isinstance(found, PipelineBuilder | PipelineConfig) and callable(found):
        _check_parameters(found, subject)
        try:
            found = found()
        except (Exception, SystemExit) as error:
            raise CommandError(f"calling {subject} failed: {describe(error)}") from error
        what = f"{subject}()"
    if isinstance(found, PipelineBuilder):
        try:
            return found.get_config()
        except (RuntimeError, ValueError) as error:
            raise CommandError(f"{what} is not complete: {error}") from error
    if isinstance(found, PipelineConfig):
        return found
    remedy = " Return the builder itself, and call build() elsewhere." if isinstance(found, Pipeline) else ""
    raise CommandError(f"{what} is of type {type(found).__name__!r}. {ACCEPTED}.{remedy}")


def _check_parameters(function: Callable[..., Any], subject: str) -> None:
    try:
        parameters = signature(function)
    except (TypeError, ValueError):  # A function written in C may have none. Calling it will tell.
        return
    try:
        parameters.bind()
    except TypeError:
        raise CommandError(
            f"{subject} is a function with parameters, {parameters}. {ACCEPTED}: write one that calls it with what you"
            " want to profile."
        ) from None


def _name(found: Any) -> str:
    return f"module {found.__name__!r}" if hasattr(found, "__spec__") else repr(type(found).__name__)


def _hint(found: Any) -> str:
    names = [
        name
        for name, value in vars(found).items()
        if isinstance(value, PipelineBuilder | PipelineConfig)
        or (callable(value) and not name.startswith("_") and getattr(value, "__module__", "") == found.__name__)
    ]
    return f"; it has {', '.join(sorted(names))}" if names else ""


def describe(error: BaseException) -> str:
    """Return a description of the error and the place that raised it."""
    what = "".join(traceback.format_exception_only(error)).strip().replace("\n", "; ")
    frames = traceback.extract_tb(error.__traceback__, limit=-1)
    return what + "".join(f" ({frame.filename}:{frame.lineno})" for frame in frames)
