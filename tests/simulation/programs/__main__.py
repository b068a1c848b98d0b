"""Run random programs on real threads: ``python -m tests.simulation.programs --runs 1000 --seed 1``."""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.simulation import record

from .generate import draw
from .program import Program
from .real_host import RealHost
from .run import run
from .shrink import shrink


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.programs", description=__doc__)
    parser.add_argument("--runs", type=int, default=100, help="how many programs to run")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the first one; the next ones follow")
    parser.add_argument("--replay", type=Path, help="a file with programs as JSON, one a line, to run instead")
    parser.add_argument("--repeat", type=int, default=1, help="how often to run a replayed or shrunk program")
    parser.add_argument("--shrink", action="store_true", help="make programs that fail smaller")
    parser.add_argument("--keep", type=Path, help="a folder for the programs that fail")
    parser.add_argument("--stop-after", type=int, default=20, help="end after so many programs with findings")
    parser.add_argument("--record", type=Path, help="add what was run to this file, if it ends without a finding")
    arguments = parser.parse_args()
    host = RealHost()
    try:
        return _run(arguments, host)
    finally:
        host.close()


def _run(arguments: argparse.Namespace, host: RealHost) -> int:
    begin = time.monotonic()
    number = found = 0
    for seed, program in _programs(arguments):
        number += 1
        findings = run(program, host)
        if findings:
            found += 1
            _tell(arguments, host, seed, program, findings)
        if found >= arguments.stop_after:
            break
    seconds = time.monotonic() - begin
    _print(f"{number} programs, {found} with findings, in {seconds:.0f} s ({number / max(seconds, 1e-9):.0f}/s)")
    if arguments.record is not None and not arguments.replay and not found:
        record.add(arguments.record, seed=arguments.seed, runs=number, findings=found, seconds=seconds)
    return 1 if found else 0


def _programs(arguments: argparse.Namespace) -> Iterator[tuple[int, Program]]:
    if arguments.replay:
        for line in arguments.replay.read_text().splitlines():
            for _ in range(arguments.repeat):
                yield 0, Program.from_json(line)
        return
    for seed in range(arguments.seed, arguments.seed + arguments.runs):
        yield seed, draw(Random(seed))


def _tell(arguments: argparse.Namespace, host: RealHost, seed: int, program: Program, findings: list[str]) -> None:
    _print(f"--- seed {seed}", *findings)
    if arguments.shrink:
        kinds = set(map(_kind, findings))

        def fails(smaller: Program) -> bool:
            return any(kinds & set(map(_kind, run(smaller, host))) for _ in range(arguments.repeat))

        program = shrink(program, fails)
    folder = arguments.keep or Path(tempfile.gettempdir())
    folder.mkdir(exist_ok=True)
    file = folder / f"program-{seed}.json"
    file.write_text(program.to_json() + "\n")
    _print(program.to_json(), f"replay: python -m tests.simulation.programs --replay {file}")


def _kind(finding: str) -> str:
    """Return a finding without what differs from program to program."""
    return " ".join(word for word in finding.split() if word.isalpha())[:40]


def _print(*lines: str) -> None:
    print(*lines, sep="\n", flush=True)  # noqa: T201 - this is a command.


if __name__ == "__main__":
    sys.exit(main())
