"""Read the files of other projects, and compare what we make of each with an oracle. See `make conformance`."""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import PIL

import spdl
from spdl.io.utils import get_ffmpeg_versions
from tests.conformance.corpus import File, corpus, files
from tests.conformance.fetch import FetchError
from tests.conformance.finding import Finding, judge
from tests.conformance.formats import ARRAYS, IMAGES
from tests.conformance.known import Build, Match, known, match
from tests.conformance.packages import packages
from tests.conformance.pool import examine_all
from tests.conformance.report import complaints, differences, rows, summary, table
from tests.io.kept import CACHE

ORACLE = "13.0.0"
"""The version of Pillow whose pixels the documentation promises."""


def main() -> int:
    """Compare and report. Return the exit status: 1 if a difference is not listed, or a listed one does not occur."""
    arguments = _arguments()
    if PIL.__version__ != ORACLE:
        _say(f"The oracle is Pillow {ORACLE}, and this is Pillow {PIL.__version__}: use `make conformance`.")
        return 2
    begin = time.monotonic()
    try:
        chosen = _files(arguments)
    except FetchError as error:
        _say(str(error))
        return 2
    if not chosen:
        _say("No file is of a chosen format, or has a label that holds these words.")
        return 2
    _say(f"reading {len(chosen)} files in {arguments.jobs} processes, as the build on the {_origin(arguments.build)}")
    findings = _examine(chosen, arguments.jobs)
    # A part of the files cannot show what is out of date.
    whole = not (arguments.words or arguments.format or arguments.folder)
    listed = [] if arguments.folder else known(arguments.build)
    matched = match(findings, listed)
    if not whole:
        matched = Match(matched.listed, matched.unlisted, [])
    counted = rows(findings, matched)
    complained = complaints(matched)
    print("", *complained, table(counted), "", sep="\n")  # noqa: T201 - printing is this program's purpose.
    _say(f"{summary(findings)} ({time.monotonic() - begin:.0f} s)")
    if complained:
        _say(f"{len(complained)} complaints; tests/conformance/known.toml lists the differences that are known")
    if arguments.record is not None and whole and not complained:
        _record(arguments.record, arguments.build, counted, matched)
    return int(bool(complained))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make conformance", description=__doc__)
    parser.add_argument("words", nargs="*", help="read only files whose label holds one of these words")
    parser.add_argument("--format", action="append", choices=[*IMAGES, *ARRAYS], help="read only files of this format")
    parser.add_argument(
        "--folder", type=Path, help="read the files below this folder instead, and list all differences"
    )
    parser.add_argument("--build", choices=["system", "wheel"], default="system", help="whose differences are listed")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="how many processes read")
    parser.add_argument("--record", type=Path, help="write what was found into this file, if nothing is wrong")
    return parser.parse_args()


def _files(arguments: argparse.Namespace) -> list[File]:
    if arguments.folder is not None:
        everything = files({arguments.folder.name: arguments.folder})
    else:
        everything = corpus(packages(), CACHE / "conformance", _say)
    return [
        file
        for file in everything
        if (not arguments.words or any(word in file.label for word in arguments.words))
        and (not arguments.format or file.format in arguments.format)
    ]


def _examine(chosen: list[File], jobs: int) -> list[Finding]:
    results = examine_all([(file.format, file.path) for file in chosen], jobs)
    return [
        judge(file.label, file.format, str(file.path), result)
        for file, (_, result) in zip(chosen, results, strict=True)
    ]


def _origin(build: Build) -> str:
    return "wheel's libraries" if build == "wheel" else "system's libraries"


def _record(path: Path, build: Build, counted: dict[str, dict[str, int]], matched: Match) -> None:
    recorded = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    recorded[build] = {
        "provenance": _provenance(),
        "libavcodec": ".".join(map(str, get_ffmpeg_versions()["libavcodec"])),
        "packages": {package.name: package.version for package in packages()},
        "rows": counted,
        "differences": differences(matched),
    }
    path.write_text(json.dumps(recorded, indent=1) + "\n", encoding="utf-8")


def _provenance() -> dict[str, object]:
    """Describe the machine, the software and the command behind what was found."""
    cpu = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    names = [line.partition(":")[2].strip() for line in cpu.splitlines() if line.startswith("model name")]
    return {
        "cpu": names[0] if names else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": {"spdl-turbo": spdl.__version__, "numpy": np.__version__, "pillow": PIL.__version__},
        "commit": _commit(),
        "command": shlex.join([Path(sys.executable).name, "-m", "tests.conformance", *sys.argv[1:]]),
        "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
    }


def _commit() -> str:
    """Return the commit of this checkout: a wheel knows none."""
    command = ["git", "describe", "--always", "--abbrev=12", "--dirty", "--exclude=*"]
    return subprocess.run(command, cwd=Path(__file__).parent, check=True, capture_output=True, text=True).stdout.strip()


def _say(text: str) -> None:
    print(f"spdl conformance: {text}", flush=True)  # noqa: T201 - as above.


if __name__ == "__main__":
    sys.exit(main())
