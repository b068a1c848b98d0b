"""Every public name of spdl 0.8.0 is here, or is told not to be, and listed in docs/departures.md.

`spdl_0_8_names.json` is what ``__all__`` of its modules held, by introspection of the released wheel.
"""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.repository.public_api import NEEDS_TORCH

ROOT = Path(__file__).parents[2]
RECORDED: dict[str, list[str]] = json.loads(Path(__file__).with_name("spdl_0_8_names.json").read_text(encoding="utf-8"))


def lacks(module: str, name: str) -> bool:
    if f"{module}.{name}" in NEEDS_TORCH and find_spec("torch") is None:
        return False
    return not hasattr(importlib.import_module(module), name)


MISSING = sorted((module, name) for module, names in RECORDED.items() for name in names if lacks(module, name))


def test_the_record_is_whole() -> None:
    assert sum(map(len, RECORDED.values())) > 150
    assert {"spdl.io", "spdl.pipeline", "spdl.pipeline.defs", "spdl.dataloader", "spdl.source"} <= RECORDED.keys()


def test_the_page_lists_each_name_that_is_missing() -> None:
    page = (ROOT / "docs" / "departures.md").read_text(encoding="utf-8")
    listed = page.partition("## Not here yet\n")[2].partition("\n## ")[0]
    names = set(re.findall(r"`([\w.]+)`", listed))
    assert {f"{module}.{name}" for module, name in MISSING} <= names


@pytest.mark.parametrize(("module", "name"), MISSING)
def test_a_missing_name_is_told_with_the_page(module: str, name: str) -> None:
    told = rf"{module}\.{name} is in spdl 0\.8\.0: .+\. See docs/departures\.md"
    with pytest.raises(AttributeError, match=told):
        getattr(importlib.import_module(module), name)
    with pytest.raises(ImportError, match=told):
        exec(f"from {module} import {name}")  # noqa: S102 - an import statement in a string is one.


def test_other_names_are_unknown_as_always() -> None:
    for module in ("spdl", "spdl.io", "spdl.pipeline", "spdl.pipeline.defs", "spdl.source", "spdl.dataloader"):
        with pytest.raises(AttributeError, match=rf"^module '{module}' has no attribute 'no_such_name'$"):
            importlib.import_module(module).no_such_name  # noqa: B018
        with pytest.raises(ImportError, match=rf"^cannot import name 'no_such_name' from '{module}'"):
            exec(f"from {module} import no_such_name")  # noqa: S102


@pytest.mark.parametrize(
    ("module", "name", "meant"),
    [
        ("spdl.dataloader", "ImageFolder", "spdl.source.ImageFolder"),
        ("spdl.source", "ImageLoader", "spdl.dataloader.ImageLoader"),
        ("spdl", "load_image", "spdl.io.load_image"),
        ("spdl.dataloader", "ImageDataLoader", "spdl.dataloader.ImageLoader"),
        ("spdl.source", "WebDataset", "spdl.source.TarShards"),
        ("spdl.dataloader", "VideoLoader", "spdl.dataloader.ClipLoader"),
        ("spdl.source", "ImageFolderSource", "spdl.source.ImageFolder"),
        ("spdl.source", "RandomSampler", "spdl.source.ShuffledOrder"),
        ("spdl.source", "repeat_source_for_ever", "spdl.source.repeat_source"),
    ],
)
def test_what_was_probably_meant_is_named(module: str, name: str, meant: str) -> None:
    told = rf"^module '{module}' has no attribute '{name}'\. There is {meant}$"
    with pytest.raises(AttributeError, match=told):
        getattr(importlib.import_module(module), name)
    with pytest.raises(ImportError, match=told):
        exec(f"from {module} import {name}")  # noqa: S102
    package, _, own = meant.rpartition(".")
    assert hasattr(importlib.import_module(package), own)


def test_a_script_that_imports_one_ends_with_that_line() -> None:
    module, name = MISSING[0] if MISSING else ("spdl", "autoresearch")
    command = [sys.executable, "-c", f"from {module} import {name}"]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.stderr.splitlines()[-1].startswith(f"ImportError: {module}.{name} is in spdl 0.8.0: ")
