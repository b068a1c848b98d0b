"""Run the rows of a benchmark: contenders work in turns, each in a process of its own, and medians are judged."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from _engine_rows import OURS, REFERENCE
from _turns import Job, JobFailedError, is_ours, run_job, why_left_out
from spdl._cores import available_cores
from spdl.cli._common.console import Console
from spdl.cli._common.machine import provenance
from spdl.cli._demo.turn import PeerUnavailable, reference_environment

if TYPE_CHECKING:
    from _engine_rows import Claim, Row
    from _turns import Figures

OWN = (sys.executable,)


def measure(
    row: Row, rounds: int, folder: Path, reference: tuple[str, ...] | None
) -> tuple[dict[str, Figures], dict[str, str]]:
    """Let the contenders work in turns.

    Returns:
        The median of each contender's figures, and the error messages of contenders that failed and had no more turns.
    """
    commands = {name: OWN if name != REFERENCE else reference for name in row.works}
    found: dict[str, list[Figures]] = {name: [] for name, command in commands.items() if command}
    failed: dict[str, str] = {}
    for _ in range(rounds * row.times):
        try:
            calibration = run_job(Job(OWN, folder, {"work": "training.calibrate"})) if row.calibrated else {}
        except JobFailedError as reason:
            return {}, dict.fromkeys(found, f"the machine's speed could not be measured: {reason}")
        for name, each in found.items():
            if name not in failed:
                try:
                    each.append(run_job(Job(commands[name] or (), folder, row.works[name] | calibration)))
                except JobFailedError as reason:
                    failed[name] = why_left_out(name, reason)
    medians = {
        name: {key: median(it[key] for it in each) for key in each[0]}
        for name, each in found.items()
        if name not in failed
    }
    return medians, failed


def judge(claim: Claim, contenders: dict[str, Figures], *, judged: bool) -> dict[str, Any] | None:
    """Compare a figure with the mark. Return None if one of the contenders did not run."""
    if not {claim.of, claim.beside or claim.of} <= contenders.keys():
        return None
    value = contenders[claim.of][claim.figure]
    if claim.beside is not None:
        value /= contenders[claim.beside][claim.figure]
    met = None
    if judged and claim.mark is not None:
        met = value >= claim.mark if claim.relation == "at least" else value <= claim.mark
    return {
        "figure": claim.figure,
        "of": claim.of,
        "beside": claim.beside,
        "value": value,
        "relation": claim.relation,
        "mark": claim.mark,
        "met": met,
    }


def describe(row: dict[str, Any]) -> str:
    """Return some lines for a row: the figures of each contender, and the outcome of the claims."""
    lines = [row["title"]]
    for name, figures in row["contenders"].items():
        shown = ", ".join(
            f"{key} {value:,.4g}" if value < 1 else f"{key} {value:,.1f}" for key, value in figures.items()
        )
        lines.append(f"  {name}: {shown}")
    lines += [f"  {name} is left out: {reason}" for name, reason in row["absent"].items()]
    for claim in row["claims"]:
        what = " ".join([claim["of"] if claim["of"] != OURS else "", claim["figure"]]).strip()
        what += f" / {claim['beside']}" if claim["beside"] else ""
        mark = "no mark" if claim["mark"] is None else f"mark {claim['relation']} {claim['mark']:.4g}"
        verdict = {True: "met", False: "MISSED", None: "not judged"}[claim["met"]]
        lines.append(f"  {what} = {claim['value']:.4g}, {mark}: {verdict}")
    return "\n".join(lines)


def run_table(description: str, table: dict[str, Row], folder: Path) -> int:
    """Run the rounds that the command line asks for, then print and write the outcome.

    Args:
        description: The description for ``--help``.
        table: The rows.
        folder: The program that does the work of the rows.

    Returns:
        The exit status, which says whether the claims hold.
    """
    cores = available_cores()
    default = [key for key, row in table.items() if row.cores <= cores]
    parser = argparse.ArgumentParser(
        description=description,
        epilog="rows:\n" + "\n".join(f"  {key:<16} {row.title}" for key, row in table.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--rows",
        nargs="+",
        choices=table,
        default=default,
        metavar="ROW",
        help="which rows (default: all that the number of cores is enough for)",
    )
    parser.add_argument("--rounds", type=int, default=3, help="rounds per row (default: %(default)s)")
    parser.add_argument("--json", type=Path, help="write the result to this file")
    options = parser.parse_args()

    reference = absent = None
    try:
        reference = reference_environment(Console()).command
    except PeerUnavailable as reason:
        absent = str(reason)
        print(f"{REFERENCE} is left out: {absent}")

    rows: dict[str, dict[str, Any]] = {}
    for key in options.rows:
        row = table[key]
        contenders, failed = measure(row, options.rounds, folder, reference)
        claims = [judge(claim, contenders, judged=row.cores <= cores) for claim in row.claims]
        rows[key] = {
            "title": row.title,
            "beside": row.beside,
            "shown": row.figures,
            "works": row.works,
            "contenders": contenders,
            "absent": failed,
            "claims": [claim for claim in claims if claim],
        }
        print(describe(rows[key]), flush=True)
    if options.json:
        result = {"provenance": provenance(), "rounds": options.rounds, "absent": absent, "rows": rows}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n")
    missed = [
        row["title"]
        for row in rows.values()
        if any(map(is_ours, row["absent"])) or any(claim["met"] is False for claim in row["claims"])
    ]
    for title in missed:
        print(f"MISSED {title}")
    return 1 if missed else 0
