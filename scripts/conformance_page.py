"""Write the recorded runs of `make conformance` into docs/images.md and docs/arrays.md as tables, between markers.

First record both builds on any machine:

    make conformance ARGS="--record benchmarks/results/conformance.json"
    make conformance ARGS="--record benchmarks/results/conformance.json" WHEEL=dist/NAME.whl

Then run `.venv/bin/python scripts/conformance_page.py`, and commit the pages and the record together; a test compares
them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sections import replace_section

ROOT = Path(__file__).parent.parent
RECORDED = ROOT / "benchmarks" / "results" / "conformance.json"
ARRAYS = ("npy", "npz", "wav", "tar", "zip")
PAGES = {"images": ROOT / "docs" / "images.md", "arrays": ROOT / "docs" / "arrays.md"}

# What a kind of difference is called in the list below a table.
_SAID = {
    "near": "near",
    "refused": "refused by us",
    "read": "read by us alone",
    "deliberate": "deliberate",
    "wrong": "**wrong**",
}


def content(recorded: dict[str, Any], page: str) -> str:
    """Return the tables of a page: counts, then the reasons, then where the figures come from."""
    wheel = _of_page(recorded["wheel"], page)
    system = _of_page(recorded["system"], page)
    return f"{_counts(wheel, system)}\n{_reasons(wheel, system)}\n{_origin(recorded, wheel)}"


def _of_page(run: dict[str, Any], page: str) -> dict[str, Any]:
    """Return the part of a run that concerns a page."""
    return {
        "rows": {name: counts for name, counts in run["rows"].items() if (name in ARRAYS) == (page == "arrays")},
        "differences": [each for each in run["differences"] if (each["format"] in ARRAYS) == (page == "arrays")],
    }


def _counts(wheel: dict[str, Any], system: dict[str, Any]) -> str:
    """Return the table of counts, with a line for the system's FFmpeg where it makes a difference."""
    columns = list(next(iter(wheel["rows"].values())))
    lines = [["format", *columns], ["---"] + ["--:"] * len(columns)]
    for name, counts in wheel["rows"].items():
        lines.append([name, *(_number(counts[column]) for column in columns)])
        other = system["rows"][name]
        if other != counts:
            lines.append([f"{name}, FFmpeg 5.1", *(_number(other[column]) for column in columns)])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _number(count: int) -> str:
    return f"{count:,}"


def _reasons(wheel: dict[str, Any], system: dict[str, Any]) -> str:
    """Return a list of the differences by format. Those of one build say so."""
    ours, theirs = ({_key(each): each for each in run["differences"]} for run in (wheel, system))
    merged = {key: (ours.get(key), theirs.get(key)) for key in [*ours, *(key for key in theirs if key not in ours)]}
    groups: dict[str, list[str]] = {}
    for (name, kind, reason), (one, other) in merged.items():
        groups.setdefault(f"{name}, {_SAID[kind]}", []).append(f"{reason} ({_extent(one, other)})")
    order = [f"{name}, {said}" for name in wheel["rows"] for said in _SAID.values()]
    return "".join(f"* {name}: {'; '.join(groups[name])}.\n" for name in order if name in groups)


def _key(each: dict[str, Any]) -> tuple[str, str, str]:
    return each["format"], each["kind"], each["reason"]


def _extent(wheel: dict[str, Any] | None, system: dict[str, Any] | None) -> str:
    """Return how many files show a difference, and how far off they are."""
    if wheel is None or system is None:
        one = wheel or system
        assert one is not None
        return _measured(one) + (" of the wheel" if system is None else " with FFmpeg 5.1")
    if wheel["files"] == system["files"]:
        return _measured(wheel)
    return f"{_measured(wheel)}; {system['files']} with FFmpeg 5.1"


def _measured(each: dict[str, Any]) -> str:
    count = f"{each['files']} file" + "s" * (each["files"] != 1)
    if "largest" not in each:
        return count
    levels = f"{each['largest']:g} level" + "s" * (each["largest"] != 1)
    return f"{count}, at most {levels} and {max(each['mean'], 0.001):.2g} on average"


def _origin(recorded: dict[str, Any], wheel: dict[str, Any]) -> str:
    """Return the paragraph on where the figures come from."""
    files = sum(counts["files"] for counts in wheel["rows"].values())
    run = recorded["wheel"]
    origin, system = run["provenance"], recorded["system"]
    commits = sorted({each["provenance"]["commit"] for each in (run, system)})
    return (
        f"{files:,} files of {len(run['packages'])} packages (`tests/conformance/packages.toml`), read by the wheel "
        f"(libavcodec {run['libavcodec']}) on Python {origin['python']} and by a build on Debian's FFmpeg 5.1 "
        f"(libavcodec {system['libavcodec']}), {origin['date'][:10]}, commit{'s' * (len(commits) > 1)} "
        f"{', '.join(commits)}. Compared with Pillow {origin['versions']['pillow']} and NumPy "
        f"{origin['versions']['numpy']}.\n"
    )


def label(name: str) -> str:
    """Return the label of the section of a page."""
    return f"scripts/conformance_page.py, {name}"


def main() -> None:
    """Update the pages."""
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    for name, page in PAGES.items():
        text = replace_section(page.read_text(encoding="utf-8"), label(name), content(recorded, name))
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
