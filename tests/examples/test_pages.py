"""The pages on the programs show the output of the scripts for the programs and the recorded results."""

import json
from pathlib import Path

import pytest

from tests.examples.scripts import ROOT, load_script

pytest.importorskip("torch")

example_pages = load_script("example_pages")
flow_diagrams = load_script("flow_diagrams")

NAMES = sorted(path.stem for path in (ROOT / "examples").glob("*.py"))


def page(name: str) -> str:
    text: str = (example_pages.PAGES / f"{name}.md").read_text(encoding="utf-8")
    return text


def test_diagrams_are_those_of_the_script() -> None:
    drawn = flow_diagrams.diagrams()
    assert sorted(drawn) == [f"{name}_flow.svg" for name in NAMES]
    for name, text in drawn.items():
        file = flow_diagrams.FOLDER / name
        assert file.read_text(encoding="utf-8") == text, "run scripts/flow_diagrams.py and commit what it draws"


def test_diagrams_of_other_pages_are_those_of_the_script_and_shown() -> None:
    pages = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md"))
    for name, text in flow_diagrams.page_diagrams().items():
        file = ROOT / "docs" / "images" / name
        assert file.read_text(encoding="utf-8") == text, "run scripts/flow_diagrams.py and commit what it draws"
        assert f"(images/{name})" in pages


@pytest.mark.parametrize("name", NAMES)
def test_page_has_its_parts(name: str) -> None:
    text = page(name)
    assert f"python examples/{name}.py" in text
    assert f"(../images/examples/{name}_flow.svg)" in text
    assert f"{{literalinclude}} ../../examples/{name}.py" in text
    assert f"automodule:: {name}" in text
    assert f"({name}.md)" in page("index")


@pytest.mark.parametrize("name", NAMES)
def test_page_shows_what_was_recorded(name: str) -> None:
    record = example_pages.recorded(name)
    assert example_pages.with_section(page(name), name, record) == page(name), "run scripts/example_pages.py"
    if record is not None:
        assert record["quick"] is False
        assert (example_pages.PLOTS / f"{name}_plot.png").exists()


def test_no_record_is_of_a_program_that_is_not_there() -> None:
    assert {path.stem for path in example_pages.RESULTS.glob("*.json")} <= set(NAMES)


def test_quick_runs_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        (tmp_path / f"{name}.json").write_text(json.dumps({"quick": True}))
    monkeypatch.setattr(example_pages, "RESULTS", tmp_path)
    with pytest.raises(SystemExit, match="is of a quick run"):
        example_pages.main()
