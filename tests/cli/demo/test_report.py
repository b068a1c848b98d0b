import json
import re
from html.parser import HTMLParser
from pathlib import Path

VOID = {"meta", "img"}


class Page(HTMLParser):
    """Collects a page's elements, and checks that all elements are closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_html_needs_no_other_file_and_agrees_with_the_json(reported: Path) -> None:
    html = (reported / "report" / "report.html").read_text(encoding="utf-8")
    # Pictures are in the page.
    html = re.sub(r'src="data:image/png;base64,[^"]*"', "", html)
    assert not re.search(r"https?:|//|url\(|@import|<script|<link|\bsrc=|\bhref=", html)
    page = Page(html)
    assert page.open == []
    assert "a <b> & c" in page.text

    contenders = json.loads((reported / "figures.json").read_text())["comparison"]["contenders"]
    values = [it["median"]["images_per_second"] for it in contenders]
    assert all((f"{value:,.0f}" if value >= 100 else f"{value:.1f}") in page.text for value in values)
