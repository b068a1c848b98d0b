"""Write the recorded runs of benchmarks/loaders.py and noisy_neighbour.py into docs/case_studies/loaders.md.

Tables go between the page's markers, plots into docs/images. Run it as `.venv/bin/python scripts/comparison_page.py`,
together with scripts/loaders_table.py, which says how to record the results. A test compares the page with the results.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "scripts")]

from loaders_table import recorded  # noqa: E402

import _report_tables  # noqa: E402 - the line above puts its folder on the path.
from _loader_contenders import BARE  # noqa: E402
from _loader_turns import STEPS  # noqa: E402
from report import origin  # noqa: E402

PAGE = ROOT / "docs" / "case_studies" / "loaders.md"
IMAGES = ROOT / "docs" / "images"
# The plots of a report that the page shows, by the run that they come from.
PLOTS = {"loaders": ("loaders", "loaders_costs"), "noisy_neighbour": ("noisy_neighbour",)}


def scaling(result: dict[str, Any], step: str) -> str:
    """Return a table of images per second at one step, by the number of workers."""
    rows = {
        (row["contender"], row["workers"]): row["images_per_second"]
        for row in result["rows"]
        if row["step"] == ("bare" if row["contender"] == BARE else step)
    }
    counts = sorted({workers for _, workers in rows})
    lines = [
        (name, *[f"{rows[name, it]:,.0f}" if (name, it) in rows else "" for it in counts])
        for name in result["contenders"]
        if any((name, it) in rows for it in counts)
    ]
    return _report_tables.table(("loader", *[f"{it} worker{'s' * (it > 1)}" for it in counts]), lines)


def several(result: dict[str, Any]) -> list[str]:
    """Return the steps at which at least one contender was tried with several numbers of workers."""
    return [
        step
        for step in STEPS
        if any(
            len({row["workers"] for row in result["rows"] if (row["contender"], row["step"]) == (name, step)}) > 1
            for name in result["contenders"]
        )
    ]


def lost(section: str, result: dict[str, Any]) -> str:
    """Return the lost comparisons as a Markdown list."""
    lines = [f"* {row}\n" for row, met in _report_tables.judged(section, result).items() if not met]
    return "".join(lines) or "None.\n"


def contents() -> dict[str, str]:
    """Return the text between the markers, by name."""
    loaders, noisy = recorded()
    return {
        "steps": f"{_report_tables.loaders(loaders)}\n{origin(loaders)}.\n",
        "workers": "\n".join(f"`{step}`, images per second:\n\n{scaling(loaders, step)}" for step in several(loaders)),
        "lost": lost("loaders", loaders),
        "neighbour": f"{_report_tables.noisy_neighbour(noisy)}\n{origin(noisy)}.\n",
    }


def with_contents(page: str, pieces: dict[str, str]) -> str:
    """Return the page with these pieces between its markers."""
    for name, piece in pieces.items():
        begin, end = (f"<!-- {word}: scripts/comparison_page.py, {name} -->\n" for word in ("begin", "end"))
        pattern = f"(?<={re.escape(begin)}).*?(?={re.escape(end)})"
        page, count = re.subn(pattern, lambda _, piece=piece: f"\n{piece}\n", page, flags=re.DOTALL)
        if count != 1:
            raise SystemExit(f"{PAGE} should hold these two lines once:\n{begin}{end}")
    return page


def main() -> None:
    """Update the page and its plots."""
    from _report_plots import FIGURES, png_and_svg  # noqa: PLC0415 - nothing else needs matplotlib.

    PAGE.write_text(with_contents(PAGE.read_text(encoding="utf-8"), contents()), encoding="utf-8")
    for section, result in zip(PLOTS, recorded(), strict=True):
        for name in PLOTS[section]:
            (IMAGES / f"comparison_{name}.png").write_bytes(png_and_svg(FIGURES[section][name](result))[0])


if __name__ == "__main__":
    main()
