"""Write the recorded run of benchmarks/store.py into docs/stores.md.

First run `python benchmarks/store.py --fsspec PYTHON --json benchmarks/results/store.json` on an otherwise idle
machine, then `python scripts/store_page.py`. Commit the page and the results together; a test compares them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from sections import replace_section

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "stores.md"
RESULTS = ROOT / "benchmarks" / "results" / "store.json"
LABEL = "scripts/store_page.py"

OURS, FILE_BY_FILE, CAT = "spdl-turbo", "fsspec, file by file", "fsspec, cat"
HEDGED, UNHEDGED, CACHE = "spdl-turbo, hedged", "spdl-turbo, unhedged", "spdl-turbo, disk cache"

_LEAST, _MOST = "at least", "at most"


class Claim(NamedTuple):
    """A claim of the benchmark.

    Attributes:
        title: What was measured.
        value: The outcome; None if a contender did not run.
        mark: What it has to be.
        relation: ``"at least"`` or ``"at most"``.
        shown: How it is written.
    """

    title: str
    value: float | None
    mark: float
    relation: str
    shown: str


def claims(medians: dict[str, dict[str, float]]) -> list[Claim]:
    """Return the claims with their outcomes."""

    def ratio(contender: str, figure: str, other: str) -> float | None:
        if contender not in medians or other not in medians:
            return None
        return medians[contender][figure] / medians[other][figure]

    def of(contender: str, figure: str) -> float | None:
        return medians.get(contender, {}).get(figure)

    cpu = "cpu_microseconds"
    slow_file, slow_cat = ratio(FILE_BY_FILE, cpu, OURS), ratio(CAT, cpu, OURS)
    late = ratio(HEDGED, "p99_seconds", UNHEDGED)
    return [
        Claim("100 kB objects: share of what the line carries", of(OURS, "share_of_optimum"), 0.9, _LEAST, "{:.2f}"),
        Claim("CPU per object, in microseconds", of(OURS, cpu), 220, _MOST, "{:.0f}"),
        Claim("objects per CPU-second, beside fsspec file by file", slow_file, 5, _LEAST, "{:.1f}x"),
        Claim("objects per CPU-second, beside fsspec's `cat`", slow_cat, 2, _LEAST, "{:.1f}x"),
        Claim("the time that 1 batch in 100 exceeds, hedged beside unhedged", late, 1 / 3, _MOST, "{:.2f}"),
        Claim("bytes asked for twice, as a share", of(HEDGED, "extra_bytes_share"), 0.05, _MOST, "{:.3f}"),
        Claim("an epoch from a full cache, beside files", of(CACHE, "warm_share_of_local"), 0.95, _LEAST, "{:.2f}"),
    ]


def table(results: dict[str, Any]) -> str:
    """Return the page's table, and where the figures come from."""
    lines = ["| what | outcome | mark |", "| --- | --- | --- |"]
    for claim in claims(results["medians"]):
        relation = claim.relation
        mark = f"{relation} {claim.shown.format(claim.mark)}"
        if claim.value is None:
            lines.append(f"| {claim.title} | did not run | {mark} |")
            continue
        met = claim.value <= claim.mark if relation == _MOST else claim.value >= claim.mark
        lines.append(f"| {claim.title} | {claim.shown.format(claim.value)}{'' if met else ' **missed**'} | {mark} |")
    it, rounds = results["provenance"], results["rounds"]
    turns = f"Medians of {rounds} alternating rounds" if rounds > 1 else "One round"
    return (
        "\n".join(lines) + f"\n\n{turns}, each contender in its own process, on {it['cores']:g} cores"
        f" ({it['cpu']}), Python {it['python']}, {it['date'][:10]}, commit {it['commit']}.\n"
    )


def main() -> None:
    """Update the page."""
    results = json.loads(RESULTS.read_text(encoding="utf-8"))
    PAGE.write_text(replace_section(PAGE.read_text(encoding="utf-8"), LABEL, table(results)), encoding="utf-8")


if __name__ == "__main__":
    main()
