"""Pack documents into rows and read rows of tokens, beside the packers and loaders that others use.

Claims: 99.5 % of the tokens of rows of 4,096 are used for a million documents of lognormal lengths, and 5 million
documents are packed in a second, no fewer than seqpacker packs; 40 million tokens come in a second as shuffled rows of
1,024, with labels, positions and bounds, which is 1.3 times what a PyTorch loader in the same process reads, 8 times
one with two workers and 2.5 times Grain; batches under a budget of tokens have at most 3 % padding, and corpora mixed
by tokens are within 0.5 % of their shares after a million tokens; JSON lines become packed rows at 0.92 of what the
bare tokenizer does in two threads, 1.3 times as fast as by datasets, PyTorch and Grain, and the first batch comes in
0.3 seconds; a loader's state takes 50 microseconds and 8 kB, and it goes on in 0.2 seconds.

Run it as `python benchmarks/text.py [ROW...] [--rounds N] [--documents N] [--json FILE]`. Each contender runs in a
separate process and environment, which is made once and kept.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from _image_environments import find_environments, peer
from _turns import Job, take_turns
from spdl.cli._common.console import Console
from spdl.cli._common.machine import provenance
from spdl.cli._demo.turn import torch_environment

if TYPE_CHECKING:
    from collections.abc import Mapping

WORK = Path(__file__).with_name("_text_work")
OWN = "spdl-turbo"
MAKERS: Any = {
    OWN: lambda _: (sys.executable,),
    "torch": lambda console: torch_environment(console, install=True).command,
    "grain": peer("grain-text", ("grain>=0.2.18", "numpy", "tokenizers>=0.20")),
    "seqpacker": peer("seqpacker", ("seqpacker", "numpy")),
}


class Row(NamedTuple):
    """A row: its program, the contenders' environments and arguments, the figure that is compared, and the marks.

    Attributes:
        program: The program in `_text_work`.
        figure: The figure in which we are compared.
        contenders: For each contender its environment and the arguments of the program.
        marks: The multiple of each peer's figure that our first contender should reach.
        least: The figures that it should reach.
        prepare: The program that writes the files that it reads; none without.
        most: The figures that ours should not exceed.
    """

    program: str
    figure: str
    contenders: dict[str, tuple[str, dict[str, Any]]]
    marks: dict[str, float]
    least: dict[str, float]
    prepare: str = "prepare.py"
    most: Mapping[str, float] = MappingProxyType({})


def packing(algorithm: str, least: dict[str, float]) -> Row:
    """Return the row of an algorithm."""
    contenders = {name: (name, {"contender": name, "algorithm": algorithm}) for name in (OWN, "seqpacker")}
    return Row("packing.py", "per second", contenders, {"seqpacker": 1}, least, prepare="")


def of_lengths(work: str, ours: str, other: str, least: dict[str, float]) -> Row:
    """Return the row of a work that needs lengths alone: as it should be done, and as it was done before."""
    contenders = {name: (OWN, {"work": work, "contender": how}) for name, how in ((OWN, ours), (other, other))}
    return Row("lengths.py", "documents per second", contenders, {}, least, prepare="")


# Those that tokenize. Apart from Grain they run in our environment, with the packages of the group `formats`.
TOKENIZING = (OWN, "bare tokenizer", "datasets", "torch", "grain")

ROWS = {
    "packing, best-fit": packing("best-fit", {"per second": 5e6, "% used": 99.5}),
    "packing, first-fit": packing("first-fit", {"per second": 5e6}),
    "token rows": Row(
        "token_rows.py",
        "tokens per second",
        {
            OWN: (OWN, {"contender": OWN, "workers": 2}),
            "spdl-turbo, 1 thread": (OWN, {"contender": OWN, "workers": 1}),
            "spdl-turbo, TextLoader": (OWN, {"contender": "TextLoader", "workers": 2}),
            "torch, 0 workers": ("torch", {"contender": "torch", "workers": 0}),
            "torch, 2 workers": ("torch", {"contender": "torch", "workers": 2}),
            "grain, 2 threads": ("grain", {"contender": "grain", "workers": 2}),
        },
        {"torch, 0 workers": 1.3, "torch, 2 workers": 8, "grain, 2 threads": 2.5},
        {"tokens per second": 40e6},
    ),
    "text rows": Row(
        "text_rows.py",
        "tokens per second",
        {name: (name if name == "grain" else OWN, {"contender": name}) for name in TOKENIZING},
        {"bare tokenizer": 0.92, "datasets": 1.3, "torch": 1.3, "grain": 1.3},
        {},
        "prepare_text.py",
        {"first batch ms": 300},
    ),
    "state of a loader": Row(
        "loader_state.py",
        "state us",
        {OWN: (OWN, {})},
        {},
        {},
        most={"state us": 50, "bytes": 8000, "resumed ms": 200},
    ),
    "bucketing": of_lengths("bucketing", "budget", "16 documents", {"% no padding": 97}),
    "mixing by tokens": of_lengths("mixing", "tokens", "items", {"% of shares": 99.5}),
}


def main() -> None:
    """Measure, print, and write the results if that is asked for."""
    parser = argparse.ArgumentParser(description="Measure packing and rows of tokens.")
    parser.add_argument("rows", nargs="*", metavar="ROW", help=f"of {', '.join(map(repr, ROWS))}; all by default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--documents", type=int, default=100_000, help="in the files that are read")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the results to this file")
    options = parser.parse_args()
    if unknown := set(options.rows) - set(ROWS):
        parser.error(f"there is no row {', '.join(sorted(unknown))}")

    results = {}
    with tempfile.TemporaryDirectory(prefix="spdl-text-") as folder:
        for name in options.rows or ROWS:
            results[name] = measure(ROWS[name], Path(folder), options)
            show(name, ROWS[name], **results[name])
    if options.json:
        marks = {name: {**row.least, **row.most, **row.marks} for name, row in ROWS.items()}
        result = {"rows": results, "marks": marks, "rounds": options.rounds, "provenance": provenance()}
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


def measure(row: Row, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Let the contenders of a row take turns."""
    environments, absent = find_environments([name for name, _ in row.contenders.values()], Console(), MAKERS)
    task: dict[str, Any] = {"folder": str(folder)} if row.prepare else {"documents": 1_000_000}
    if row.prepare and not (folder / row.prepare).exists():
        prepare = Job(environments[OWN], WORK / row.prepare, {**task, "documents": options.documents})
        _, failed = take_turns({"prepare": prepare}, 1)
        if failed:
            return {"medians": {}, "failed": failed}
        (folder / row.prepare).touch()
    jobs = {
        name: Job(environments[environment], WORK / row.program, {**task, **arguments})
        for name, (environment, arguments) in row.contenders.items()
        if environment in environments
    }
    missing = {name: absent[where] for name, (where, _) in row.contenders.items() if where in absent}
    medians, failed = take_turns(jobs, options.rounds)
    return {"medians": medians, "failed": {**failed, **missing}}


def show(name: str, row: Row, medians: dict[str, dict[str, float]], failed: dict[str, str]) -> None:
    """Print the figures of a row, and how ours compare."""
    for contender, figures in medians.items():
        print(f"{name:20} {contender:22}", "  ".join(f"{figure} {value:.6g}" for figure, value in figures.items()))
    for contender, reason in failed.items():
        print(f"{name:20} {contender:22} did not run: {reason}")
    if OWN not in medians:
        return
    ours = medians[OWN]
    for figure, least in row.least.items():
        print(f"{name:20} {figure} {ours[figure]:.6g} (>= {least:g})")
    for figure, most in row.most.items():
        print(f"{name:20} {figure} {ours[figure]:.6g} (<= {most:g})")
    for contender, mark in row.marks.items():
        if contender in medians:
            share = ours[row.figure] / medians[contender][row.figure]
            print(f"{name:20} {share:.2f} of {contender} (>= {mark})")


if __name__ == "__main__":
    main()
