"""Plant bugs in the engine, one at a time, and check that each turns a test red. See `make mutation`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypedDict

from tests.mutation.mutants import MUTANTS, Mutant
from tests.mutation.planting import StaleMutantError, plant
from tests.mutation.runner import ENGINE, ROOT, TESTS, copy_project, imported_file, judge, list_cases, run_tests

# A copy without a bug must pass within this many seconds, also on a busy machine. Tests of a bug have as long.
_SECONDS = 1800


class _Options(TypedDict):
    seconds: float
    ring: str


def _chosen(words: list[str]) -> list[Mutant]:
    return [mutant for mutant in MUTANTS if all(word in f"{mutant.name} {mutant.function}" for word in words)]


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - printing is this program's purpose.


def _prepare(folder: Path, mutants: list[Mutant]) -> Path:
    """Copy the project, and check that the bugs fit and that the tests would import the copy."""
    original = copy_project(folder / "original")
    for mutant in mutants:
        try:
            plant(mutant, original / ENGINE)
        except StaleMutantError as why:
            sys.exit(f"The mutant {mutant.name!r} must be adapted in tests/mutation/mutants: {why}")
    imported = imported_file(original)
    if not imported.is_relative_to(original):
        sys.exit(f"The tests would import {imported}, not the copy in {original}.")
    return original


def _logs(name: str) -> Path:
    folder = ROOT / "build" / "mutation" / name
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def main() -> int:
    """Run and report. Return the exit status: 1 if no test found one of the bugs."""
    parser = argparse.ArgumentParser(prog="make mutation", description=__doc__)
    parser.add_argument("words", nargs="*", help="only the mutants whose name or function has all of these in it")
    # With most bugs the tests wait in vain, and use no core meanwhile.
    jobs = 2 * len(os.sched_getaffinity(0))
    parser.add_argument("--jobs", type=int, default=jobs, help="copies tested at a time")
    parser.add_argument("--ring", default="all", help="the tests that have to find them: quick (make test) or all")
    arguments = parser.parse_args()
    mutants = _chosen(arguments.words)
    if not mutants:
        parser.error(f"no mutant has {arguments.words} in its name or file")
    options: _Options = {"seconds": _SECONDS, "ring": arguments.ring}
    begin = time.monotonic()
    rows: dict[int, str] = {}
    survivors = 0
    with TemporaryDirectory(prefix="spdl-mutation-") as folder, ThreadPoolExecutor(arguments.jobs) as pool:
        original = _prepare(Path(folder), mutants)
        cases = list_cases(original, arguments.ring)
        # The results of the bugs count only if the tests pass without a bug. That run is number 0.
        futures = {pool.submit(run_tests, original, [TESTS], _logs("original") / "all.log", **options): 0}
        for number, mutant in enumerate(mutants, 1):
            copy = Path(folder) / str(number)
            logs = _logs(f"{number:03}")
            futures[pool.submit(judge, mutant, original, copy, logs, cases=cases, **options)] = number
        for future in as_completed(futures):
            number, verdict = futures[future], future.result()
            if number == 0:
                if verdict.found or not verdict.valid:
                    pool.shutdown(cancel_futures=True)
                    sys.exit(f"Without any bug the tests are red: {verdict.how} (build/mutation/original/all.log)")
                _say(f"Without any bug all tests pass ({verdict.seconds:.0f} s).")
                continue
            if not verdict.valid:
                pool.shutdown(cancel_futures=True)
                sys.exit(f"The mutant {mutants[number - 1].name!r} must be adapted: {verdict.how}")
            survivors += not verdict.found
            state = "found by" if verdict.found else "SURVIVES"
            rows[number] = f"{number:3}  {mutants[number - 1].name:80}  {state} {verdict.how}"
            _say(f"[{len(rows)}/{len(mutants)}] {verdict.seconds:3.0f} s  {rows[number]}")
    _say("")
    for number in sorted(rows):
        _say(rows[number])
    _say(
        f"\n{len(rows) - survivors} of {len(rows)} bugs turn a test red, {survivors} survive "
        f"({time.monotonic() - begin:.0f} s; what the tests printed is in build/mutation)."
    )
    return int(survivors > 0)


if __name__ == "__main__":
    sys.exit(main())
