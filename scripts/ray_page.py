"""Draw the picture of docs/many_machines.md, and write the recorded run of benchmarks/ray_actors.py into the page.

First run `python benchmarks/ray_actors.py --json benchmarks/results/ray_actors.json` and `python
benchmarks/ray_leaving.py --json benchmarks/results/ray_leaving.json` on an otherwise idle machine, then `python
scripts/ray_page.py`. Commit the page and the results together; a test compares them.
"""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

from sections import replace_section

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "many_machines.md"
PICTURE = ROOT / "docs" / "images" / "many_machines.svg"
RESULTS = ROOT / "benchmarks" / "results" / "ray_actors.json"
LEAVING = RESULTS.with_name("ray_leaving.json")
LABEL = "scripts/ray_page.py"

WIDTH, HEIGHT = 960, 430
STYLE = """
    .page { fill: #ffffff; }
    .machine { fill: #f8fafc; stroke: #94a3b8; stroke-dasharray: 5 4; }
    .driver { fill: #fce7f3; stroke: #db2777; }
    .actor { fill: #dbeafe; stroke: #2563eb; }
    .store { fill: #fef3c7; stroke: #d97706; }
    .part { fill: #ffffff; stroke: #64748b; }
    .data { fill: #f4f6fa; stroke: #4a5568; }
    .flow { stroke: #1a202c; stroke-width: 1.6; fill: none; marker-end: url(#head); }
    text { fill: #1a202c; text-anchor: middle; }
    .name { font-weight: 600; }
    .small { font-size: 12px; fill: #475569; }
"""


def box(kind: str, place: tuple[int, int, int, int], name: str, *lines: str) -> list[str]:
    """Return a box with a name, and lines of text below it. The place is left, top, width and height."""
    left, top, width, height = place
    middle = left + width // 2
    parts = [f'<rect class="{kind}" x="{left}" y="{top}" width="{width}" height="{height}" rx="6"/>']
    if name:
        parts.append(f'<text class="name" x="{middle}" y="{top + 20}">{escape(name)}</text>')
    parts += [
        f'<text class="small" x="{middle}" y="{top + 38 + 16 * number}">{escape(line)}</text>'
        for number, line in enumerate(lines)
    ]
    return parts


def arrow(path: str, text: str = "", x: int = 0, y: int = 0) -> list[str]:
    """Return an arrow, and what goes along it."""
    parts = [f'<path class="flow" d="{path}"/>']
    if text:
        parts.append(f'<text class="small" x="{x}" y="{y}">{escape(text)}</text>')
    return parts


def draw() -> str:
    """Return the picture: who holds what."""
    parts = [
        *box("machine", (12, 12, 330, 406), ""),
        '<text class="small" x="177" y="32">the trainer\'s machine</text>',
        *box("driver", (30, 44, 294, 250), "the driver: your process"),
        *box(
            "part",
            (46, 80, 262, 82),
            "lease table",
            "granted: which actor has which positions",
            "delivered: what the loop has",
        ),
        *box("part", (46, 176, 120, 100), "your loop", "takes batches;", "state_dict()", "says what it has"),
        *box("part", (188, 176, 120, 100), "calls", "prefetch=2", "for each actor", "are under way"),
        *box(
            "store",
            (30, 320, 294, 82),
            "Ray's object store",
            "batches in shared memory: your loop",
            "reads them there, without a copy",
        ),
        *arrow("M106 320 V278"),
    ]
    for number, (top, positions) in enumerate(((12, "0 to 1023"), (222, "1024 to 2047"))):
        parts += [
            *box("machine", (470, top, 478, 196), ""),
            f'<text class="small" x="709" y="{top + 20}">another machine</text>',
            *box("actor", (488, top + 30, 442, 152), f"actor {number}: one process"),
            *box(
                "part",
                (504, top + 62, 122, 106),
                "source",
                "its own copy;",
                "reads positions",
                positions,
                "of the dataset",
            ),
            *box("part", (650, top + 62, 150, 106), "pipeline", "all stages,", "in threads:", "as on one machine"),
            *box("part", (824, top + 62, 92, 106), "sink", "finished", "batches"),
            *arrow(f"M626 {top + 115} H648"),
            *arrow(f"M800 {top + 115} H822"),
            *arrow(f"M308 {118 + 6 * number} H400 V{top + 90} H502"),
        ]
    parts += [
        '<text class="small" x="412" y="60">ranges</text>',
        *arrow("M870 182 V212 H440 V350 H326"),
        *arrow("M870 392 V412 H440 V376 H326"),
        '<text class="small" x="384" y="342">batches, and</text>',
        '<text class="small" x="384" y="394">what is done</text>',
    ]
    body = "\n  ".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="system-ui, sans-serif" '
        f'font-size="14" role="img">\n  <title>Who holds what when a pipeline runs in actors of Ray</title>\n'
        f"  <style>{STYLE}  </style>\n  <defs>\n"
        '    <marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">\n'
        '      <path d="M0 0 L8 4 L0 8 z" fill="#1a202c"/>\n    </marker>\n  </defs>\n'
        f'  <rect class="page" width="{WIDTH}" height="{HEIGHT}"/>\n  {body}\n</svg>\n'
    )


