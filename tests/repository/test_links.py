"""The links in files that GitHub shows lead somewhere. `make docs` makes Sphinx check those of the site."""

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *(ROOT / folder / "README.md" for folder in ("benchmarks", "fuzz", "tests")),
]
SITE = sorted((ROOT / "docs").rglob("*.md"))

LINK = re.compile(r"(?<!`)!?\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]+`", re.MULTILINE | re.DOTALL)
URL = re.compile(r"https?://[^\s)>\]\"'`]+")

# No test uses the network. If you add a link, look at it and add it here.
# `.venv/bin/sphinx-build -b linkcheck docs build/links` follows the links of the site.
LOOKED_AT = {
    "https://keepachangelog.com/en/1.1.0/",
    "https://docs.ray.io",
    "https://github.com/python/cpython/issues/148874",
    "https://semver.org/spec/v2.0.0.html",
    "https://ui.perfetto.dev",
}


def without_code(page: Path) -> str:
    return CODE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and MyST make them."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def dead(page: Path) -> list[str]:
    """Return the links of a page that lead to no file, or to no heading of it."""
    found = []
    for link in LINK.findall(without_code(page)):
        if urlsplit(link).scheme:
            continue
        path, _, anchor = link.partition("#")
        target = page if not path else page.parent / path
        if not target.exists() or (anchor and anchor not in anchors(target)):
            found.append(link)
    return found


@pytest.mark.parametrize("page", [*PAGES, *SITE], ids=lambda page: str(page.relative_to(ROOT)))
def test_links_within_the_project_lead_somewhere(page: Path) -> None:
    assert dead(page) == []


def test_the_index_calls_pages_by_their_titles() -> None:
    docs = ROOT / "docs"
    wrong = {}
    for text, page in re.findall(
        r"^\* \[([^\]]+)\]\((\w+\.md)\)", (docs / "index.md").read_text("utf-8"), re.MULTILINE
    ):
        title = re.search(r"^# (.+)$", (docs / page).read_text(encoding="utf-8"), re.MULTILINE)
        if title and title[1] != text:
            wrong[text] = title[1]
    assert wrong == {}


# A path in code: it begins at the root, or at a folder of the pipeline. `NAME`, `<medium>` and `*` stand for others.
NAMED = re.compile(r"`((?:src|native|tests|docs|benchmarks|scripts|examples|fuzz|_[a-z]+)/[\w./-]*\w)`")
# Made by a build or a run.
MADE = {"docs/build"}


@pytest.mark.parametrize("name", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_paths_in_code_exist(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    paths = set(NAMED.findall(text)) - MADE
    assert len(paths) > 10
    roots = (ROOT, ROOT / "src" / "spdl" / "pipeline", ROOT / "src" / "spdl")
    assert [path for path in sorted(paths) if not any((root / path).exists() for root in roots)] == []


# Names said to be in a file: `NAME` (`path`), or `NAME` and `NAME` in `path`.
IN_FILE = re.compile(r"((?:`[\w.]+`(?: and )?)+) (?:in |\()`([\w./-]+\.\w+)`")


def test_names_are_in_the_files_that_the_architecture_page_says() -> None:
    text = " ".join((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split())
    folders = [ROOT, ROOT / "native", *(ROOT / "src" / "spdl").glob("**/")]
    found = {(name, path) for names, path in IN_FILE.findall(text) for name in re.findall(r"`([\w.]+)`", names)}
    assert len(found) > 30
    lost = []
    for name, path in sorted(found):
        files = [folder / path for folder in folders if (folder / path).is_file()]
        word = re.compile(rf"\b{name.rpartition('.')[2]}\b")
        if not any(word.search(file.read_text(encoding="utf-8")) for file in files):
            lost.append(f"{name} in {path}")
    assert lost == []


def test_links_elsewhere_were_looked_at() -> None:
    urls = {url for page in [*PAGES, *SITE] for url in URL.findall(without_code(page))}
    assert urls == LOOKED_AT
    assert all(urlsplit(url).scheme == "https" and "." in urlsplit(url).netloc for url in urls)


def test_dead_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A heading, `x`\n[a](#a-heading-x) [b](#none) [c](page.md) [d](no.md) `[e](code.md)` [f](page.md#g)\n"
    )
    assert dead(page) == ["#none", "no.md", "page.md#g"]
