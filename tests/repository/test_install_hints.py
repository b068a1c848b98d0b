"""Whoever is told to install an optional package is told the extra that brings it: `pip install 'spdl-turbo[torch]'`.

The extra has the versions that are known to work, and only one name to remember.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from tests.repository.texts import texts

ROOT = Path(__file__).parents[2]
EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
    "optional-dependencies"
]
OURS = "spdl-turbo"
# Packages that an extra brings.
BROUGHT = {name for needed in EXTRAS.values() for it in needed if (name := re.split(r"[\[<>=]", it)[0]) != OURS}
# What comes after the command, up to the end of the words that a shell would take.
COMMAND = re.compile(r"pip install((?: (?:'[^']*'|\"[^\"]*\"|[\w.\[\]=:/-]+))+)")
WORD = re.compile(r"'[^']*'|\"[^\"]*\"|\S+")

SOURCES = sorted((ROOT / "src" / "spdl").rglob("*.py"))
PROGRAMS = sorted(path for name in ("examples", "benchmarks") for path in (ROOT / name).rglob("*.py"))
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])

# The program of another library, which runs without ours.
NOT_OURS = {"webdataset torch pillow"}


def faults(text: str) -> list[str]:
    """Return the commands of a text that break the rule."""
    found = []
    for match in COMMAND.finditer(" ".join(text.split())):
        command = match[1].strip()
        words = [word.rstrip(".,:;") if word != "..." else word for word in WORD.findall(command)]
        # Another index has other builds of PyTorch, and no extra names an index.
        if command in NOT_OURS or "--index-url" in words:
            continue
        ours = [word for word in words if f"{OURS}[" in word]
        extras = [extra for word in ours for extra in word.partition("[")[2].rstrip("]'\"").split(",")]
        named = {word.strip("'\"") for word in words} & BROUGHT
        # A shell takes brackets without quotes for a pattern.
        quoted = all(word.startswith("'") for word in ours)
        known = all(extra in {*EXTRAS, "..."} for extra in extras)
        if named or not quoted or not known or (words[0] == "..." and not ours):
            found.append(command)
    return found


@pytest.mark.parametrize(
    "command",
    [
        "torch",
        "rich",
        "spdl-turbo[torch]",
        '"spdl-turbo[torch]"',
        "'spdl-turbo[torsh]'",
        "...",
        "'spdl-turbo[torch]' pillow",
    ],
)
def test_what_breaks_the_rule(command: str) -> None:
    assert faults(f"needs it: pip install {command}")


@pytest.mark.parametrize(
    "command",
    ["'spdl-turbo[torch]'.", "'spdl-turbo[...]'", "py-spy", "'spdl-turbo[fsspec]' huggingface_hub", "--group store"],
)
def test_what_keeps_it(command: str) -> None:
    assert not faults(f"needs it: pip install {command}")


def test_messages_and_docstrings_name_the_extra() -> None:
    said = {path.relative_to(ROOT): each for path in SOURCES for text in texts(path) if (each := faults(text))}
    assert not said
    assert sum(len(COMMAND.findall(text)) for path in SOURCES for text in texts(path)) > 10


def test_programs_name_the_extra() -> None:
    assert not {path.relative_to(ROOT): each for path in PROGRAMS for text in texts(path) if (each := faults(text))}


def test_pages_name_the_extra() -> None:
    assert not {path.relative_to(ROOT): each for path in PAGES if (each := faults(path.read_text("utf-8")))}