def costs(result: dict[str, Any], leaving: dict[str, Any]) -> str:
    """Return the tables of the recorded runs."""
    names = {"in_process": "in this process", "actors": "two actors", "ray_data": "Ray Data"}
    lines = [
        "| batches | where | batches/s | first batch | CPU per batch: the loop's thread | its whole process |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for kind, contenders in result["throughput"].items():
        for name, of in contenders.items():
            lines.append(
                f"| {kind} | {names[name]} | {of['batches_per_second']:.0f} | {of['first_seconds']:.2f} s | "
                f"{of['consumer_cpu_ms']:.2f} ms | {of['process_cpu_ms']:.2f} ms |"
            )
    kills, tables = result["kills"], result["lease_table"]
    repeated = kills["leases_repeated_per_actor"]
    one, every = kills["stall_seconds"], kills["stall_seconds_when_all_die"]
    shown = ", ".join(f"{each['nanoseconds_per_item']:.0f} ns at {each['length']:,}" for each in tables)
    died = (
        f"* {kills['killed']} actors killed by SIGKILL at random, two at once too, in {kills['epochs']} epochs: every "
        f"item came once. The longest wait after a kill was {one['most']:.2f} s (median {one['median']:.2f}) while the "
        f"other actor lived, and {every['most']:.2f} s (median {every['median']:.2f}) when both died. Of each dead "
        f"actor, {repeated['median']:.1f} leases were done again, and {repeated['most']:.1f} at most."
    )
    gone = leaving["seconds"]
    left = (
        f"* Until the actors were gone and all resources given back, at most of {leaving['rounds']} times: "
        f"{gone['break']['most']:.1f} s after a driver had dropped its loader, {gone['raise']['most']:.1f} s after an "
        f"exception ended it, {gone['kill']['most']:.1f} s after SIGKILL did."
    )
    owned = ", ".join(
        f"{each['nanoseconds_per_item']:.0f} ns and {each['bytes'] / each['owners']:,.0f} bytes for each of "
        f"{each['owners']:,}"
        for each in result["lease_table_by_owners"]
    )
    table = (
        f"* The lease table, per item in batches of 32 among 16 owners: {shown} positions. With "
        f"{result['lease_table_by_owners'][0]['length']:,} positions and other numbers of owners: {owned}."
    )
    told = (
        f"Medians of {result['rounds']} alternating rounds {_origin(result['provenance'])}. What a driver leaves was "
        f"measured {_origin(leaving['provenance'])}."
    )
    lines += ["", died, left, table, "", told]
    return "\n".join(lines) + "\n"


def _origin(about: dict[str, Any]) -> str:
    return (
        f"on {about['cores']:g} cores ({about['cpu']}), Python {about['python']}, Ray {about['ray']}, "
        f"{about['date'][:10]}, commit {about['commit']}"
    )


def main() -> None:
    """Draw and write."""
    PICTURE.write_text(draw(), encoding="utf-8")
    if RESULTS.exists():
        text = PAGE.read_text(encoding="utf-8")
        table = costs(*(json.loads(path.read_text(encoding="utf-8")) for path in (RESULTS, LEAVING)))
        PAGE.write_text(replace_section(text, f"{LABEL}, costs", table), encoding="utf-8")


if __name__ == "__main__":
    main()
