"""The results of the benchmarks as Markdown tables, and the rows that we lost."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING, Any

import data_formats
from _loader_contenders import BARE, OURS
from _loader_turns import MAIN_STEP, STEPS
from noisy_neighbour import NO_LOADER, PERCENTILES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Result = dict[str, Any]

NEXT_TO_ALL = 0.9
"""The share of a contender's highest rate that is enough. More workers than reach it do not count."""


def table(header: Sequence[str], rows: Iterable[Sequence[str]], *, words: int = 1) -> str:
    """Return a table. The first `words` columns hold words, the others numbers."""
    lines = [header, (*["---"] * words, *["---:"] * (len(header) - words)), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def best(result: Result, name: str, step: str) -> Result | None:
    """Return a contender's highest rate at a step, and the cost with the fewest workers that come close to it.

    More workers than these cost memory, and what they gain may be noise.
    """
    rows = [row for row in result["rows"] if (row["contender"], row["step"]) == (name, step)]
    most = max((row["images_per_second"] for row in rows), default=0.0)
    enough = [row for row in rows if row["images_per_second"] >= NEXT_TO_ALL * most]
    return min(enough, key=lambda row: row["workers"]) | {"images_per_second": most} if enough else None


def versioned(result: Result, name: str) -> str:
    """Return a contender's name with the version that ran, unless the name already says it."""
    version = result["contenders"][name]["version"]
    return name if name in (*OURS, BARE) or version in name else f"{name} ({version})"


def left_out(result: Result) -> str:
    """Return a line for everything that was not measured, with the reason."""
    absent = (result["absent"] or {}).items()
    return "".join(f"\nNot measured: {name.removeprefix('all: ')} ({reason}).\n" for name, reason in absent)


def loaders(result: Result) -> str:
    """Return images per second of every step, and the cost of the main step, each at its best number of workers."""
    steps = [step for step in STEPS if any(row["step"] == step for row in result["rows"])]
    ours = max((row["images_per_second"] for name in OURS if (row := best(result, name, MAIN_STEP))), default=None)
    header = (
        "loader", "resize", *[f"{step} (workers)" for step in steps],
        "ours / it", "CPU ms", "MiB", "first batch, s",
    )  # fmt: skip
    rows = []
    for name, about in result["contenders"].items():
        main = best(result, name, "bare" if name == BARE else MAIN_STEP)
        if main is None:
            continue
        each = [best(result, name, "bare" if name == BARE and step == STEPS[0] else step) for step in steps]
        rows.append(
            (
                versioned(result, name),
                about["resize"],
                *["" if it is None else f"{it['images_per_second']:,.0f} ({it['workers']})" for it in each],
                f"{ours / main['images_per_second']:.2f}" if ours else "",
                f"{main['cpu_ms_per_image']:.2f}",
                f"{main['memory_mib']:,.0f}",
                f"{main['first_seconds']:.2f}",
            )
        )
    told = f"Images per second at each step. The columns after these are for `{MAIN_STEP}`; CPU time is per image:"
    if result.get("processes") == "one for all":
        told += " (all in one process: memory includes what it kept of earlier measurements, and it has loaded before)"
    return f"{told}\n\n{table(header, rows, words=2)}" + left_out(result)


def noisy_neighbour(result: Result) -> str:
    """Return how much longer a training loop's steps take beside each loader, at its best and with all workers."""
    counts = result["workers"]
    header = (
        "beside", "workers", *PERCENTILES, "images/s", "CPU seconds per second",
        *[f"p99, {it} worker{'s' * (it > 1)}" for it in counts],
    )  # fmt: skip
    each = {(row["contender"], row["workers"]): row for row in result["rows"]}
    rows = []
    for name, it in result["contenders"].items():
        alone = name == NO_LOADER
        rows.append(
            (
                name,
                "" if alone else f"{it['workers']}",
                *[f"{it[figure]:.2f}" for figure in PERCENTILES],
                "" if alone else f"{it['images_per_second']:.0f}",
                f"{it['cpu_seconds_per_second']:.2f}",
                *[
                    "" if row is None else f"{row['p99']:.2f}{'' if row['keeps_up'] else ' (late)'}"
                    for row in (each.get((name, count)) for count in counts)
                ],
            )
        )
    claims = [
        f"{it['of']}, {it['figure']}: {it['value']:.2f} of the lowest ({it['beside']}), mark at most {it['mark']:g}:"
        f" {'met' if it['met'] else '**missed**'}"
        for it in result["claims"]
    ]
    told = (
        "Percentiles of the steps' times, as multiples of those with no loader right before and after"
        f"{_usual(result)}. Late: the loader did not keep up. A number of workers that was late was not tried again,"
        " unless it was the highest."
    )
    # Records that tried all numbers in all rounds were written before "tries" existed.
    if result.get("tries", result["rounds"]) < result["rounds"]:
        told += f" After {result['tries']} of {result['rounds']} turns the best number alone went on."
    return f"{told}\n\n{table(header, rows)}" + left_out(result) + "".join(f"\n* {it}" for it in claims) + "\n"


def _usual(result: Result) -> str:
    alone = [it["p50_alone_ms"] for it in result["contenders"].values()]
    return f" (half of these take up to {median(alone):.1f} ms)" if alone else ""


def formats(result: Result) -> str:
    """Return items per second of every format, by threads and by processes."""
    return data_formats.table(result) + "\n" + left_out(result)


def engine(result: Result) -> str:
    """Return the cost of the engine, beside the released reference and other contenders."""
    rows = []
    for row in result["rows"].values():
        figures = ", ".join(row["shown"]).replace("_", " ")
        each = [
            f"{name}: " + ", ".join(f"{it[key]:,.0f}" for key in row["shown"]) for name, it in row["contenders"].items()
        ]
        each += [f"{name}: {reason}" for name, reason in row.get("absent", {}).items()]
        claims = "; ".join(outcome(it) for it in row["claims"])
        rows.append((row["title"], figures, "; ".join(each), claims))
    if result["absent"]:
        rows.append((f"spdl 0.8.0: {result['absent']}", "", "", ""))
    return table(("work", "figures", "each", "outcome (mark)"), rows)


def outcome(claim: Result) -> str:
    """Return a claim of the engine in words."""
    beside = f" of {claim['beside']}" if claim["beside"] else ""
    words = f"{claim['figure'].replace('_', ' ')} {claim['value']:,.3g}{beside}"
    if claim["mark"] is not None:
        words += f" ({claim['relation']} {claim['mark']:.3g})"
    return words + (" **missed**" if claim["met"] is False else "")


def judged(section: str, result: Result) -> dict[str, bool]:
    """Return each claim that was judged, in words, and whether it holds."""
    if section in BY_ROW:
        return {
            f"{row['title']}: {outcome(it).removesuffix(' **missed**')}": it["met"]
            for row in result["rows"].values()
            for it in row["claims"]
            if it["met"] is not None
        }
    return {sentence(section, it): it["met"] for it in result["claims"]}


def sentence(section: str, claim: Result) -> str:
    """Return a claim of the other sections in words."""
    value = f"{claim['value']:.2f}"
    if section == "loaders":
        return f"{claim['step']}: {claim['of']} loads {value} times what {claim['beside']} does"
    if section == "data_formats":
        return f"{claim['kind']}, {claim['workers']} threads: {value} times {claim['beside']}"
    return f"{claim['figure']} beside {claim['of']}: {value} of the lowest, beside {claim['beside']}"


def media(result: Result) -> str:
    """Return the rates of reading video or audio, of every contender of every row."""
    parts = []
    for row in result["rows"].values():
        rate = row["figure"]
        header = ("contender", "how", rate.replace("_", " ").replace("cpu second", "CPU-second"), "MiB at most")
        lines = [
            (name, row["resizes"][name], f"{it[rate]:,.0f}", f"{it.get('peak_mib', it.get('memory_mib', 0)):,.0f}")
            for name, it in row["contenders"].items()
        ]
        claims = [f"* {it['of']}: {outcome(it)}\n" for it in row["claims"]]
        words = f"{row['title'][0].upper()}{row['title'][1:]}:\n\n{table(header, lines, words=2)}"
        parts.append(words + left_out(row) + "\n" + "".join(claims))
    return "\n".join(parts)


BY_ROW = {"engine", "video", "audio"}
"""The sections whose rows have claims of their own."""

SECTIONS = {
    "loaders": ("Whole loaders", loaders),
    "data_formats": ("Formats of arrays", formats),
    "engine": ("The engine", engine),
    "noisy_neighbour": ("A training loop beside each loader", noisy_neighbour),
    "video": ("Video", media),
    "audio": ("Audio", media),
}
