"""The sections of pages that scripts write."""

import importlib
from collections.abc import Iterator
from typing import Any

import pytest
from tests.importing import importable


@pytest.fixture
def replace_section() -> Iterator[Any]:
    with importable("scripts"):
        yield importlib.import_module("sections").replace_section


def test_what_is_between_the_markers_is_replaced(replace_section: Any) -> None:
    page = "<!-- begin: a -->\n{}<!-- end: a -->\nb\n<!-- begin: c -->\nd\n<!-- end: c -->\n"
    assert replace_section(page.format("x\ny\n"), "a", "\\1\n") == page.format("\\1\n")


@pytest.mark.parametrize("times", [0, 2])
def test_markers_must_be_there_once(replace_section: Any, times: int) -> None:
    page = "# SPDL\n" + times * "<!-- begin: a -->\n<!-- end: a -->\n"
    with pytest.raises(SystemExit, match=f"markers once; it holds them {times} times"):
        replace_section(page, "a", "")
