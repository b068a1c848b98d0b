"""Run the engine's tests on copies of the package, with one bug planted in each."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from tests.mutation.planting import find_tests, plant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.mutation.mutants import Mutant

__all__ = ["ENGINE", "ROOT", "TESTS", "Verdict", "copy_project", "imported_file", "judge", "list_cases", "run_tests"]

ROOT = Path(__file__).resolve().parents[2]
ENGINE = "src/spdl/pipeline"
TESTS = "tests/pipeline"

# A folder on the interpreter's path, beside the package.
_ON_PATH = Path(__file__).resolve().parent / "on_path"
_COPIED = ("pyproject.toml", "src/spdl", "tests", "benchmarks/soak.py")

_TIMES_AGAIN = 3
# Seconds that a test may take, unless it asks for more. Tests give up waiting for an item after at most 20.
_TEST_SECONDS = 30

_TEST_NAME = re.compile(rf"{TESTS}/\S+?\.py::.*?(?= (?:PASSED|FAILED|ERROR|SKIPPED|- |\+{{3}})|\s*$)")


@dataclass(frozen=True)
class Verdict:
    """The result of the tests on a copy.

    Attributes:
        found: Whether the tests found a fault.
        how: The test that found it, or that the time limit passed, or why the result is invalid.
        seconds: How long the tests took.
        test: The test that failed or ran last.
        valid: False if no test could be run.
    """

    found: bool
    how: str
    seconds: float
    test: str = ""
    valid: bool = True


def copy_project(folder: Path) -> Path:
    """Copy the package and the tests, so that edits made meanwhile have no effect.

    The native part has none of the bugs, so it is linked.
    """
    skipped = shutil.ignore_patterns("__pycache__", "*.so", "*.pyi")
    for name in _COPIED:
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, target, ignore=skipped)
        else:
            shutil.copy2(ROOT / name, target)
    native = find_spec("spdl.io._native")
    assert native is not None
    assert native.origin is not None
    (folder / "src" / "spdl" / "io" / Path(native.origin).name).symlink_to(native.origin)
    return folder


def list_cases(project: Path, ring: str) -> list[str]:
    """Return the cases of the ring in a copy.

    A ring is chosen among the cases that are collected, so a test that is named alone would stand for its whole folder.
    """
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--collect-only",
        "-qq",
        f"--ring={ring}",
        TESTS,
    ]
    done = subprocess.run(
        command, cwd=project, env=_environment(project), stdout=subprocess.PIPE, text=True, check=True
    )
    return [line for line in done.stdout.splitlines() if line.startswith(f"{TESTS}/") and "::" in line]


def judge(
    mutant: Mutant, original: Path, project: Path, logs: Path, *, seconds: float, ring: str, cases: Sequence[str]
) -> Verdict:
    """Plant a bug in a copy of a copy and run the tests, starting with those most likely to find it.

    Args:
        mutant: The bug.
        original: A copy of the project.
        project: Where to make the new copy.
        logs: The folder for the output of the tests.
        seconds: The time limit.
        ring: The ring of tests that has to find it.
        cases: The cases of that ring.
    """
    planted = plant(mutant, original / ENGINE)
    named = [test for name in mutant.tests for test in find_tests(name, original / TESTS)]
    named = [str(Path(test).relative_to(original)) for test in named]
    first = [
        case for case in cases if any(case == test or case.startswith((f"{test}[", f"{test}::")) for test in named)
    ]
    shutil.copytree(original, project, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", ".hypothesis"))
    (project / planted.path.relative_to(original)).write_text(planted.source)
    verdict = Verdict(found=False, how="", seconds=0.0)
    if first:
        verdict = run_tests(project, first, logs / "first.log", seconds=seconds, ring="all")
    if not verdict.found:
        verdict = run_tests(project, [TESTS], logs / "all.log", seconds=seconds, ring=ring)
        if verdict.found:
            # A test that is not expected to find the bug may have failed for another reason. A lost wake-up is not seen
            # each time.
            again = (
                run_tests(project, [verdict.test], logs / f"again-{run}.log", seconds=seconds, ring="all")
                for run in range(_TIMES_AGAIN)
            )
            how = f"nothing: {verdict.how} failed once, and not in {_TIMES_AGAIN} runs after that"
            missed = Verdict(found=False, how=how, seconds=verdict.seconds)
            verdict = next((each for each in again if each.found), missed)
    shutil.rmtree(project)
    return verdict


def run_tests(project: Path, tests: Sequence[str], log: Path, *, seconds: float, ring: str) -> Verdict:
    """Run those tests of a ring on a copy until one fails."""
    command = [sys.executable, "-m", "pytest", "-p", "tamed", "-p", "no:cacheprovider", "-v", "-x", "--tb=short"]
    command += [f"--timeout={_TEST_SECONDS}", f"--ring={ring}", *tests]
    begin = time.monotonic()
    late = False
    with log.open("w") as output:
        # A session of its own, so that processes started by a test are ended with it.
        process = subprocess.Popen(
            command,
            cwd=project,
            env=_environment(project),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(seconds)
        except subprocess.TimeoutExpired:
            late, code = True, -signal.SIGKILL
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return _read(log.read_text(errors="replace"), code, time.monotonic() - begin, late=late)


def imported_file(project: Path) -> Path:
    """Return the file of the pipeline that an interpreter of the tests imports."""
    program = "import spdl.pipeline; print(spdl.pipeline.__file__)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=project,
        env=_environment(project),
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(done.stdout.strip())


def _environment(project: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": f"{project / 'src'}{os.pathsep}{_ON_PATH}", "PYTHONUNBUFFERED": "1"}


def _read(output: str, code: int, seconds: float, *, late: bool) -> Verdict:
    lines = output.splitlines()
    begun = [match[0] for line in lines if (match := _TEST_NAME.match(line))]
    failed = [match[0] for line in lines if line.startswith(("FAILED", "ERROR")) and (match := _TEST_NAME.search(line))]
    if not begun:
        return Verdict(found=False, how=f"no test could be run: {lines[-1:]}", seconds=seconds, valid=False)
    test = (failed or begun[-1:])[0]
    if code == 0:
        return Verdict(found=False, how="nothing", seconds=seconds)
    if late:
        return Verdict(found=True, how=f"the time limit, in {test}", seconds=seconds, test=test)
    if failed:
        return Verdict(found=True, how=test, seconds=seconds, test=test)
    # pytest-timeout ends the process, and a bug may do so, too.
    return Verdict(found=True, how=f"the end of the process ({code}), in {test}", seconds=seconds, test=test)
