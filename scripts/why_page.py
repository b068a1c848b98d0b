"""Write the recorded run of benchmarks/why.py into docs/measuring.md.

First run `python benchmarks/why.py --json benchmarks/results/why.json` on an otherwise idle machine, then
`python scripts/why_page.py`. Commit the page and the results together; a test compares them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sections import replace_section

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "measuring.md"
RESULTS = ROOT / "benchmarks" / "results" / "why.json"
LABEL = "scripts/why_page.py"


def table(run: dict[str, Any]) -> str:
    """Return the page's table, and where the figures come from."""
    lines = [
        "| kind | stage | right | answered after | predicted | gained | predicted / gained |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        *(f"| {' | '.join(cells(found, run['rounds']))} |" for found in run["figures"].values()),
    ]
    figures = run["figures"].values()
    right = sum(found["right"] == run["rounds"] for found in figures)
    predicted = [found["held"]["ratio"] for found in figures if "ratio" in found["held"]]
    slowest = max(found["seconds"] for found in figures)
    off = run["marks"]["off"]
    said = (
        f"{right} of {len(figures)} were named in every round, after {slowest:.1f} s at most; {sum(predicted)} of "
        f"{len(predicted)} predictions are within {100 * off:.0f} % of what was gained."
    )
    notes = [
        f"* {found['kind']}: {what}, since {found[key]}.\n"
        for found in figures
        for key, what in (("no_prediction", "no gain is predicted"), ("no_gain", "no gain can be measured"))
        if key in found
    ]
    it = run["provenance"]
    return (
        "\n".join(lines) + f"\n\n{said}\n\n{''.join(notes)}\nMedians of {run['rounds']} rounds (of the answers the "
        f"slowest), each program in its own process, on {it['cores']:g} cores ({it['cpu']}), Python "
        f"{it['python']}, {it['date'][:10]}, commit {it['commit']}, by `python benchmarks/why.py`.\n"
    )


def cells(found: dict[str, Any], rounds: int) -> list[str]:
    """Return the cells of a bottleneck."""

    def missed(claim: str) -> str:
        return "" if found["held"].get(claim, True) else " **missed**"

    def gain(key: str) -> str:
        return f"{found[key]:.2f}x" if key in found else "none"

    return [
        found["kind"],
        f"`{found['stage']}`" if found["stage"] else "",
        f"{found['right']} of {rounds}{missed('right')}",
        f"{found['seconds']:.2f} s{missed('seconds')}",
        f"{gain('predicted_gain')}{missed('unpredicted')}",
        gain("gain"),
        (f"{found['ratio']:.2f}" if "ratio" in found else "") + missed("ratio"),
    ]


def main() -> None:
    """Update the page."""
    run = json.loads(RESULTS.read_text(encoding="utf-8"))
    PAGE.write_text(replace_section(PAGE.read_text(encoding="utf-8"), LABEL, table(run)), encoding="utf-8")


if __name__ == "__main__":
    main()
