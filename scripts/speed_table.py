"""Write the recorded runs of benchmarks/engine.py and stop_latency.py into docs/case_studies/engine.md.

First run `.venv/bin/python benchmarks/engine.py --rounds 5 --json benchmarks/results/engine.json` on an otherwise idle
machine, then `.venv/bin/python scripts/speed_table.py`, which also draws the page's picture. Commit the page and the
results together; a test compares them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from sections import replace_section

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "case_studies" / "engine.md"
RESULTS = ROOT / "benchmarks" / "results" / "engine.json"
PICTURE = ROOT / "docs" / "images" / "comparison_engine.png"
STOP_RESULTS = RESULTS.with_name("stop_latency.json")

LABEL = "scripts/speed_table.py"
STOP_LABEL = "scripts/speed_table.py, stop"

# How to read the outcomes.
LEGEND = (
    'In the outcomes, "x" is a multiple of the rate of spdl 0.8.0 and "1/n" a fraction of its time. "of bare" is the'
    ' ratio to the other yardstick, and "of the bound" the ratio to the bound in the same column. A mark is a target'
    " that this project set itself."
)

OURS, REFERENCE, BARE = "spdl-turbo", "spdl 0.8.0", "bare"
HEADER = ("work", REFERENCE, "other yardstick", OURS, "outcome (mark)", "CPU seconds per million items: theirs, ours")


def whole(results: dict[str, Any]) -> str:
    """Return the page's table, a legend, and a paragraph on where the figures come from."""
    lines = [cells(row) for row in results["rows"].values()]
    missed = sum(misses(row) for row in results["rows"].values())
    verb = "miss" if missed > 1 else "misses"
    verdict = f"Of all {len(results['rows'])} rows, {missed or 'none'} {verb} a mark."
    # The record holds only the name of the program.
    command = results["provenance"]["command"].replace("python ", "python benchmarks/", 1)
    return table(HEADER, lines) + f"\n{LEGEND} {verdict}\n\n{origin(results)} Measured by `{command}`.\n"


def table(header: tuple[str, ...], lines: list[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    return "".join(f"| {' | '.join(line)} |\n" for line in [header, ("---",) * len(header), *lines])


def origin(results: dict[str, Any]) -> str:
    """Return the sentence on where the figures come from."""
    it = results["provenance"]
    return (
        f"Medians of {results['rounds']} alternating rounds, each in its own process, on {it['cores']:g}"
        f" cores ({it['cpu']}), Python {it['python']}, {it['date'][:10]}, commit {it['commit']}."
    )


def misses(row: dict[str, Any]) -> bool:
    """Return whether a row misses a mark."""
    return not all(met(claim) for claim in row["claims"])


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    """Return the cells of a row of the table."""
    contenders, figures = row["contenders"], row["shown"]
    others = [
        f"{row['beside'] if name == BARE else name}: {amounts(each, figures)}"
        for name, each in contenders.items()
        if name not in (OURS, REFERENCE)
    ]
    if "bound_items_per_second" in contenders[OURS]:
        others.append(f"bound: {amounts(contenders[OURS], ['bound_items_per_second'])}")
    claims = [claim for claim in row["claims"] if claim["figure"] != "overtaken_share_of_in_flight" or not met(claim)]
    return (
        row["title"],
        amounts(contenders[REFERENCE], figures) if REFERENCE in contenders else "not run",
        "; ".join(others),
        amounts(contenders[OURS], figures),
        "; ".join(outcome(claim) for claim in claims),
        ", ".join(cpu_time(contenders[name]) for name in (REFERENCE, OURS) if name in contenders),
    )


def met(claim: dict[str, Any]) -> bool:
    """Return whether a claim was not shown to be false: met, or not judged."""
    return claim["met"] is not False


def amounts(figures: dict[str, float], keys: list[str]) -> str:
    """Return figures with their unit."""
    if keys[0].endswith("per_second"):
        return ", ".join(f"{figures[key]:,.0f}/s" for key in keys)
    parts = [f"{key.partition('_')[0]} {figures[key]:,.0f}" for key in keys]
    return f"{', '.join(parts)} microseconds"


def outcome(claim: dict[str, Any]) -> str:
    """Return the value, what it is relative to, the mark if there is one, and whether it was missed."""
    name, _, unit = claim["figure"].partition("_")
    what = f"{name} " if unit == "microseconds" else ""
    share = {"share_of_bound": " of the bound", "overtaken_share_of_in_flight": " of the items in flight overtake one"}
    of = f" of {claim['beside']}" if claim["beside"] not in (None, REFERENCE) else share.get(claim["figure"], "")
    said = f"{what}{number(claim, claim['value'])}{of}"
    if claim["mark"] is None:
        return said
    relation = {"at least": ">=", "at most": "<="}[claim["relation"]]
    verdict = {True: "", False: " **missed**", None: ", not judged"}[claim["met"]]
    return f"{said} ({relation} {number(claim, claim['mark'])}){verdict}"


def number(claim: dict[str, Any], value: float) -> str:
    """Return a claim's value, or its mark."""
    if claim["beside"] == REFERENCE:
        return f"1/{1 / value:.3g}" if value < 1 else f"{value:.3g}x"
    if claim["beside"] is None and claim["figure"].endswith(("_per_second", "_microseconds")):
        return f"{value:,.0f}/s" if claim["figure"].endswith("_per_second") else f"{value:,.0f} microseconds"
    return f"{value:.2f}"


def cpu_time(figures: dict[str, float]) -> str:
    """Return the CPU time for a million items, or a dash where other work takes CPU time too."""
    return f"{figures['cpu_seconds_per_million']:,.1f}" if "cpu_seconds_per_million" in figures else "-"


def stop_table(results: dict[str, Any]) -> str:
    """Return the table of how long a stop takes, and a paragraph on where the figures come from."""
    header = ("consumer leaves early", REFERENCE, OURS, "outcome (mark)")
    lines = []
    for row in results["rows"].values():
        title, theirs, _, ours, outcomes, _ = cells(row)
        lines.append((title, theirs, ours, outcomes))
    command = results["provenance"]["command"].replace("python ", "python benchmarks/", 1)
    return table(header, lines) + f"\n{origin(results)} Measured by `{command}`.\n"


def main() -> None:
    """Update the page and its picture."""
    sys.path.insert(0, str(ROOT / "benchmarks"))
    from _report_plots import engine, png_and_svg  # noqa: PLC0415 - nothing else needs matplotlib.

    text = PAGE.read_text(encoding="utf-8")
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    PICTURE.write_bytes(png_and_svg(engine(results))[0])
    text = replace_section(text, LABEL, whole(results))
    stops = stop_table(json.loads(STOP_RESULTS.read_text(encoding="utf-8")))
    PAGE.write_text(replace_section(text, STOP_LABEL, stops), encoding="utf-8")


if __name__ == "__main__":
    main()
