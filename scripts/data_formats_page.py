"""Writes the recorded benchmarks of arrays into docs/case_studies/data_formats.md, and draws its plot.

Reads benchmarks/results/arrays.json and benchmarks/results/data_formats.json; if one is missing, the page says so.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "case_studies" / "data_formats.md"
IMAGES = ROOT / "docs" / "images"
RESULTS = ROOT / "benchmarks" / "results"
ABSENT = "No run is recorded yet.\n"


def block(text: str, name: str, content: str) -> str:
    """Return the text with this content between the marks of that name."""
    begin, end = (f"<!-- {word}: scripts/data_formats_page.py, {name} -->\n" for word in ("begin", "end"))
    head, _, rest = text.partition(begin)
    _, found, tail = rest.partition(end)
    if not found:
        raise SystemExit(f"{PAGE} has no marks for {name}")
    return f"{head}{begin}\n{content}\n{end}{tail}"


def origin(result: dict[str, Any]) -> str:
    """Return a sentence that says where the figures come from."""
    it = result["provenance"]
    return (
        f"Medians of {result['rounds']} rounds in turns, each in its own process, on {it['cores']:g} cores"
        f" ({it['cpu']}), Python {it['python']}, {it['date'][:10]}, commit {it['commit']}.\n"
    )


def marks(result: dict[str, Any]) -> str:
    """Return the table of claims, one line for each contender."""
    lines = ["| work | by | calls/s | calls per CPU-second | outcome (mark) |", "| --- | --- | ---: | ---: | --- |"]
    for row in result["rows"].values():
        title = row["title"]
        outcomes = {claim["beside"]: outcome(claim) for claim in row["claims"]}
        for name, it in row["contenders"].items():
            speeds = f"{it['calls_per_second']:,.0f} | {it['calls_per_cpu_second']:,.0f}"
            lines.append(f"| {title} | {name} | {speeds} | {outcomes.get(name, '')} |")
            title = ""
    compared = (
        "Rows with one thread are compared by calls per CPU-second, all others by calls/s. In the batch row a call is"
        " one file."
    )
    return "\n".join(lines) + f"\n\n{compared} " + origin(result)


def outcome(claim: dict[str, Any]) -> str:
    """Return how many times as fast ours is as another, with the mark that it should reach."""
    missed = " **missed**" if claim["met"] is False else ""
    return f"ours {claim['value']:.2f}x (>= {claim['mark']}x){missed}"


def scaling(path: Path) -> str:
    """Draw the plot, and return the Markdown that shows it with its table."""
    script = ROOT / "benchmarks" / "data_formats.py"
    done = subprocess.run(
        [sys.executable, script, "--draw", path, "--plots", IMAGES], check=True, capture_output=True, text=True
    )
    picture = "![Items per second against workers, one line for each format](../images/data_formats.png)\n\n"
    return picture + done.stdout + "\n" + origin(json.loads(path.read_text()))


def main() -> None:
    """Update the page and its plot."""
    recorded, lines = RESULTS / "arrays.json", RESULTS / "data_formats.json"
    text = PAGE.read_text(encoding="utf-8")
    text = block(text, "scaling", scaling(lines) if lines.exists() else ABSENT)
    text = block(text, "marks", marks(json.loads(recorded.read_text())) if recorded.exists() else ABSENT)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
