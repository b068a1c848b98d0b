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

from _loader_contenders import BARE, OURS  # noqa: E402 - on the path added above.
from _loader_turns import MAIN_STEP  # noqa: E402 - the normalised floats.
from _report_tables import best, table, versioned  # noqa: E402

README = ROOT / "README.md"
RESULTS = ROOT / "benchmarks" / "results"

BYTES_STEP = "batch"
LABEL = "scripts/loaders_table.py"
HEADER = ("loader", "bytes, images/s", "ours / it", "normalised, images/s", "ours / it", "training step, p99")
NAMED = ("PyTorch DataLoader, Pillow", "spdl 0.8.0, image by image")
"""The loaders that most readers come from. Beside ours and the fastest of all others, they make the table."""
PAGE = "docs/case_studies/loaders.md"


def shown(loaders: dict[str, Any]) -> list[str]:
    """Return the contenders of the table: the fastest of ours, those that most use, and the fastest of the rest."""
    rates = {
        name: row["images_per_second"]
        for name in loaders["contenders"]
        if name != BARE and (row := best(loaders, name, MAIN_STEP))
    }
    rest = [name for name in rates if name not in (*OURS, *NAMED)]
    firsts = [max(names, key=rates.__getitem__) for names in ([it for it in OURS if it in rates], rest) if names]
    return [*firsts, *(name for name in NAMED if name in rates)]


def content(loaders: dict[str, Any], noisy: dict[str, Any]) -> str:
    """Return the table in Markdown, with a sentence on the job and one on where its figures come from."""
    names = shown(loaders)
    rates = {
        name: [(best(loaders, name, step) or {})["images_per_second"] for step in (BYTES_STEP, MAIN_STEP)]
        for name in names
    }
    rows = []
    for name, own in rates.items():
        compared = [(f"{rate:,.0f}", f"{ours / rate:.2f}") for ours, rate in zip(rates[names[0]], own, strict=True)]
        beside = noisy["contenders"].get(name)
        late = "" if beside is None or beside["keeps_up"] else ", late"
        rows.append(
            (
                versioned(loaders, name),
                *(cell for pair in compared for cell in pair),
                f"{beside['p99']:.2f}{late}" if beside else "",
            )
        )
    origin = loaders["provenance"]
    missed = sum(not it["met"] for run in (loaders, noisy) for it in run["claims"])
    lost = f" {missed} of its comparisons were lost: [which]({PAGE}#what-is-lost)." if missed else ""
    return (
        "Photos of 500x375 are read from files, stretched to 224x224 and batched by 32, as bytes or as normalised"
        f" float32, on {origin['cores']:g} cores ({origin['cpu']}). Last column: how many times as long the slowest"
        " training steps take with the loader as without.\n\n"
        + table(HEADER, rows)
        + f"\nMeasured on {origin['date'][:10]}; [the whole comparison]({PAGE}) has all {len(loaders['contenders'])}"
        f" contenders.{lost}\n"
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
