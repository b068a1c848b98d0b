"""The report of a comparison, as one self-contained HTML file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spdl.cli._common.table import Table
from spdl.cli._common.text import mebibytes, number, several
from spdl.cli._demo.live_run import stage_table
from spdl.cli._demo.measures import HOW_MEASURED, MEASURES, comparison_table
from spdl.observe._report.document import document, heading, paragraph, picture, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from spdl.cli._demo.comparison import Comparison
    from spdl.cli._demo.live_run import LiveRun


def report_html(
    run: LiveRun, comparison: Comparison, *, title: str, job: str, provenance: Mapping[str, object], chart: bytes | None
) -> str:
    """Return the whole page: chart, tables, absent loaders with reasons, and the origin of the figures."""
    return document(title, _parts(run, comparison, job, provenance, chart))


def _parts(
    run: LiveRun, comparison: Comparison, job: str, provenance: Mapping[str, object], chart: bytes | None
) -> Iterator[str]:
    yield paragraph(job)
    if chart is not None:
        yield picture(chart, "The loaders side by side, as in the table below")
    yield heading("Side by side")
    yield _table(comparison_table(comparison))
    yield paragraph(HOW_MEASURED, note=True)
    for label, why in comparison.absent.items():
        yield paragraph(f"{label} took no part: {why}")
    yield heading("Where the time goes in spdl-turbo")
    yield _table(stage_table(run.statistics, ""))
    yield paragraph(run.statistics.bottleneck)
    yield paragraph(
        f"The live run: {run.images:,} images in {run.seconds:.2f} s, {number(run.images_per_second)} images/s"
        f" with {several(run.workers, 'thread')}; peak memory {mebibytes(run.peak_memory_bytes)}.",
        note=True,
    )
    yield heading("Every turn")
    yield _table(_turns(comparison))
    yield paragraph(_flat(provenance), note=True)


def _table(shown: Table) -> str:
    shown = shown.without_nothing()
    return table(shown.header, shown.rows, ours=shown.highlighted)


def _turns(comparison: Comparison) -> Table:
    shown = Table("", ("contender", "turn", "images", *(measure.label for measure in MEASURES.values())))
    for contender in comparison.contenders:
        for index, turn in enumerate(contender.turns, start=1):
            cells = (measure.cell_of_turn(turn) for measure in MEASURES.values())
            shown.rows.append((turn.contender, str(index), f"{turn.images:,}", *cells))
    return shown


def _flat(provenance: Mapping[str, object]) -> str:
    facts = {key: value for key, value in provenance.items() if not isinstance(value, dict)}
    for value in provenance.values():
        if isinstance(value, dict):
            facts |= value
    return ", ".join(f"{key} {value}" for key, value in facts.items())
