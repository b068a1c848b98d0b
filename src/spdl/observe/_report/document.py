"""Pages of HTML in one file, of tables and pictures."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; color: #1b1f24; }
h1 { font-size: 1.4rem; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin-top: 2rem; }
p { overflow-wrap: anywhere; } .note { color: #5c6670; font-size: .9rem; }
.scroll { overflow-x: auto; } img { max-width: 100%; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .25rem .5rem; text-align: right; border-bottom: 1px solid #d8dee4; }
th { font-weight: 500; vertical-align: bottom; }
th:first-child, td:first-child { text-align: left; padding-left: 0; min-width: 7rem; overflow-wrap: anywhere; }
td + td + td { white-space: nowrap; }
.ours { color: #0b7a5c; font-weight: 600; }
"""

_NOTE = ' class="note"'


def document(title: str, parts: Iterable[str]) -> str:
    """Return a page that loads nothing.

    Args:
        title: The heading of the page.
        parts: Its parts, as the other functions make them.
    """
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
            f"<h1>{escape(title)}</h1>",
            *parts,
            "</body></html>\n",
        ]
    )


def heading(text: str) -> str:
    return f"<h2>{escape(text)}</h2>"


def paragraph(text: str, *, note: bool = False) -> str:
    """Return a paragraph, which is paler if it is a note."""
    return f"<p{_NOTE if note else ''}>{escape(text)}</p>"


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, ours: int | None = None) -> str:
    """Return a table. One column may stand out."""

    def row(tag: str, cells: Sequence[str]) -> str:
        marks = (' class="ours"' if index == ours else "" for index in range(len(cells)))
        shown = (f"<{tag}{mark}>{escape(cell)}</{tag}>" for mark, cell in zip(marks, cells, strict=True))
        return f"<tr>{''.join(shown)}</tr>"

    lines = [row("th", header), *(row("td", cells) for cells in rows)]
    return f'<div class="scroll"><table>{"".join(lines)}</table></div>'


def picture(png: bytes, shows: str) -> str:
    """Return a picture, with what it shows for those who do not see it."""
    return f'<img alt="{escape(shows)}" src="data:image/png;base64,{b64encode(png).decode()}">'
