"""Writes the results of the example programs into their pages, between two markers: plots, tables, observations.

Record a program on a machine that does nothing else, then run this:

    .venv/bin/python examples/NAME.py --json benchmarks/results/examples/NAME.json
    .venv/bin/python scripts/example_pages.py

Commit the pages and plots in docs/ together with the recorded results; a test compares them.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "examples"))

from sections import replace_section  # noqa: E402

from _program.plots import Panel, draw  # noqa: E402 - the line above puts its folder on the path.

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

PAGES = ROOT / "docs" / "examples"
PLOTS = ROOT / "docs" / "images" / "examples"
RESULTS = ROOT / "benchmarks" / "results" / "examples"

LABEL = "scripts/example_pages.py"
# A table has fewer than twice as many rows: the plot has all points.
_ROWS = 25

Record = dict[str, Any]
Row = dict[str, Any]


def best(rows: Iterable[Row], figure: str, **wanted: Any) -> float:
    """Return the highest figure of the rows that have these values."""
    return max(row[figure] for row in rows if all(row[key] == value for key, value in wanted.items()))


def data_formats(record: Record) -> list[str]:
    """Return a comparison of the libraries, and of threads with processes."""
    rows, rate = record["rows"], "items_per_second"
    found = []
    for name, kind in {
        "npy": {"data_format": "npy"},
        "npz": {"data_format": "npz", "compressed": False},
        "compressed npz": {"data_format": "npz", "compressed": True},
    }.items():
        ours, numpys = (best(rows, rate, mode="mt", impl=impl, **kind) for impl in ("spdl", "np"))
        processes = best(rows, rate, mode="mp", impl="spdl", **kind)
        found.append(
            f"{name}: in threads `spdl.io` loads {times(ours / numpys)} as many samples as `numpy.load`, and"
            f" {times(ours / processes)} as many as it loads in processes."
        )
    return found


def multi_thread_preprocessing(record: Record) -> list[str]:
    """Return a comparison of the loaders at each step."""
    found = []
    for step in dict.fromkeys(row["step"] for row in record["rows"]):
        rows = [row for row in record["rows"] if row["step"] == step]
        theirs, single, batch = (
            best(rows, "images_per_second", experiment=name) for name in ("exp_torch", "exp_spdl", "exp_spdl_batch")
        )
        found.append(
            f"{step}: compared with PyTorch's DataLoader, a Pipeline loads {times(single / theirs)} as many images one"
            f" by one, and {times(batch / theirs)} as many with `load_image_batch`."
        )
    return found


def migration(record: Record) -> list[str]:
    """Say what each step gains, and how much memory each way of making a batch wastes."""
    rows, rate = record["rows"], "images_per_second"
    found = []
    for batch_size in dict.fromkeys(row["batch_size"] for row in rows):
        own = [row for row in rows if row["batch_size"] == batch_size]
        theirs = best(own, rate, loader="PyTorch DataLoader")
        ratios = {
            loader: times(best(own, rate, loader=loader) / theirs)
            for loader in ("Pipeline, Pillow", "Pipeline, spdl.io")
            if any(row["loader"] == loader for row in own)
        }
        said = " and ".join(f"{ratio} ({loader.removeprefix('Pipeline, ')})" for loader, ratio in ratios.items())
        title = "Single images" if batch_size is None else f"Batches of {batch_size}"
        found.append(f"{title}: a Pipeline loads {said} as many images per second as PyTorch's DataLoader.")
    wasted = "; ".join(f"{row['wasted_mb']:.1f} MB ({row['way']})" for row in record["copies"])
    size, own_mb = record["copies_batch_size"], f"{record['copies'][0]['batch_mb']:.1f} MB"
    found.append(
        f"A batch of {size} photos of 720 x 480 takes this much memory besides its own {own_mb}: {wasted}."
        " For 32 photos and Pillow, arithmetic gives about 20 MB: the size by which RGB exceeds the photo's own YUV"
        " 4:2:0, and a tensor for each image. Pillow makes more copies than that, at four bytes per pixel."
    )
    return found


def npz_training(record: Record) -> list[str]:
    """Compare each way with the baseline and with the upper bound."""
    rates = {row["way"]: row["batches_per_second"] for row in record["rows"]}
    costs = [
        f"{row['way']}: {row['batches_per_second']:.1f} batches/s, at {row['peak_mib'] or 0:,.0f} MiB."
        for row in record["rows"]
    ]
    compared = [
        f"{way}: {times(rate / rates['NPZ, processes'])} the baseline, {rate / rates['upper bound']:.0%} of the bound."
        for way, rate in rates.items()
        if way not in ("NPZ, processes", "upper bound")
    ]
    return [*costs, *compared, f"The baseline is {record['baseline']}."]


def image_classification(record: Record) -> list[str]:
    """Say which share of the time was spent waiting, after the first epoch."""
    rows = record["rows"][1:]
    shares = sorted(row["data_share"] for row in rows)
    share = f"{shares[len(shares) // 2]:.0%}"
    return [f"After the first epoch, with {record['num_threads']} loading threads, waiting takes {share} of the time."]


def video_classification(record: Record) -> list[str]:
    """Say which share of the time was spent waiting, and what was learnt."""
    rows = record["rows"][1:]
    shares = sorted(row["data_share"] for row in rows)
    share = f"{shares[len(shares) // 2]:.0%}"
    return [
        f"After the first epoch, waiting takes {share} of the time.",
        f"In the end, {record['rows'][-1]['held_out']:.0%} of the samples that were held out are classified correctly.",
    ]


def audio_keywords(record: Record) -> list[str]:
    """Say which share of the time was spent waiting, and what was learnt."""
    return video_classification(record)


def self_supervised(record: Record) -> list[str]:
    """Say what was learnt without labels."""
    first, last = record["rows"][0], record["rows"][-1]
    return [
        f"The loss fell from {first['loss']:.2f} to {last['loss']:.2f}.",
        f"In the end, the nearest photo is of the same class for {last['accuracy']:.0%} of the photos.",
    ]


def resume_training(record: Record) -> list[str]:
    """Say how often the run was stopped, and whether its losses are the same."""
    rows = record["rows"]
    differing = sum(row["loss"] != row["resumed_loss"] for row in rows)
    same = "All losses are the same to the last bit" if not differing else f"{differing} losses differ"
    return [
        f"The second run was stopped {len(record['stops'])} times in {len(rows)} steps. {same}.",
        f"The loss fell from {rows[0]['loss']:.2f} to {rows[-1]['loss']:.2f}.",
    ]


def pretrain_text(record: Record) -> list[str]:
    """Say how often the run was killed, and whether its losses are the same."""
    rows = record["rows"]
    differing = sum(row["loss"] != row["resumed_loss"] for row in rows)
    same = "All losses are the same to the last bit" if not differing else f"{differing} losses differ"
    return [
        f"The second run was killed {len(record['kills'])} times in {len(rows)} steps. {same}.",
        f"The loss fell from {rows[0]['loss']:.2f} to {rows[-1]['loss']:.2f}.",
    ]


def headspace(record: Record) -> list[str]:
    """Return how much faster training could get."""
    return [
        f"With {row['num_threads']} loading thread{'s' * (row['num_threads'] > 1)}, training could be"
        f" {times(row['headspace'])} as fast if loading took no time."
        for row in record["rows"]
    ]


def noisy_neighbour(record: Record) -> list[str]:
    """Say how much neighbours of each kind slow the training down."""
    found = []
    for kind in dict.fromkeys(row["neighbours"] for row in record["rows"]):
        alone, *beside = sorted(
            (row for row in record["rows"] if row["neighbours"] == kind), key=lambda it: it["number"]
        )
        costs = ", ".join(
            f"{row['steps_per_second'] / alone['steps_per_second']:.0%} beside {row['number']}" for row in beside
        )
        found.append(f"{kind}: training keeps this share of its speed: {costs}.")
    return found


OBSERVATIONS: dict[str, Callable[[Record], list[str]]] = {
    function.__name__: function
    for function in (
        data_formats,
        multi_thread_preprocessing,
        migration,
        npz_training,
        image_classification,
        video_classification,
        audio_keywords,
        self_supervised,
        resume_training,
        pretrain_text,
        headspace,
        noisy_neighbour,
    )
}


def times(ratio: float) -> str:
    """Return a ratio in words."""
    return f"{ratio:.2f} times" if ratio < 10 else f"{ratio:.0f} times"  # noqa: PLR2004 - three digits either way.


def tables(panels: Sequence[Panel]) -> list[str]:
    """Return the figures of each panel as a Markdown table; skip panels whose curves do not share their points."""
    found = []
    for panel in panels:
        places = sorted({x for line in panel.lines.values() for x in line.x})
        if any(list(line.x) != places for line in panel.lines.values()):
            continue
        lines = [
            (f"{panel.title}: {panel.y_label} by {panel.x_label}", *panel.lines),
            (":--", *["--:"] * len(panel.lines)),
            *(
                (f"{x:g}", *(amount(line.y[index]) for line in panel.lines.values()))
                for index, x in list(enumerate(places))[:: max(len(places) // _ROWS, 1)]
            ),
        ]
        found.append("".join(f"| {' | '.join(line)} |\n" for line in lines))
    return found


def amount(value: float) -> str:
    """Return a figure with at least three digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"  # noqa: PLR2004 - three digits either way.


