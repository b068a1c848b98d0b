"""Write the recorded runs of the benchmarks of loaders and their states into the pages of the guide.

For each, first run, for example, `.venv/bin/python benchmarks/dropin.py --json benchmarks/results/dropin.json` on an
otherwise idle machine, then `.venv/bin/python scripts/loader_pages.py`. Commit the pages and the results together; a
test compares them.
"""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sections import replace_section

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"

# What the rows of a benchmark are about.
DROPIN_ROWS = {
    "tiny": "28x28 arrays with labels, batches of 256, 2 workers",
    "first batch": "a dataset of 1.2 million paths, 4 workers: the first batch",
    "photos": "photos of 500x375 to 224x224, batches of 32, a worker for each core",
    "flipped": "the same photos with Pillow, half of them turned over as PyTorch's generator says",
}
UNITS = {
    "items_per_second": "items/s",
    "images_per_second": "images/s",
    "cpu_us_per_item": "CPU us per item",
    "cpu_ms_per_image": "CPU ms per image",
    "first_batch_ms": "first batch, ms",
    "memory_mib": "MiB",
}
RECORD_ROWS = {
    "shards, read": "samples of tar archives, photos of 500x375: the bytes, in batches of 64, 2 workers",
    "shards, decoded": "the same photos, decoded and resized to 224x224",
    "parquet, tables": "rows of a file of 10,000 row groups",
}
STATE_FIGURES = {
    "microseconds": ("`Pipeline.state_dict()` while it runs", "us"),
    "bytes": ("its JSON", "bytes"),
    "bytes_with_one_stuck": ("the same with one item stuck since the beginning", "bytes"),
    "first_item_milliseconds": ("a new pipeline with that state: built, first item received", "ms"),
    "loader_microseconds": ("`ImageLoader.state_dict()`, 10**6 samples", "us"),
    "loader_bytes": ("its JSON", "bytes"),
    "loader_first_batch_milliseconds": ("a new loader with that state: first batch", "ms"),
}
ORDER_FIGURES = {
    "first_milliseconds": ("the first index of an `EpochSampler`", "ms"),
    "megabytes": ("the most memory while 100,000 are read", "MB"),
    "indices_per_second": ("`KeyedPermutation.take`, one thread", "indices/s"),
    "iterated_per_second": ("a loop over an `EpochSampler`", "indices/s"),
    "numpy_first_milliseconds": ("the first index of `numpy`'s permutation of a hundredth as many", "ms"),
}


def dropin(run: dict[str, Any]) -> str:
    """Return the tables of the loader with PyTorch's arguments."""
    parts = []
    for row, it in run["rows"].items():
        figures = list(dict.fromkeys(key for each in it["contenders"].values() for key in each))
        lines = [
            (name, *(number(each[key]) if key in each else "" for key in figures))
            for name, each in it["contenders"].items()
        ]
        parts.append(table((DROPIN_ROWS[row], *(UNITS[key] for key in figures)), lines))
        parts.append("".join(f"* {claim(each)}\n" for each in it["claims"]))
        parts.append("".join(f"* {name} did not run: {why}\n" for name, why in it["absent"].items()))
    return "\n".join(filter(None, parts)) + f"\n{origin(run)}"


def claim(it: dict[str, Any]) -> str:
    """Return a sentence on a ratio or a figure, and on its mark."""
    figure = UNITS[it["figure"]]
    said = f"{it['of']}, {figure}: "
    said += f"{ratio(it['value'])} of {it['beside']}" if it["beside"] else number(it["value"])
    for word, mark in ((">=", it["least"]), ("<=", it["most"])):
        if mark is not None:
            said += f" ({word} {mark:g})" + ("" if it["met"] else " **missed**")
    return said


def ratio(value: float) -> str:
    """Return a ratio."""
    return f"{value:.2f}" if value < 100 else f"{value:,.0f}"  # noqa: PLR2004 - enough digits either way.


def labelled(run: dict[str, Any]) -> str:
    """Return the table of the image loader."""
    steps = list(dict.fromkeys(row["step"] for row in run["rows"]))
    rates = {(row["step"], row["contender"]): row["images_per_second"] for row in run["rows"]}
    names = list(dict.fromkeys(row["contender"] for row in run["rows"]))
    lines = [(name, *(number(rates[step, name]) for step in steps)) for name in names]
    ratios = [
        f"* {it['step']}: {it['value']:.2f} of {it['beside']} (>= {it['mark']:g}){'' if it['met'] else ' **missed**'}\n"
        for it in run["claims"]
    ]
    absent = [f"* {name} did not run: {why}\n" for name, why in run["absent"].items()]
    header = (f"images per second, {run['workers']} workers", *steps)
    return f"{table(header, lines)}\n{''.join(ratios + absent)}\n{origin(run)}"


def figures(names: dict[str, tuple[str, str]]) -> Callable[[dict[str, Any]], str]:
    """Return a function that returns a table of medians, with their marks."""

    def content(run: dict[str, Any]) -> str:
        lines = []
        for key, (what, unit) in names.items():
            mark = run["marks"].get(key)
            relation = ">=" if key.endswith("per_second") else "<"
            verdict = "" if run["held"].get(key, True) else " **missed**"
            said = "" if mark is None else f"{relation} {mark:,.0f}{verdict}"
            lines.append((what, f"{number(statistics.median(run['figures'][key]))} {unit}", said))
        return f"{table(('what', 'median', 'mark'), lines)}\n{origin(run)}"

    return content


