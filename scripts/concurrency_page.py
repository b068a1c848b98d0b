"""Write the recorded runs about the workers of regions into docs/concurrency.md.

First run `python benchmarks/region_kinds.py --json benchmarks/results/region_kinds.json` (on Python 3.14) and
`python benchmarks/region_kills.py --json benchmarks/results/region_kills.json` on an otherwise idle machine, then
`python scripts/concurrency_page.py`. Commit the page and the results together; a test compares them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sections import replace_section

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "concurrency.md"
KINDS = ROOT / "benchmarks" / "results" / "region_kinds.json"
KILLS = KINDS.with_name("region_kills.json")
LABEL = "scripts/concurrency_page.py"

NAMES = {
    "processes": "processes",
    "processes, preloaded": "processes, of a fork server that has the modules",
    "interpreters": "interpreters",
    "threads": "threads",
    "none": "no region, 2 threads",
}
VICTIMS = {
    "worker, 1": "the only worker",
    "worker, 2": "one of 2 workers",
    "parent, 1": "the reader, which has 1 worker",
    "parent, 2": "the reader, which has 2 workers",
}
UNTIL = {
    "worker": "the pipeline fails",
    "worker, rerun": "the next item",
    "parent": "all processes are gone",
}
# With more waiting for a core than this share of the cores, other programs were at work.
QUIET = 0.5


def kinds_table(results: dict[str, Any]) -> str:
    """Return the table of the kinds of workers."""
    lines = [
        "| 2 workers | 1 ms of Python | by 1 worker | nothing to do | first item of the first pipeline | of others |",
        "|---|---|---|---|---|---|",
    ]
    for kind, name in NAMES.items():
        if (found := results["kinds"].get(kind)) is None:
            lines.append(f"| {name} | did not run | | | | |")
            continue
        rates = [_rate(found.get(op)) for op in ("spin", "one", "same")]
        starts = [_milliseconds(found["start"][f"{which}_milliseconds"]) for which in ("first", "later")]
        lines.append(f"| {' | '.join([name, *rates, *starts])} |")
    return "\n".join(lines) + f"\n\nMedians of {results['rounds']} rounds in turns, {_origin(results, KINDS)}.\n"


def _rate(figures: dict[str, float] | None) -> str:
    return "" if figures is None else f"{figures['items_per_second']:,.0f} items/s"


def _milliseconds(value: float) -> str:
    return f"{value:,.0f} ms" if value >= 10 else f"{value:.1f} ms"  # noqa: PLR2004 - two digits either way.


def kills_table(results: dict[str, Any]) -> str:
    """Return the table of what was killed, and what was left."""
    lines = [
        "| `on_death` | killed | until | kills | median | 95 of 100 | longest | lost, repeated or changed |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for policy, found in results["policies"].items():
        for victim, it in found["victims"].items():
            seconds = [f"{it[name]:.2f} s" for name in ("median_seconds", "p95_seconds", "longest_seconds")]
            wrong = sum(it[what] for what in ("lost", "repeated", "broken", "wrong"))
            until = UNTIL.get(f"{victim[:6]}, {policy}", UNTIL[victim[:6]])
            cells = [f'`"{policy}"`', VICTIMS[victim], until, str(it["kills"]), *seconds, str(wrong)]
            lines.append(f"| {' | '.join(cells)} |")
    every = results["policies"].values()
    left = sum(max(0, found[what][1] - found[what][0]) for found in every for what in ("processes", "descriptors"))
    left += sum(len(found["shared_memory_left"]) for found in every)
    said = "Nothing was left" if not left else f"**{left} things were left**"
    return "\n".join(lines) + (
        f"\n\n{said} after {results['kills']} kills, of processes, descriptors and entries in `/dev/shm`. Measured "
        f"{_origin(results, KILLS)}.\n"
    )


def _origin(results: dict[str, Any], path: Path) -> str:
    it = results["provenance"]
    busy = results["load"] > QUIET * it["cores"]
    where = f"on {it['cores']:g} cores ({it['cpu']}), Python {it['python']}, {it['date'][:10]}, commit {it['commit']}"
    other = f", **beside a load of {results['load']:.0f}**" if busy else ""
    return f"{where}{other}; `benchmarks/results/{path.name}`"


def main() -> None:
    """Update the page."""
    text = PAGE.read_text(encoding="utf-8")
    for name, path, table in (("kinds", KINDS, kinds_table), ("kills", KILLS, kills_table)):
        if path.exists():
            content = "\n" + table(json.loads(path.read_text(encoding="utf-8"))) + "\n"
            text = replace_section(text, f"{LABEL}, {name}", content)
    PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
