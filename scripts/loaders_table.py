"""Writes the recorded runs of benchmarks/loaders.py and noisy_neighbour.py into the README, as one table.

Run it as `.venv/bin/python scripts/loaders_table.py` after `make bench`, or `make bench-full`, on a machine that does
nothing else, and after both JSON files were copied from build/bench to benchmarks/results. README.md and the results
are to be committed together; a test compares them.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

from _loader_contenders import AREA, BARE, OURS  # noqa: E402 - they are found there.
from _loader_turns import MAIN_STEP  # noqa: E402
from _report_tables import NEXT_TO_ALL, best, table, versioned  # noqa: E402

README = ROOT / "README.md"
RESULTS = ROOT / "benchmarks" / "results"

BEGIN = "<!-- begin: scripts/loaders_table.py -->\n"
END = "<!-- end: scripts/loaders_table.py -->\n"
HEADER = (
    "loader", "images/s (workers)", "ours / it", "CPU ms per image", "MiB", "first batch, s",
    "training step p50, p99, relative to no loader (workers)",
)  # fmt: skip


def content(loaders: dict[str, Any], noisy: dict[str, Any]) -> str:
    """Return the table in Markdown, and a paragraph that says what it comes from."""
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
            steps = f"{beside['p50']:.2f}, {beside['p99']:.2f} ({beside['workers']}{late})"
        rows.append(
            (
                versioned(loaders, name) + (" *" if about["resize"] == AREA else ""),
                f"{row['images_per_second']:,.0f} ({row['workers']})",
                f"{ours / row['images_per_second']:.2f}",
                f"{row['cpu_ms_per_image']:.2f}",
                f"{row['memory_mib']:,.0f}",
                f"{row['first_seconds']:.2f}",
                steps,
            )
        )
    alone = noisy["contenders"]["no loader"]
    origin = loaders["provenance"]
    commits = [run["provenance"]["commit"] for run in (loaders, noisy)]
    commit = commits[0] if commits[0] == commits[1] else f"{commits[0]} ({commits[1]} beside the training loop)"
    missed = "".join(
        f" Missed: {it['figure']} beside {it['of']}, {it['value']:.2f} of the lowest"
        f" ({it['beside']}) where at most {it['mark']:.2f} was meant."
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
        + f"\nMedians of {loaders['rounds']} rounds in turns ({noisy['rounds']} beside the training loop), each in a"
        f" process of its own, on {origin['cores']:g} cores ({origin['cpu']}), Python {origin['python']},"
        f" {origin['date'][:10]}, commit {commit}. Images per second are the most with"
        f" {', '.join(map(str, counts))} workers; in parentheses are the fewest that give {NEXT_TO_ALL:.0%} of that,"
        f" which the costs are of. Beside the training loop each has {' or '.join(map(str, noisy['workers']))}"
        " workers, of those that keep up whichever gives the lower p99; the steps' percentiles are relative to those of"
        f" the same loop right before and after, with no loader. Where no loader runs in between they are"
        f" {alone['p50']:.2f} and {alone['p99']:.2f}, which is chance."
        " Memory is that of all its processes while it loads. The first batch counts from when the loader is"
        " opened, its modules being imported already. Ours is built on the system's libjpeg-turbo here; the wheel,"
        " which has an entropy decoder of its own, [is faster](docs/images.md). * resized by the average of the area,"
        f" all other loaders by an antialiased bilinear filter. {BARE} does nothing but decode photos that are in"
        f" memory, at their full size: the limit of all that decode with that library.{missed}{left_out}\n"
    )


def with_table(readme: str, loaders: dict[str, Any], noisy: dict[str, Any]) -> str:
    """Return the README with the table of these results."""
    replaced, count = re.subn(
        f"(?<={re.escape(BEGIN)}).*?(?={re.escape(END)})", lambda _: content(loaders, noisy), readme, flags=re.DOTALL
    )
    if count != 1:
        raise SystemExit(f"{README.name} should hold the two markers once; it holds them {count} times:\n{BEGIN}{END}")
    return replaced


def recorded() -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the recorded runs."""
    loaders, noisy = (json.loads((RESULTS / f"{name}.json").read_text()) for name in ("loaders", "noisy_neighbour"))
    return loaders, noisy


def main() -> None:
    """Renew the README."""
    README.write_text(with_table(README.read_text(encoding="utf-8"), *recorded()), encoding="utf-8")


if __name__ == "__main__":
    main()