def records(run: dict[str, Any]) -> str:
    """Return the tables of the sources of records."""
    parts = []
    for row, it in run["rows"].items():
        medians = it["medians"]
        if row == "opening":
            (figures,) = medians.values()
            parts.append(table(("what", "figure"), [(name, number(value)) for name, value in figures.items()]))
            continue
        names = list(dict.fromkeys(name for each in medians.values() for name in each))
        lines = [
            (who, *(number(each[name]) if name in each else "" for name in names)) for who, each in medians.items()
        ]
        parts.append(table((RECORD_ROWS[row], *names), lines))
        peers = [who for who in medians if not who.startswith("spdl")]
        ratios = {who: medians["spdl-turbo"]["per second"] / medians[who]["per second"] for who in peers}
        mark = run["marks"][row]
        parts.append(
            "".join(
                f"* {ratio(value)} of {who} (>= {mark:g}){'' if value >= mark else ' **missed**'}\n"
                for who, value in ratios.items()
            )
        )
        parts.append("".join(f"* {who} did not run: {why}\n" for who, why in it["failed"].items()))
    return "\n".join(filter(None, parts)) + f"\n{origin(run)}"


def autotune(run: dict[str, Any]) -> str:
    """Return the table of pipelines that tune themselves."""
    rows = {name: row for name, row in run["rows"].items() if "ratio" in row}
    lines = [
        (row["title"], number(row["tuned_per_second"]), f"{row['ratio']:.2f}", f"{row['cpu_ratio']:.2f}", _chosen(row))
        for row in rows.values()
    ]
    missed = [
        f"* **missed**: {it['figure']} of {it['of']}, {it['value']:.2f}\n" for it in run["claims"] if not it["met"]
    ]
    header = ("workload", "items/s", "of the best by hand (>= 0.92)", "of its CPU per item (<= 1.1)", "what it chose")
    parts = [table(header, lines), "".join(missed)]
    still = [_still(row) for name, row in run["rows"].items() if name.startswith("still")]
    if still:
        header = ("workload", "limits changed (0)", "seconds until as fast as it can be (<= 5)")
        parts.append("Left alone once they have settled, and then with a first op that takes four times as long:\n")
        parts.append(table(header, still))
    first = next(iter(run["rows"].values()))
    return "\n".join(filter(None, parts)) + "\n" + origin(run | {"provenance": first["provenance"]})


def _still(row: dict[str, Any]) -> tuple[str, ...]:
    title = row.get("title", "20 ms of waiting; the loop takes 4 ms")
    changes = f"{row['changes_while_quiet']} in {row['quiet_seconds']:.0f} s"
    share = row.get("share_again", 1.0)
    again = f"{row['again_after_seconds']:.1f}" + ("" if share == 1 else f", at {share:g} of the rate")
    return title, changes, again


def _chosen(row: dict[str, Any]) -> str:
    return "; ".join(
        ", ".join(f"{each}" for each in found["concurrency"].values()) + f" on {found['num_threads']} threads"
        for found in row["found"]
    )


def origin(run: dict[str, Any]) -> str:
    """Return the paragraph on where the figures come from."""
    it = run["provenance"]
    rounds = run.get("rounds") or len(next(iter(run["figures"].values())))
    command = re.split(" --(?:json|rows)", it["command"].replace("python ", "python benchmarks/", 1))[0]
    return (
        f"Medians of {rounds} alternating rounds on {it['cores']:g} cores ({it['cpu']}), Python {it['python']}, "
        f"{it['date'][:10]}, commit {it['commit']}, by `{command}`.\n"
    )


def table(header: tuple[str, ...], lines: Iterable[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    return "".join(f"| {' | '.join(line)} |\n" for line in (header, ("---",) * len(header), *lines))


def number(value: float) -> str:
    """Return a figure with no more digits than are meaningful."""
    if value >= 1e6:  # noqa: PLR2004 - a million.
        return f"{value / 1e6:.3g} million"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"  # noqa: PLR2004 - three digits either way.


# The page and the content of each result.
SECTIONS: dict[str, tuple[str, Callable[[dict[str, Any]], str]]] = {
    "autotune": ("measuring", autotune),
    "dropin": ("dropin", dropin),
    "labelled": ("loaders", labelled),
    "records": ("shards", records),
    "resume": ("resume", figures(STATE_FIGURES)),
    "shuffle": ("sharding", figures(ORDER_FIGURES)),
}


def label(name: str) -> str:
    """Return the label of the section of a result."""
    return f"scripts/loader_pages.py, {name}"


def recorded(name: str) -> dict[str, Any]:
    """Return a recorded run."""
    run: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return run


def page(name: str) -> Path:
    """Return the page that shows a result."""
    return ROOT / "docs" / f"{SECTIONS[name][0]}.md"


def main() -> None:
    """Update the pages."""
    for name, (_, content) in SECTIONS.items():
        text = page(name).read_text(encoding="utf-8")
        page(name).write_text(replace_section(text, label(name), content(recorded(name))), encoding="utf-8")


if __name__ == "__main__":
    main()
