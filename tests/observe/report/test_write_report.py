import re
import sys
from base64 import b64decode
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.observe.export.observed import stage, told

from spdl.dataloader import DataLoader
from spdl.observe import History, write_report
from spdl.pipeline import PipelineBuilder
from spdl.pipeline.defs import Pipe

NEVER_CLOSED = {"meta", "img"}


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

    def pictures(self) -> list[str]:
        return [value.partition(",")[2] for name, value in self.attributes if name == "src"]

    def stages(self) -> dict[str, dict[str, str]]:
        (place,) = (place for place, row in enumerate(self.rows) if row[0] == "stage")
        header, *rows = self.rows[place:]
        return {row[0]: dict(zip(header, row, strict=True)) for row in rows}

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if {"td", "th"} & set(self.open):
            self.rows[-1][-1] += data
        if {"h1", "h2"} & set(self.open):
            self.headings[-1] += data


def pixels_of(picture: str) -> np.ndarray:
    with Image.open(BytesIO(b64decode(picture))) as image:
        return np.asarray(image.convert("RGB")).reshape(-1, 3)


def read(path: Path) -> Page:
    text = path.read_text(encoding="utf-8")
    page = Page(text)
    # Nothing is fetched, and nothing is run. Pictures are in the page.
    for name, value in page.attributes:
        assert name not in ("href", "srcset", "style")
        assert not name.startswith("on")
        assert name != "src" or value.startswith("data:image/png;base64,")
    for picture in page.pictures():
        text = text.replace(picture, "")
    assert not re.search(r"https?:|//|url\(|@import|<script|<link|<iframe", text)
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
    found = page.stages()["text"]
    assert (found["gets from"], found["completed"], found["passed on"]) == ("src", "7", "7")
    # What never happened has no column.
    assert not {"failed", "dropped", "retried", "too late", "held back"} & set(found)
    assert page.pictures() == []


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
    assert page.headings == ["train", "Stages", "Over time"]
    stages = page.stages()
    assert list(stages) == ["src", "divide", "sink"]
    found = stages["divide"]
    assert (found["slots"], found["completed"], found["passed on"], found["failed"]) == ("2", "299", "299", "1")
    (picture,) = page.pictures()
    pixels = pixels_of(picture)
    # There is some of each colour: items, work, waits and queues.
    for colour in ((0x2A, 0x8F, 0x7A), (0x2F, 0x74, 0xC0), (0x7D, 0x87, 0x90), (0x5B, 0x7F, 0xA6)):
        assert (pixels == colour).all(axis=1).any()
    assert (pixels == 255).all(axis=1).mean() > 0.5
    assert pipeline.statistics().bottleneck.replace("'", "&#x27;") in path.read_text(encoding="utf-8")


def test_without_a_history_there_are_totals(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    pipeline = PipelineBuilder().add_source(range(3)).add_sink().build()
    write_report(pipeline, path)
    assert read(path).headings == ["SPDL pipeline", "Stages"]
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
    assert list(page.stages()) == ["src", shown, "sink"]
    assert len(page.pictures()) == 1


def test_a_report_of_one_that_changed_its_stages(tmp_path: Path) -> None:
    observed = told(stage("src"), stage("sink"))
    with History(observed) as history:
        observed.now = told(stage("src"), stage("new"), stage("sink")).now
    write_report(history, tmp_path / "report.html")
    page = read(tmp_path / "report.html")
    assert list(page.stages()) == ["src", "new", "sink"]
    # There was one reading of these, and no time has passed.
    assert page.pictures() == []


def test_without_matplotlib_the_page_says_what_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with History(told(stage("src"), stage("sink"))) as history:
        pass
    write_report(history, tmp_path / "report.html")
    page = read(tmp_path / "report.html")
    assert page.pictures() == []
    assert "Drawing it needs matplotlib: pip install" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_where_ways_part_and_meet_each_stage_says_from_where_it_gets_its_items(tmp_path: Path) -> None:
    branches = [PipelineBuilder().add_source(range(3)).pipe(abs, name=name) for name in ("first", "second")]
    pipeline = (
        PipelineBuilder()
        .merge(branches)
        .path_variants(lambda item: item % 2, [[Pipe(abs, name="even")], [Pipe(abs, name="odd")]])
        .add_sink()
        .build(num_threads=1)
    )
    with pipeline.auto_stop():
        list(pipeline)
    pipeline.report(tmp_path / "report.html")
    givers = {name: found["gets from"] for name, found in read(tmp_path / "report.html").stages().items()}
    assert givers == {
        "src[0]": "",
        "first": "src[0]",
        "src[1]": "",
        "second": "src[1]",
        "merge": "first, second",
        "path_variants": "merge",
        "even": "path_variants",
        "odd": "path_variants",
        "path_variants_merge": "even, odd",
        "sink": "path_variants_merge",
    }


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.001234, "0.00123"), (0.5, "0.5"), (12.345, "12.3"), (999.9, "1,000"), (2_000_000, "2,000,000")],
)
def test_numbers_are_short(tmp_path: Path, seconds: float, text: str) -> None:
    write_report(told(stage("src", busy_seconds=seconds), stage("sink")), tmp_path / "report.html")
    assert read(tmp_path / "report.html").stages()["src"]["in ops"] == f"{text} s"


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
