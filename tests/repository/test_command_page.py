"""The page on the command has each command and option of the parser."""

import importlib
from collections.abc import Iterator
from types import ModuleType

import pytest
from tests.importing import importable

from spdl.cli._main import make_parser


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with importable("scripts"):
        yield importlib.import_module("command_page")


def test_the_page_is_that_of_the_parser(script: ModuleType) -> None:
    text = script.PAGE.read_text(encoding="utf-8")
    assert script.with_commands(text) == text, "run scripts/command_page.py"


def test_the_page_has_all_commands_and_options(script: ModuleType) -> None:
    found = dict(script.commands(make_parser()))
    assert {"spdl demo", "spdl bench images", "spdl profile", "spdl advise", "spdl top", "spdl why"} <= found.keys()
    text = script.content()
    for name in found:
        assert f"## {name}\n" in text
    for option in ("--peers", "--no-peers", "--json FILE", "--interval S", "--pipeline N"):
        assert f"`{option}`" in text
