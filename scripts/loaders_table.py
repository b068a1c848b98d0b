"""Write the recorded runs of benchmarks/loaders.py and noisy_neighbour.py into the README as one short table.

First run `make bench` or `make bench-full` on an otherwise idle machine, and copy both JSON files from build/bench to
benchmarks/results. Then run `.venv/bin/python scripts/loaders_table.py`. Commit README.md and the results together; a
test compares them. `scripts/comparison_page.py` writes the full tables into docs/case_studies/loaders.md.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from sections import replace_section

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from _loader_contenders import AREA, BARE, OURS  # noqa: E402 - on the path added above.
from _loader_turns import MAIN_STEP  # noqa: E402
from _report_tables import NEXT_TO_ALL, best, table, versioned  # noqa: E402

README = ROOT / "README.md"
RESULTS = ROOT / "benchmarks" / "results"

LABEL = "scripts/loaders_table.py"
HEADER = (
    "loader", "images/s (workers)", "ours / it", "CPU ms per image", "training step, p99 (workers)",
)  # fmt: skip


def content(loaders: dict[str, Any], noisy: dict[str, Any]) -> str:
    """Return the table in Markdown, and a paragraph on where its figures come from."""
    ours = max(row["images_per_second"] for name in OURS if (row := best(loaders, name, MAIN_STEP)))
    rows = []
    for name, about in loaders["contenders"].items():
        row = best(loaders, name, "bare" if name == BARE else MAIN_STEP)
        if row is None:
            continue
        beside = noisy["contenders"].get(name)
        steps = ""
        if beside:
            late = "" if beside["keeps_up"] else ", late"
            steps = f"{beside['p99']:.2f} ({beside['workers']}{late})"
        rows.append(
            (
                versioned(loaders, name) + (" *" if about["resize"] == AREA else ""),
                f"{row['images_per_second']:,.0f} ({row['workers']})",
                f"{ours / row['images_per_second']:.2f}",
                f"{row['cpu_ms_per_image']:.2f}",
                steps,
            )
        )
    alone = noisy["contenders"]["no loader"]
    origin = loaders["provenance"]
    commits = [run["provenance"]["commit"] for run in (loaders, noisy)]
    commit = commits[0] if commits[0] == commits[1] else f"{commits[0]} ({commits[1]} for the training loop)"
    missed = "".join(
        f" Missed: {it['figure']} beside {it['of']} is {it['value']:.2f} of the lowest"
        f" ({it['beside']}); the mark is at most {it['mark']:.2f}."
        for it in noisy["claims"]
        if not it["met"]
    )
    counts = sorted({row["workers"] for row in loaders["rows"]})
    left_out = "".join(
        f" Not measured: {name.removeprefix('all: ')} ({reason})."
        for name, reason in (loaders["absent"] | noisy["absent"]).items()
    )
    return (
        table(HEADER, rows)
        + f"\nMedians of {loaders['rounds']} alternating rounds ({noisy['rounds']} for the training loop), each in its"
        f" own process, on {origin['cores']:g} cores ({origin['cpu']}), Python {origin['python']},"
        f" {origin['date'][:10]}, commit {commit}. Each loader ran with {', '.join(map(str, counts))} workers; the"
        " table shows its highest rate. In parentheses is the lowest number of workers that reaches"
        f" {NEXT_TO_ALL:.0%} of that rate; CPU time was measured with that number. The last column is the 99th"
        " percentile of the training loop's step time, divided by that of the same loop without a loader; with no"
        f" loader in either run the ratio is {alone['p99']:.2f}, by chance. There each loader has"
        f" {' or '.join(map(str, noisy['workers']))} workers: of the numbers that keep up with the loop, the one with"
        " the lower ratio. Loaders marked * resize by averaging areas, the others with an antialiased bilinear"
        f" filter. {BARE} only decodes photos that are already in memory, at full size: it is the limit for every"
        f" loader that decodes with that library.{missed}{left_out}\n"
    )


def with_table(readme: str, loaders: dict[str, Any], noisy: dict[str, Any]) -> str:
    """Return the README with the table of these results."""
    return replace_section(readme, LABEL, content(loaders, noisy))


def recorded() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the recorded runs."""
    loaders, noisy = (json.loads((RESULTS / f"{name}.json").read_text()) for name in ("loaders", "noisy_neighbour"))
    return loaders, noisy


def main() -> None:
    """Update the README."""
    README.write_text(with_table(README.read_text(encoding="utf-8"), *recorded()), encoding="utf-8")


if __name__ == "__main__":
    main()
