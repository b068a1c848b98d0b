"""Draw timelines: lanes, such as threads, and what each does when."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

MARGIN, NAME_WIDTH, UNIT = 20, 150, 30
LETTER = 8.2
"""The width of an average letter of a heading."""
LANE_HEIGHT, LANE_GAP, TITLE_HEIGHT, GROUP_GAP = 26, 6, 26, 20

KINDS = {
    "python": ("Python, holds the GIL", "#fee2e2", "#dc2626"),
    "native": ("native code or waiting, without the GIL", "#dbeafe", "#2563eb"),
    "wait": ("waits", "#f4f6fa", "#a0aec0"),
    "read": ("a request to a disk or a server", "#dcfce7", "#16a34a"),
    "copy": ("a copy between processes", "#fef3c7", "#d97706"),
    "train": ("the training loop", "#fce7f3", "#db2777"),
}
"""What a lane may do: the name in the legend, the colour of the bar and that of its frame."""


@dataclass(frozen=True)
class Lane:
    """What one thread or process does: bars of a kind, a length in units of time, and perhaps a word."""

    name: str
    bars: tuple[tuple[str, float, str], ...]


@dataclass(frozen=True)
class Timeline:
    """Lanes over one axis of time, below a heading."""

    heading: str
    lanes: tuple[Lane, ...]


def draw(title: str, timelines: tuple[Timeline, ...]) -> str:
    """Return timelines as SVG, one below the other."""
    body: list[str] = []
    top = MARGIN
    longest = max(sum(length for _, length, _ in lane.bars) for each in timelines for lane in each.lanes)
    headings = max(len(each.heading) for each in timelines)
    width = 2 * MARGIN + max(NAME_WIDTH + round(longest * UNIT), round(headings * LETTER))
    for each in timelines:
        body.append(f'<text class="heading" x="{MARGIN}" y="{top + 14}">{escape(each.heading)}</text>')
        top += TITLE_HEIGHT
        for lane in each.lanes:
            body += _lane(lane, top)
            top += LANE_HEIGHT + LANE_GAP
        body.append(
            f'<path class="axis" d="M{MARGIN + NAME_WIDTH} {top + 4} H{width - MARGIN}"/>'
            f'<text class="word end" x="{width - MARGIN}" y="{top + 18}">time</text>'
        )
        top += GROUP_GAP + 10
    left = MARGIN
    for kind, (name, fill, stroke) in KINDS.items():
        if any(bar[0] == kind for each in timelines for lane in each.lanes for bar in lane.bars):
            advance = 40 + round(6.4 * len(name))
            if left + advance > width and left > MARGIN:
                left, top = MARGIN, top + 20
            body.append(f'<rect x="{left}" y="{top}" width="12" height="12" rx="2" fill="{fill}" stroke="{stroke}"/>')
            body.append(f'<text class="word left" x="{left + 18}" y="{top + 10.5}">{escape(name)}</text>')
            left += advance
    height = top + 12 + MARGIN
    head = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            'font-family="system-ui, sans-serif" font-size="14" role="img">'
        ),
        f"<title>{escape(title)}</title>",
        "<style>",
        ".heading { font-weight: 600; fill: #1a202c; }",
        ".word { font-size: 12px; fill: #475569; text-anchor: middle; }",
        ".left { text-anchor: start; }",
        ".end { text-anchor: end; }",
        ".axis { stroke: #718096; stroke-width: 1; marker-end: url(#head); }",
        "</style>",
        (
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#718096"/></marker></defs>'
        ),
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
    ]
    return "\n".join([*head, *body, "</svg>", ""])


def _lane(lane: Lane, top: int) -> list[str]:
    middle = top + LANE_HEIGHT / 2 + 4
    drawn = [f'<text class="word left" x="{MARGIN}" y="{middle:g}">{escape(lane.name)}</text>']
    left = float(MARGIN + NAME_WIDTH)
    for kind, length, word in lane.bars:
        wide = length * UNIT
        if kind:
            _, fill, stroke = KINDS[kind]
            drawn.append(
                f'<rect x="{left:g}" y="{top}" width="{wide:g}" height="{LANE_HEIGHT}" rx="3" fill="{fill}" '
                f'stroke="{stroke}"/>'
            )
        drawn.append(f'<text class="word" x="{left + wide / 2:g}" y="{middle:g}">{escape(word)}</text>')
        left += wide
    return drawn
