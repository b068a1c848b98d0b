"""The pages show the recorded outputs of their programs."""

import copy
import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "printed_pages.py"
spec = importlib.util.spec_from_file_location(SCRIPT.stem, SCRIPT)
assert spec is not None
assert spec.loader is not None
printed_pages = importlib.util.module_from_spec(spec)
with pytest.MonkeyPatch.context() as patch:
    patch.setitem(sys.modules, spec.name, printed_pages)  # Dataclasses look up their module.
    spec.loader.exec_module(printed_pages)

PAGES = sorted({it.page for it in printed_pages.PRINTED.values()})


def text_of(page: str) -> str:
    text: str = (printed_pages.DOCS / page).read_text(encoding="utf-8")
    return text


@pytest.fixture
def record() -> Any:
    return json.loads(printed_pages.RESULTS.read_text(encoding="utf-8"))


@pytest.mark.parametrize("page", PAGES)
def test_page_shows_what_was_printed(page: str, record: Any) -> None:
    text = text_of(page)
    assert printed_pages.with_sections(page, text, record) == text, "run scripts/printed_pages.py"


def test_what_was_printed_is_of_the_programs_as_they_stand(record: Any) -> None:
    programs = {name: printed_pages.program(it) for name, it in printed_pages.PRINTED.items()}
    assert {name: it["program"] for name, it in record.items()} == programs, "run scripts/printed_pages.py --run"


@pytest.mark.parametrize("name", printed_pages.PRINTED)
def test_other_outputs_make_other_pages(name: str, record: Any) -> None:
    page = printed_pages.PRINTED[name].page
    changed = copy.deepcopy(record)
    changed[name]["printed"] += "one more line\n"
    assert "one more line\n```" in printed_pages.with_sections(page, text_of(page), changed)


def test_lines_are_broken_as_a_terminal_would() -> None:
    assert printed_pages.wrapped(" a  b\n\n" + "word " * 20) == [" a  b", "", "word " * 16 + "word", "word word word"]


def test_a_page_without_markers_is_refused(record: Any) -> None:
    with pytest.raises(SystemExit, match="has no markers"):
        printed_pages.with_sections(PAGES[0], "# A page\n", record)
