import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.observe.export.observed import stage, told
from tests.observe.report.svg import parse_svg

from spdl.dataloader import DataLoader
from spdl.observe import History, write_report
from spdl.pipeline import PipelineBuilder

NEVER_CLOSED = {"meta"}


class Page(HTMLParser):
    """Reads a page, of which each element must be closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.rows: list[list[str]] = []
        self.headings: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in NEVER_CLOSED:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag in ("h1", "h2"):
            self.headings.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self.open) and "svg" not in self.open:
            self.rows[-1][-1] += data
        if {"h1", "h2"} & set(self.open):
            self.headings[-1] += data


def read(path: Path) -> Page:
    text = path.read_text(encoding="utf-8")
    # Nothing is fetched, and nothing is run.
    assert not re.search(r"https?:|//|url\(|@import|<script|<link|<img|<iframe", text)
    for svg in re.findall(r"<svg.*?</svg>", text, re.DOTALL):
        parse_svg(svg)
    page = Page(text)
    assert not [name for name, _ in page.attributes if name in ("src", "href") or name.startswith("on")]
    return page


def test_a_pipeline_reports_its_totals(tmp_path: Path) -> None:
    pipeline = PipelineBuilder().add_source(range(7)).pipe(str, name="text").add_sink().build(num_threads=1)
    with pipeline.auto_stop():
        list(pipeline)
    pipeline.report(tmp_path / "by_method.html", title="seven")
    write_report(pipeline, tmp_path / "by_function.html", title="seven")
    page = read(tmp_path / "by_method.html")
    assert page.headings[0] == "seven"
    assert page.rows == read(tmp_path / "by_function.html").rows
    assert any("text" in row[0] and "7" in row for row in page.rows)


def test_what_a_pipeline_did_over_time(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    pipeline = (
        PipelineBuilder()
        .add_source(range(300))
        .pipe(lambda item: 12 // (item - 3), name="divide", concurrency=2)
        .add_sink(4)
        .build(num_threads=2)
    )
    with History(pipeline, interval=0.005) as history, pipeline.auto_stop():
        list(pipeline)
    write_report(history, path, title="train")

    page = read(path)
    assert page.headings == ["train", "Stages", "Over time", "Totals"]
    divide = pipeline.statistics().stages[1]
    rows = {row[0]: row[1:] for row in page.rows if len(row) == 13}
    assert list(rows) == ["stage", "src", "divide", "sink"]
    assert rows["divide"][:4] == ["2", "299", str(divide.num_emitted), "1"]
    assert [row[0] for row in page.rows if len(row) == 4] == ["", "src", "divide", "consumer"]
    assert pipeline.statistics().bottleneck.replace("'", "&#x27;") in path.read_text(encoding="utf-8")


def test_without_a_history_there_are_totals(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    pipeline = PipelineBuilder().add_source(range(3)).add_sink().build()
    write_report(pipeline, path)
    assert read(path).headings == ["SPDL pipeline", "Stages", "Totals"]
    with pipeline.auto_stop():
        list(pipeline)
    write_report(pipeline, path)
    assert "Over time" not in read(path).headings


def test_a_loader_of_several_epochs(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    loader: DataLoader[int, int] = DataLoader(range(40), preprocessor=abs, batch_size=4, num_threads=1)
    with History(loader, interval=0.002) as history:
        for _ in range(3):
            list(loader)
    write_report(history, path)
    assert "Over time" in read(path).headings


@pytest.mark.parametrize("name", ["</svg><script>alert(1)</script>", "a & 'b' \"c\"", "\ud800", "x" * 500, ""])
def test_whatever_things_are_called(tmp_path: Path, name: str) -> None:
    path = tmp_path / "report.html"
    observed = told(stage("src"), stage(name, queue_capacity=2, num_failed=3), stage("sink", queue_capacity=1))
    with History(observed) as history:
        pass
    write_report(history, path, title=name)
    page = read(path)
    shown = name.encode("utf-8", "replace").decode()
    assert page.headings[0] == shown
    assert [row[0] for row in page.rows if len(row) == 13] == ["stage", "src", shown, "sink"]


def test_a_report_of_one_that_changed_its_stages(tmp_path: Path) -> None:
    observed = told(stage("src"), stage("sink"))
    with History(observed) as history:
        observed.now = told(stage("src"), stage("new"), stage("sink")).now
    write_report(history, tmp_path / "report.html")
    assert [row[0] for row in read(tmp_path / "report.html").rows if len(row) == 4] == ["", "src", "new", "consumer"]


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    observed = told(stage("sink"))
    with pytest.raises(TypeError, match="`observed` must be a History, a pipeline or a loader"):
        write_report(3, tmp_path / "x")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="`path` must be a path"):
        write_report(observed, 3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="`title` must be a str"):
        write_report(observed, tmp_path / "x", title=3)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        write_report(observed, tmp_path / "nowhere" / "x")
