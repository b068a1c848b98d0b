"""The page on the command has each command and option that the help has."""

import importlib
import re
from collections.abc import Iterator
from types import ModuleType

import pytest
from tests.importing import importable

from spdl.cli import main


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with importable("scripts"):
        yield importlib.import_module("command_page")


def test_the_page_is_that_of_the_parser(script: ModuleType) -> None:
    text = script.PAGE.read_text(encoding="utf-8")
    assert script.with_commands(text) == text, "run scripts/command_page.py"


def test_the_page_has_all_commands_and_options(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    def told(*words: str) -> str:
        with pytest.raises(SystemExit, match="0"):
            main([*words, "--help"])
        return capsys.readouterr().out

    sections = dict(re.findall(r"^## spdl ([a-z ]+)\n(.*?)(?=^## |\Z)", script.content(), re.DOTALL | re.MULTILINE))
    assert set(re.findall(r"^    ([a-z]+)  ", told(), re.MULTILINE)) == {name.split()[0] for name in sections}
    for name, section in sections.items():
        options = set(re.findall(r"^  (?:-\w[ A-Z]*, )?(--[a-z-]+)", told(*name.split()), re.MULTILINE))
        assert set(re.findall(r"^\| `(?:-\w, )?(--[a-z-]+)", section, re.MULTILINE)) == options - {"--help"}, name
    shown = "".join(sections.values())
    for option in ("--peers", "--no-peers", "--json FILE", "--interval S", "--pipeline N"):
        assert f"`{option}`" in shown
