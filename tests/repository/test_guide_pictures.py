"""The pictures of the guide are those that their script draws, and a page shows each."""

import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree as ET

import pytest
from tests.importing import importable

DOCS = Path(__file__).parents[2] / "docs"
PROJECT = {"architecture", "changelog", "contributing", "engine_tests", "glossary"}
# A list of differences, each of which is a sentence of its own: there is nothing that holds them together to be drawn.
LISTS = {"departures", "measuring"}
NO_PICTURE = PROJECT | LISTS


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with importable("scripts"):
        yield importlib.import_module("guide_pictures")


def test_pictures_are_those_that_the_script_draws(script: ModuleType) -> None:
    for name, text in script.pictures().items():
        assert (DOCS / "images" / name).read_text(encoding="utf-8") == text, "run scripts/guide_pictures.py"


def test_each_is_shown_on_its_page(script: ModuleType) -> None:
    for name in script.pictures():
        page = DOCS / f"{name.rpartition('_')[0]}.md"
        assert f"](images/{name})" in page.read_text(encoding="utf-8")


def test_every_page_of_the_guide_has_a_picture() -> None:
    without = {page.stem for page in DOCS.glob("*.md") if not re.search(r"!\[.+\]\(images/", page.read_text("utf-8"))}
    assert without == NO_PICTURE


def test_flows_are_narrow_enough_to_be_read(script: ModuleType) -> None:
    # In a column of 46 em, the 12 pixels of their text become 9.
    flows = {**script.pictures(), **script.flow_diagrams.diagrams(), **script.flow_diagrams.page_diagrams()}
    widths = {name: float(ET.fromstring(text).get("width", "0")) for name, text in flows.items()}  # noqa: S314 - ours.
    assert {name: width for name, width in widths.items() if width > 46 * 16 * 12 / 9} == {}


def test_bars_and_words_are_within_the_picture(script: ModuleType) -> None:
    for name, text in script.pictures().items():
        picture = ET.fromstring(text)  # noqa: S314 - our own.
        width = float(picture.get("width", "0"))
        for rectangle in picture.iter("{http://www.w3.org/2000/svg}rect"):
            right = float(rectangle.get("x", "0")) + float(rectangle.get("width", "0"))
            assert right <= width, name
