"""Write the recorded runs of benchmarks/text.py and benchmarks/tables.py into docs/text.md and docs/tables.md.

First run `python benchmarks/text.py --json benchmarks/results/text.json`, or the same of tables, on an otherwise idle
machine, then `python scripts/text_page.py`. Commit the pages and the results together; a test compares them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sections import replace_section

ROOT = Path(__file__).parent.parent
MEDIA = ("text", "tables")
LABEL = "scripts/text_page.py"

OURS = "spdl-turbo"
_LARGE = 1000
# The figures of which less is better. The first figure of a row is the one in which contenders are compared.
_LESS = ("first batch ms", "state us", "bytes", "resumed ms")


def page(medium: str) -> Path:
    """Return the page of a benchmark."""
    return ROOT / "docs" / f"{medium}.md"


def recorded(medium: str) -> dict[str, Any]:
    """Return the recorded run of a benchmark, with its rows and their marks by the names of these."""
    path = ROOT / "benchmarks" / "results" / f"{medium}.json"
    results: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if "rows" in results and isinstance(results["rows"], dict):
        return results
    name = f"{results['rows']:,} rows in batches of 8,192, shuffled"
    marks = {"rows per second" if key == "least" else key: mark for key, mark in results["marks"].items()}
    return {**results, "rows": {name: results}, "marks": {name: marks}}


def table(results: dict[str, Any]) -> str:
    """Return the page's table, and where the figures come from."""
    lines = ["| work | outcome | mark |", "| --- | --- | --- |"]
    for name, row in results["rows"].items():
        for subject, mark in results["marks"][name].items():
            outcome, wanted = claim(row["medians"], subject, mark)
            lines.append(f"| {name} | {outcome} | {wanted} |")
    it, rounds = results["provenance"], results["rounds"]
    return (
        "\n".join(lines) + f"\n\nMedians of {rounds} alternating rounds, each contender in its own process, on "
        f"{it['cores']:g} cores ({it['cpu']}), Python {it['python']}, {it['date'][:10]}, commit {it['commit']}.\n"
    )


def claim(medians: dict[str, dict[str, float]], subject: str, mark: float) -> tuple[str, str]:
    """Return the outcome of a claim, and the mark: of a figure of ours, or of the ratio to a contender."""
    ours = medians[OURS]
    if subject in ours:
        less = subject in _LESS
        met = ours[subject] <= mark if less else ours[subject] >= mark
        wanted = f"at {'most' if less else 'least'} {shown(mark)}"
        return f"{subject}: {shown(ours[subject])}{'' if met else ' **missed**'}", wanted
    wanted = f"at least {mark:.4g}x"
    if subject not in medians:
        return f"beside {subject}: did not run", wanted
    figure = next(iter(ours))
    ratio = ours[figure] / medians[subject][figure]
    return f"{ratio:.3g}x beside {subject}{'' if ratio >= mark else ' **missed**'}", wanted


def shown(value: float) -> str:
    """Return a figure as it is written: large ones without a fraction."""
    return f"{value:,.0f}" if value >= _LARGE else f"{value:.5g}"


def main() -> None:
    """Update the pages."""
    for medium in MEDIA:
        text = page(medium).read_text(encoding="utf-8")
        page(medium).write_text(replace_section(text, LABEL, table(recorded(medium))), encoding="utf-8")


if __name__ == "__main__":
    main()
