"""The report of a comparison, as one self-contained HTML file."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from spdl.cli._common.table import Table
from spdl.cli._common.text import mebibytes, milliseconds, number, several
from spdl.cli._demo.live import stage_table
from spdl.cli._demo.measures import CHARTED, HOW_MEASURED, MEASURES, comparison_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from spdl.cli._demo.comparison import Comparison
    from spdl.cli._demo.live_run import LiveRun
    from spdl.cli._demo.measures import Measure

STYLE = """
:root { color-scheme: light dark; --ours: #0b7a5c; --others: #9aa5b1; --faint: #6b7785; --line: #d5dbe1; }
@media (prefers-color-scheme: dark) { :root { --ours: #2fbf95; --others: #66717d; --faint: #98a4b0; --line: #39424c; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: 0; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
p.note, footer { color: var(--faint); font-size: .9rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .8rem; text-align: right; border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; padding-left: 0; white-space: nowrap; }
td.ours, th.ours { color: var(--ours); font-weight: 600; }
.scroll { overflow-x: auto; }
svg { width: 100%; height: auto; font: 14px system-ui, sans-serif; fill: currentColor; }
svg .ours { fill: var(--ours); } svg .others { fill: var(--others); } svg line { stroke: var(--line); }
"""

BAR_HEIGHT, BAR_GAP, NAME_WIDTH, CHART_WIDTH, LABEL_WIDTH = 26, 12, 170, 900, 230


def report_html(run: LiveRun, comparison: Comparison, *, title: str, job: str, provenance: Mapping[str, object]) -> str:
    """Return the whole page: charts, tables, absent loaders with reasons, and the origin of the figures."""
    stages = stage_table(run.statistics, "")
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>",
        f"<h1>{escape(title)}</h1><p>{escape(job)}</p>",
    ]
    for key in CHARTED:
        parts += _chart(MEASURES[key], comparison)
    parts += [
        "<h2>Side by side</h2>",
        _table(comparison_table(comparison)),
        f'<p class="note">{escape(HOW_MEASURED)}</p>',
    ]
    parts += [f"<p>{escape(label)} took no part: {escape(why)}</p>" for label, why in comparison.absent.items()]
    parts += [
        "<h2>Where the time goes in spdl-turbo</h2>",
        _table(stages),
        f"<p>{escape(run.statistics.bottleneck)}</p>",
        f'<p class="note">{_live_run(run)}</p>',
        "<h2>Every turn</h2>",
        _table(_turns(comparison)),
        f"<footer><p>{escape(_flat(provenance))}</p></footer></body></html>",
    ]
    return "\n".join(parts) + "\n"


def _chart(measure: Measure, comparison: Comparison) -> Iterator[str]:
    ours = comparison.contenders[0]
    longest = max(measure.of(it) or 0.0 for it in comparison.contenders) or 1.0
    height = len(comparison.contenders) * (BAR_HEIGHT + BAR_GAP)
    yield f"<h2>{escape(measure.heading)}</h2>"
    yield f'<svg viewBox="0 0 {CHART_WIDTH} {height}" role="img" aria-label="{escape(measure.heading)}">'
    for index, contender in enumerate(comparison.contenders):
        top = index * (BAR_HEIGHT + BAR_GAP)
        length = (CHART_WIDTH - NAME_WIDTH - LABEL_WIDTH) * (measure.of(contender) or 0.0) / longest
        middle = top + BAR_HEIGHT / 2 + 5
        label = measure.cell(contender)
        if contender is not ours:
            label += f" (ours: {measure.verdict(ours, contender)})"
        kind = "ours" if contender is ours else "others"
        yield f'<text x="{NAME_WIDTH - 10}" y="{middle}" text-anchor="end">{escape(contender.environment.label)}</text>'
        yield f'<rect class="{kind}" x="{NAME_WIDTH}" y="{top}" width="{length:.1f}" height="{BAR_HEIGHT}" rx="3"/>'
        yield f'<text x="{NAME_WIDTH + length + 8:.1f}" y="{middle}">{escape(label)}</text>'
    yield f'<line x1="{NAME_WIDTH}" x2="{NAME_WIDTH}" y1="0" y2="{height - BAR_GAP}"/></svg>'


def _table(table: Table) -> str:
    def row(tag: str, cells: Sequence[str]) -> str:
        ours = (' class="ours"' if index == table.highlighted else "" for index in range(len(cells)))
        return (
            "<tr>"
            + "".join(f"<{tag}{it}>{escape(cell)}</{tag}>" for it, cell in zip(ours, cells, strict=True))
            + "</tr>"
        )

    table = table.without_nothing()
    rows = [row("th", table.header), *(row("td", cells) for cells in table.rows)]
    return f'<div class="scroll"><table>{"".join(rows)}</table></div>'


def _live_run(run: LiveRun) -> str:
    return (
        f"The live run: {run.images:,} images in {run.seconds:.2f} s, {number(run.images_per_second)} images/s"
        f" with {several(run.workers, 'thread')}; peak memory {mebibytes(run.peak_memory)}."
    )


def _turns(comparison: Comparison) -> Table:
    table = Table(
        "", ("contender", "turn", "images", "images/s", "images per CPU-second", "first batch", "peak memory")
    )
    for contender in comparison.contenders:
        for index, turn in enumerate(contender.turns, start=1):
            table.rows.append(
                (
                    turn.contender,
                    str(index),
                    f"{turn.images:,}",
                    number(turn.images / turn.seconds),
                    number(turn.images / turn.cpu_seconds),
                    milliseconds(turn.first_batch_seconds),
                    "-" if turn.peak_memory is None else mebibytes(turn.peak_memory),
                )
            )
    return table


def _flat(provenance: Mapping[str, object]) -> str:
    facts = {key: value for key, value in provenance.items() if not isinstance(value, dict)}
    for value in provenance.values():
        if isinstance(value, dict):
            facts |= value
    return ", ".join(f"{key} {value}" for key, value in facts.items())
