"""Write the results of examples/migration.py into docs/migration.md, step by step, and draw a plot for each step.

It reads benchmarks/results/examples/migration.json. If that file is missing, the page says so. A test compares them.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "examples"))

from _program.plots import Line, Panel, draw  # noqa: E402 - on the path added above.

if TYPE_CHECKING:
    from collections.abc import Sequence

PAGE = ROOT / "docs" / "migration.md"
PLOTS = ROOT / "docs" / "images"
RESULTS = ROOT / "benchmarks" / "results" / "examples" / "migration.json"
ABSENT = "No run is recorded yet.\n"

TORCH, PILLOW, FRAMES = "PyTorch DataLoader", "Pipeline, Pillow", "Pipeline, spdl.io"

Record = dict[str, Any]

STEPS: dict[str, tuple[str, tuple[str, ...]]] = {
    "single": ("Single images", (TORCH, PILLOW)),
    "batches": ("Batches", (TORCH, PILLOW)),
    "sizes": ("Larger batches", (TORCH, PILLOW)),
    "frames": ("Batches of frames", (TORCH, PILLOW, FRAMES)),
}
"""The steps of the page: the title of the plot, and the loaders that it compares."""


def batch_sizes(step: str, record: Record) -> list[int | None]:
    """Return the batch sizes that a step compares."""
    found = sorted({row["batch_size"] for row in record["rows"]} - {None})
    return {"single": [None], "batches": found[:1], "sizes": found, "frames": found}[step]


def rates(record: Record, loader: str, batch_size: int | None) -> dict[int, float]:
    """Return images per second by number of workers."""
    return {
        row["num_workers"]: row["images_per_second"]
        for row in record["rows"]
        if (row["loader"], row["batch_size"]) == (loader, batch_size)
    }


def panels(step: str, record: Record) -> list[Panel]:
    """Return the panels to draw, one for each batch size."""
    _, loaders = STEPS[step]
    found = []
    for batch_size in batch_sizes(step, record):
        lines = {}
        for loader in loaders:
            points = rates(record, loader, batch_size)
            lines[loader] = Line(list(points), list(points.values()), ours=loader != TORCH)
        title = "single images" if batch_size is None else f"batches of {batch_size}"
        found.append(Panel(title, "workers", "images/s", lines, doubling=True))
    return found


def table(step: str, record: Record) -> str:
    """Return a table of the loaders, each at its best number of workers."""
    _, loaders = STEPS[step]
    lines = [
        f"| at its best | {' | '.join(loaders)} | relative to DataLoader |",
        f"| :-- |{' --: |' * (len(loaders) + 1)}",
    ]
    for batch_size in batch_sizes(step, record):
        best = [max(rates(record, loader, batch_size).values()) for loader in loaders]
        title = "single images" if batch_size is None else f"batches of {batch_size}"
        figures = " | ".join(f"{rate:,.0f} images/s" for rate in best)
        lines.append(f"| {title} | {figures} | {best[-1] / best[0]:.2f} times |")
    return "\n".join(lines) + "\n"


def section(step: str, record: Record | None) -> str:
    """Return the text between the markers of a step."""
    if record is None:
        return ABSENT
    title, loaders = STEPS[step]
    origin = record["provenance"]
    return (
        f"![{title}: images per second against workers, {' and '.join(loaders)}](images/migration_{step}.png)\n\n"
        f"{table(step, record)}\n"
        f"Measured on {origin['cores']:g} cores ({origin['cpu']}), {origin['date'][:10]}, commit {origin['commit']};"
        " `benchmarks/results/examples/migration.json`.\n"
    )


def with_sections(page: str, record: Record | None) -> str:
    """Return the page with the measurements."""
    for step in STEPS:
        begin, end = (f"<!-- {word}: scripts/migration_page.py, {step} -->\n" for word in ("begin", "end"))
        page, count = re.subn(
            f"(?<={re.escape(begin)}).*?(?={re.escape(end)})",
            lambda _, step=step: f"\n{section(step, record)}\n",  # type: ignore[misc]
            page,
            flags=re.DOTALL,
        )
        if count != 1:
            raise SystemExit(f"{PAGE} should hold these two markers once; it holds them {count} times:\n{begin}{end}")
    return page


def recorded() -> Record | None:
    """Return what the program measured, or None if no run is recorded."""
    if not RESULTS.exists():
        return None
    record: Record = json.loads(RESULTS.read_text(encoding="utf-8"))
    if record["quick"]:
        raise SystemExit(f"{RESULTS} is of a quick run, which measures nothing: record it without --quick")
    return record


def drawn(steps: Sequence[str]) -> list[Path]:
    """Return the files of the plots."""
    return [PLOTS / f"migration_{step}.png" for step in steps]


def main() -> None:
    """Update the page and its plots."""
    record = recorded()
    if record is not None:
        for step, file in zip(STEPS, drawn(list(STEPS)), strict=True):
            draw(panels(step, record), STEPS[step][0], file)
    PAGE.write_text(with_sections(PAGE.read_text(encoding="utf-8"), record), encoding="utf-8")


if __name__ == "__main__":
    main()
