"""Tests use what users use. The files below look behind it, and say why."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

TESTS = Path(__file__).parents[1]

# A rule without a public face, or a world that a test puts in the place of the engine's.
BEHIND = {
    "cli/advise/test_page.py": "the page on given times and cores, which no job here has",
    "cli/advise/test_probe.py": "what is made of samplers, batches and calls inside a job's processes",
    "cli/advise/test_verdict.py": "the verdict on given times and cores",
    "cli/demo/test_rules.py": "turns that fail, medians and what is said of them",
    "cli/record/test_process.py": "a process whose request, or whose recorder, is in the way",
    "cli/test_rules.py": "numbers, names and tables as text",
    "dataloader/pytorch/test_loader_state.py": "the positions that a state counts, against a model",
    "io/archive/test_headers_at_once.py": "headers read from several places at once, as one after the other",
    "io/array/test_shared_archives.py": "which headers of an archive are read, and from where",
    "io/inside.py": "the native part's switches and counters, for all tests of spdl.io",
    "mutation/runner.py": "links the native part into copies of the package",
    "observe/pages.py": "pages as killed processes and other containers leave them",
    "observe/test_rules.py": "what is made of looks at threads and cores",
    "observe/verdict/test_verdict.py": "verdicts, for measures that are made up",
    "observe/verdict/test_counted.py": "what is said of given counts of stores",
    "observe/verdict/test_loader_words.py": "verdicts on loaders, for measures that are made up",
    "observe/verdict/test_predicted_gains.py": "predicted gains, against a simulator",
    "pipeline/engine/test_channel.py": "the rule when a stage may take an item, in words",
    "pipeline/engine/test_lineage.py": "the record of items in flight and its sets, against a model",
    "pipeline/interpreters.py": "interpreters of Python 3.13, which are private there",
    "pipeline/metrics/test_counters.py": "percentiles and waits of given numbers",
    "pipeline/metrics/test_sweep.py": "which files of killed processes are removed",
    "pipeline/profiling/conftest.py": "short profiles, by the profiler's own settings",
    "pipeline/regions/test_rules.py": "two threads that meet at the worst moment",
    "pipeline/shared_executors/test_rules.py": "how long one turn of a pool is",
    "pipeline/tracing/test_rules.py": "recorders taken off at any moment",
    "pipeline/transport/test_rules.py": "the protocol of a lane, and the memory of a container",
    "ray/test_rules.py": "the lease table without a cluster",
    "simulation/instrument.py": "puts the simulated world in the place of the engine's",
    "simulation/programs/inside.py": "the engine's clocks, threads and thresholds, for all programs",
    "source/order/test_rules.py": "the permutation and how ranks share",
    "store/conftest.py": "no pauses before requests are repeated",
    "store/open/test_secrets.py": "texts in which secrets are hidden",
    "store/reading/test_rules.py": "numeric rules of reading from a server",
    "store/reading/test_sender.py": "repeats and limits in virtual time",
    "test_cores.py": "cores of containers, on a model of /proc and /sys",
    "test_ranges.py": "sets of ints in runs, against Python's sets",
    "test_program.py": "the name of a program, from given words",
    "tune/simulator.py": "a scheduler in virtual time, for the tuner",
    "tune/test_decide.py": "what the tuner decides there",
}

# In a program or a name that a test has as a string, too.
_PRIVATE = re.compile(r"\bspdl(\.\w+)*\._[a-z]|\bfrom spdl[\w.]* import [^\n]*\b_[a-z]")


def private_uses(source: str) -> Iterator[str]:
    """Yield what a test uses of private modules of the package."""
    tree = ast.parse(source)
    said = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom, ast.Attribute)):
            text = " ".join(ast.unparse(node).split())
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in said:
            text = node.value
        else:
            continue
        if match := _PRIVATE.search(text):
            yield match[0]


def test_the_files_that_look_behind_are_few_and_have_a_reason() -> None:
    found = {
        path.relative_to(TESTS).as_posix()
        for path in TESTS.rglob("*.py")
        if path.parent.name != "architecture" and any(private_uses(path.read_text(encoding="utf-8")))
    }
    assert sorted(found) == sorted(BEHIND)
    assert len(found) <= 40
    assert all(BEHIND.values())


@pytest.mark.parametrize(
    "source",
    [
        "from spdl.pipeline._engine.engine import Engine",
        "from spdl.pipeline import (Pipeline,\n    _world)",
        "import spdl.pipeline._engine",
        "def f():\n    spdl.pipeline._engine.engine.Engine()",
        "run('from spdl import _cores')",
        "monkeypatch.setattr('spdl.io._image.x', 1)",
    ],
)
def test_uses_of_private_modules_are_found(source: str) -> None:
    assert list(private_uses(source))


@pytest.mark.parametrize(
    "source", ["from spdl.pipeline import Pipeline", "'''Of `spdl.pipeline._engine`.'''", "from tests._x import _y"]
)
def test_uses_of_public_modules_are_not(source: str) -> None:
    assert not list(private_uses(source))