def recorded(name: str) -> Record | None:
    """Return the recorded results of a program, or None if there are none."""
    file = RESULTS / f"{name}.json"
    if not file.exists():
        return None
    record: Record = json.loads(file.read_text(encoding="utf-8"))
    return record


def section(name: str, record: Record | None) -> str:
    """Return the text between the markers of a page."""
    if record is None:
        return "No run is recorded yet: the program prints its table, and draws it with `--plot`.\n"
    origin = record["provenance"]
    rounds = "one round" if record["rounds"] == 1 else f"medians of {record['rounds']} rounds in turns"
    compared = " Each is compared at its best number of workers." if "num_workers" in record["rows"][0] else ""
    described = (
        f"Measured on {origin['cores']:g} cores ({origin['cpu']}), {origin['date'][:10]}, commit {origin['commit']},"
        # The record holds the program's name without its folder.
        f" by `{origin['command'].replace(name, f'examples/{name}', 1)}`; {rounds}.{compared}\n"
    )
    parts = [
        f"![{record['title']}](../images/examples/{name}_plot.png)\n",
        *tables(importlib.import_module(name).panels(record)),
        # Markdown would take a line that begins with a plus for a list.
        "".join(f"* {line}\n".replace("* +", "* \\+", 1) for line in OBSERVATIONS[name](record)),
        described,
    ]
    return "\n".join(parts)


def with_section(page: str, name: str, record: Record | None) -> str:
    """Return a page with the results of its program."""
    return replace_section(page, LABEL, f"\n{section(name, record)}\n")


def main() -> None:
    """Update all pages and plots."""
    for name in OBSERVATIONS:
        record = recorded(name)
        if record is not None:
            if record["quick"]:
                raise SystemExit(f"{name}.json is of a quick run, which measures nothing: record it without --quick")
            draw(importlib.import_module(name).panels(record), record["title"], PLOTS / f"{name}_plot.png")
        page = PAGES / f"{name}.md"
        page.write_text(with_section(page.read_text(encoding="utf-8"), name, record), encoding="utf-8")


if __name__ == "__main__":
    main()
