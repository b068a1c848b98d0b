"""The programs that the docs show run as they stand, and print what the docs say they print."""

import doctest
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

DOCS = Path(__file__).parent.parent / "docs"

# A program, and right below it what it prints. `...` in the output stands for what differs from run to run.
PROGRAM = re.compile(r"^```python\n(?P<code>.*?)^```$(?:\n\n```text\n(?P<output>.*?)^```$)?", re.MULTILINE | re.DOTALL)
ANY_PYTHON = re.compile(r"^\s*(?:```|~~~)\s*\{?python", re.MULTILINE)


class Program(NamedTuple):
    page: Path
    line: int
    code: str
    output: str


def programs(page: Path) -> list[Program]:
    text = page.read_text(encoding="utf-8")
    return [
        Program(page, text.count("\n", 0, match.start()) + 1, match["code"], match["output"] or "")
        for match in PROGRAM.finditer(text)
    ]


PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("case_studies/*.md")])
PROGRAMS = [program for page in PAGES for program in programs(page)]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: f"{program.page.name}:{program.line}")
def test_program_prints_what_the_page_says(program: Program, tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(program.code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-u", "-W", "error", "example.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=50,
        check=False,
    )

    assert done.returncode == 0, done.stdout
    checker, options = doctest.OutputChecker(), doctest.ELLIPSIS
    example = doctest.Example(program.code, program.output)
    assert checker.check_output(program.output, done.stdout, options), checker.output_difference(
        example, done.stdout, options
    )


@pytest.mark.parametrize("page", ["execution_model.md", "failures.md", "shutdown.md"])
def test_page_shows_programs(page: str) -> None:
    assert sum(program.page.name == page for program in PROGRAMS) > 3


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.name))
def test_every_python_block_is_run(page: Path) -> None:
    assert len(ANY_PYTHON.findall(page.read_text(encoding="utf-8"))) == len(programs(page))
