"""Run the programs whose whole output a page shows, record it, and write it into the pages, between two markers.

    .venv/bin/python scripts/printed_pages.py --run [NAME...]

runs the named programs, or all of them in a minute, and writes benchmarks/results/printed.json. Use an otherwise idle
machine. Without `--run`, it only updates the pages from that file. A test compares them.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from spdl.cli._common.console import Console
from spdl.cli._common.machine import provenance
from spdl.cli._demo.photos import demo_photos

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
RESULTS = ROOT / "benchmarks" / "results" / "printed.json"

COLUMNS = 84
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPDL = Path(sys.executable).parent / "spdl"

Record = dict[str, Any]


@dataclass(frozen=True)
class Printed:
    """An output on a page: the index of its program there, if any, the command, and the name it is saved under."""

    page: str
    program: int | None
    command: tuple[str, ...] = ("python", "loading.py")
    file: str = "loading.py"


PRINTED = {
    "concurrency": Printed("concurrency.md", 0),
    "bench": Printed("measuring.md", None, ("spdl", "bench", "images", "photos", "--no-peers", "--seconds", "3")),
    "profile": Printed("my_loop_waits.md", 3, ("spdl", "profile", "loading:pipeline", "--num-inputs", "500")),
    "neighbours": Printed("noisy_neighbours.md", 0),
    "headspace": Printed("headspace.md", 0),
    "advise": Printed("my_loop_waits.md", 0, ("spdl", "advise", "--", "python", "train.py"), "train.py"),
    "advise_fixed": Printed("my_loop_waits.md", 1, ("python", "train.py"), "train.py"),
}


def program(it: Printed) -> str:
    """Return the program, as the page shows it; nothing for a command that needs none."""
    if it.program is None:
        return ""
    found: str = PROGRAM.findall((DOCS / it.page).read_text(encoding="utf-8"))[it.program]
    return found


def output(it: Printed, photos: Path) -> str:
    """Run the program in its own folder, and return what it prints."""
    with TemporaryDirectory() as folder:
        Path(folder, it.file).write_text(program(it), encoding="utf-8")
        Path(folder, "photos").symlink_to(photos)
        command = [sys.executable if it.command[0] == "python" else SPDL, *it.command[1:]]
        # A command that runs `python` means this one. Tables and the page of advice fit the width of the docs.
        path = f"{SPDL.parent}{os.pathsep}{os.environ.get('PATH', '')}"
        environment = os.environ | {"PATH": path, "COLUMNS": str(COLUMNS)}
        done = subprocess.run(
            command, cwd=folder, check=True, capture_output=True, text=True, timeout=120, env=environment
        )
    return (done.stdout + done.stderr).replace(f"{folder}/", "")


def run(names: Sequence[str]) -> None:
    """Run the named programs and record their output."""
    photos = demo_photos(Console())
    record = recorded() if RESULTS.exists() else {}
    for name in names:
        it = PRINTED[name]
        record[name] = {"provenance": provenance(), "program": program(it), "printed": output(it, photos)}
    RESULTS.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def recorded() -> Record:
    """Return the recorded outputs, by name."""
    record: Record = json.loads(RESULTS.read_text(encoding="utf-8"))
    return record


def wrapped(text: str) -> list[str]:
    """Break long lines as a terminal does, but only between words."""
    return [part for line in text.strip("\n").splitlines() for part in textwrap.wrap(line, COLUMNS) or [line]]


def section(name: str, record: Record) -> str:
    """Return the text between the markers."""
    origin = record[name]["provenance"]
    command = " ".join(PRINTED[name].command)
    lines = ["```console", f"$ {command}", *wrapped(record[name]["printed"]), "```"]
    return (
        "\n".join(lines) + f"\n\nOn {origin['cores']:g} cores ({origin['cpu']}), {origin['date'][:10]}, commit"
        f" {origin['commit']}; `benchmarks/results/{RESULTS.name}`.\n"
    )


def with_sections(page: str, text: str, record: Record) -> str:
    """Return a page with the recorded outputs."""
    for name, it in PRINTED.items():
        if it.page != page:
            continue
        begin, end = (f"<!-- {word}: scripts/printed_pages.py, {name} -->\n" for word in ("begin", "end"))
        replacement = f"\n{section(name, record)}\n"
        head, _, rest = text.partition(begin)
        _, found, tail = rest.partition(end)
        if not found:
            raise SystemExit(f"{page} has no markers:\n{begin}{end}")
        text = head + begin + replacement + end + tail
    return text


def main() -> None:
    """Run the programs if the command line says so, then update the pages."""
    if sys.argv[1:2] == ["--run"]:
        run(sys.argv[2:] or list(PRINTED))
    record = recorded()
    for page in sorted({it.page for it in PRINTED.values()}):
        text = (DOCS / page).read_text(encoding="utf-8")
        (DOCS / page).write_text(with_sections(page, text, record), encoding="utf-8")


if __name__ == "__main__":
    main()
