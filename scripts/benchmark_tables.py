"""Write the recorded runs of the benchmarks of media into their pages as tables, between markers.

For images, video and audio: first run, for example, `.venv/bin/python benchmarks/images.py --rounds 5 --json
benchmarks/results/images.json` on an otherwise idle machine, then `.venv/bin/python scripts/benchmark_tables.py`.
Commit the pages and the results together; a test compares them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sections import replace_section

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Page:
    """A page with the tables of a benchmark."""

    medium: str

    @property
    def results(self) -> Path:
        """The recorded run."""
        return ROOT / "benchmarks" / "results" / f"{self.medium}.json"

    @property
    def path(self) -> Path:
        """The page itself."""
        return ROOT / "docs" / "case_studies" / f"{self.medium}.md"


PAGES = tuple(map(Page, ("images", "video", "audio")))

OURS = "spdl-turbo"
HEADER = ("work", "figure", "outcome (mark)")
WHOLE_HEADER = ("contender", "resize", "workers", "images per second", "per CPU-second", "MiB")

# The format of figures that are claimed as they are, not as a ratio.
UNITS = {"growth": "grows {:.3f}x", "excess_ms": "{:+.1f} ms of excess"}


def summary(results: dict[str, Any]) -> str:
    """Return a short table of all rows: the outcome of each, compared with the contender that comes closest."""
    lines = [HEADER, ("---",) * len(HEADER), *(cells(row) for row in results["rows"].values())]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines) + f"\n{origin(results)}"


def cells(row: dict[str, Any]) -> tuple[str, ...]:
    """Return a row of the short table: a line for each outcome, and for each contender that did not run."""
    claims = closest_claims(row)
    figures = dict.fromkeys(spaced(claim["figure"]) for claim in claims)
    said = [outcome(claim) for claim in claims] + [f"{name}: not run" for name in row["absent"]]
    return row["title"], ", ".join(figures), "<br>".join(said)


def own_name(name: str) -> str:
    """Return the part of a name that distinguishes our contenders from each other, with a colon."""
    rest = name.removeprefix(OURS).removeprefix(", ")
    return f"{rest}: " if rest else ""


def closest_claims(row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the claim with the least margin for each contender, figure and mark.

    If no claim has a mark, return all of them.
    """
    marked = [claim for claim in row["claims"] if claim["mark"] is not None]
    groups: dict[tuple[str, str, float], dict[str, Any]] = {}
    for claim in marked:
        key = claim["of"], claim["figure"], claim["mark"]
        groups[key] = min(groups.get(key, claim), claim, key=margin)
    return list(groups.values()) or row["claims"]


def margin(claim: dict[str, Any]) -> float:
    """Return how far the value is on the right side of the mark."""
    difference: float = claim["value"] - (claim["mark"] or 0)
    return difference if claim["relation"] == "at least" else -difference


def outcome(claim: dict[str, Any]) -> str:
    """Return the value, what it is relative to, the mark if there is one, and whether it was missed."""
    ratio = claim["beside"] is not None
    own = own_name(claim["of"])
    value, mark = (f"{it:.2f}" if ratio else plain(claim, it) for it in (claim["value"], claim["mark"] or 0))
    said = f"{own}{value}" + (f" of {claim['beside'].removeprefix(f'{OURS}, ')}" if ratio else "")
    if claim["mark"] is None:
        return said
    relation = {"at least": ">=", "at most": "<="}[claim["relation"]]
    verdict = {True: "", False: " **missed**", None: ", not judged"}[claim["met"]]
    return f"{said} ({relation} {mark}){verdict}"


def plain(claim: dict[str, Any], value: float) -> str:
    """Return a figure that is claimed as it is, with its unit."""
    return UNITS[claim["figure"]].format(value)


def origin(results: dict[str, Any]) -> str:
    """Return the paragraph on where the figures come from."""
    it = results["provenance"]
    rounds = sorted({row["rounds"] for row in results["rows"].values()})
    commits = sorted({row["commit"] for row in results["rows"].values()})
    dates = sorted({row["date"][:10] for row in results["rows"].values()})
    left_out = "".join(f" Left out: {key}, because {why}." for key, why in results["left_out"].items())
    return (
        f"Medians of {' or '.join(map(str, rounds))} alternating rounds, each in its own process, on {it['cores']:g}"
        f" cores ({it['cpu']}), Python {it['python']}, {' and '.join(dates)}, commit{'s' * (len(commits) > 1)}"
        f" {', '.join(commits)}.{left_out}\n"
    )


def whole(results: dict[str, Any]) -> str:
    """Return the full tables: every contender of every row, and every claim."""
    parts = []
    for row in results["rows"].values():
        lines = [f"## {row['title'][0].upper()}{row['title'][1:]}\n\n"]
        lines += f"| {' | '.join(header(row))} |\n", f"|{' --- |' * len(header(row))}\n"
        lines += [f"| {' | '.join(line)} |\n" for line in contender_lines(row)]
        lines += ["\n", *(f"* {sentence(claim)}\n" for claim in row["claims"])]
        lines += [f"* {name} did not run: {why}\n" for name, why in row["absent"].items()]
        parts.append("".join(lines))
    return "\n".join(parts) + f"\n{origin(results)}"


def header(row: dict[str, Any]) -> tuple[str, ...]:
    """Return the columns of a row's table."""
    return WHOLE_HEADER if is_of_loading(row) else ("contender", how(row), *map(spaced, own_figures(row)))


def how(row: dict[str, Any]) -> str:
    """Return the heading over what each contender does to what it has decoded."""
    return "rate" if any("resampled" in it for it in row["resizes"].values()) else "resize"


def is_of_loading(row: dict[str, Any]) -> bool:
    """Return whether a row measures how fast images are loaded, whatever else it measures."""
    return "images_per_cpu_second" in next(iter(row["contenders"].values()))


def own_figures(row: dict[str, Any]) -> list[str]:
    """Return the names of the figures in a row of another kind."""
    several = len({it.get("workers") for it in row["contenders"].values()}) > 1
    return [name for name in next(iter(row["contenders"].values())) if several or name != "workers"]


def contender_lines(row: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the lines of a row's table."""
    lines = []
    cells: tuple[str, ...]
    for name, it in row["contenders"].items():
        if is_of_loading(row):
            memory = it.get("memory_mib", it.get("peak_mib", 0))
            speeds = number(it["images_per_second"]), number(it["images_per_cpu_second"])
            cells = f"{it['workers']:.0f}", *speeds, number(memory)
        else:
            cells = tuple(number(it[figure]) for figure in own_figures(row))
        lines.append((name, row["resizes"][name], *cells))
    return lines


def number(value: float) -> str:
    """Return a figure with no more digits than are meaningful."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"  # noqa: PLR2004 - three digits either way.


def spaced(name: str) -> str:
    """Return the name of a figure in words."""
    return name.replace("_", " ").replace("cpu second", "CPU-second").replace(" mib", ", MiB").replace(" ms ", ", ms ")


def sentence(claim: dict[str, Any]) -> str:
    """Return a claim with its figure."""
    return f"{spaced(claim['figure'])}: {outcome(claim)}"


def label(name: str) -> str:
    """Return the label of a section: "summary" or "whole"."""
    return f"scripts/benchmark_tables.py, {name}"


def main() -> None:
    """Update the pages."""
    for page in PAGES:
        results = json.loads(page.results.read_text(encoding="utf-8"))
        text = page.path.read_text(encoding="utf-8")
        for name, content in (("summary", summary(results)), ("whole", whole(results))):
            text = replace_section(text, label(name), content)
        page.path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
