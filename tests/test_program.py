"""The words of a command, and the name of its program, as processes that were started so find them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from spdl._program import program_name

if TYPE_CHECKING:
    from pathlib import Path

_TELL = "import json; from spdl._program import command_words; print(json.dumps(command_words()))"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with a script, one whose name has a space, a module in a package, and an entry point."""
    (tmp_path / "package").mkdir()
    for name in ("train.py", "my train.py", "package/train.py", "package/__main__.py"):
        (tmp_path / name).write_text(_TELL)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "train").write_text(f"#!{sys.executable}\n{_TELL}")
    (tmp_path / "bin" / "train").chmod(0o755)
    return tmp_path


def words_of(*command: str, folder: Path, stdin: str = "") -> list[str]:
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    done = subprocess.run(
        command,
        cwd=folder,
        input=stdin,
        capture_output=True,
        text=True,
        check=True,
        timeout=50,
        env={**os.environ, "PYTHONPATH": path},
    )
    found: list[str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("arguments", "words", "name"),
    [
        (["train.py"], ["train.py"], "train.py"),
        (["-u", "train.py", "-u", "a b"], ["train.py", "-u", "a b"], "train.py"),
        (["-X", "dev", "-W", "error", "train.py", "3"], ["train.py", "3"], "train.py"),
        (["-Xdev", "-uWerror", "-BO", "train.py", "-m", "x"], ["train.py", "-m", "x"], "train.py"),
        (["--check-hash-based-pycs", "never", "./train.py"], ["./train.py"], "train.py"),
        (["-B", "--", "train.py", "--", "3"], ["train.py", "--", "3"], "train.py"),
        (["my train.py", "3"], ["my train.py", "3"], "my train.py"),
        (["-u", "-m", "package.train", "3"], ["-m", "package.train", "3"], "-m package.train"),
        (["-um", "package.train", "3"], ["-m", "package.train", "3"], "-m package.train"),
        (["-mpackage"], ["-m", "package"], "-m package"),
        (["-u", "-c", _TELL, "3"], ["-c", _TELL, "3"], "-c"),
        (["-uc" + _TELL], ["-c", _TELL], "-c"),
        (["-u", "-", "3"], ["-", "3"], "-"),
    ],
)
def test_options_of_the_interpreter_are_no_part_of_the_program(
    folder: Path, arguments: list[str], words: list[str], name: str
) -> None:
    assert words_of(sys.executable, *arguments, folder=folder, stdin=_TELL) == words
    assert program_name(words) == name


def test_an_entry_point_is_named_by_its_file(folder: Path) -> None:
    words = words_of("bin/train", "--fast", folder=folder)
    assert words == ["bin/train", "--fast"]
    assert program_name(words) == "train"


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_a_process_of_multiprocessing_has_the_command_of_its_parent(folder: Path, method: str) -> None:
    (folder / "parent.py").write_text(
        f"""
import multiprocessing

def child():
    {_TELL}

if __name__ == "__main__":
    process = multiprocessing.get_context({method!r}).Process(target=child)
    process.start()
    process.join()
"""
    )
    assert words_of(sys.executable, "-u", "parent.py", "3", folder=folder) == ["parent.py", "3"]


def test_without_words_it_is_the_interpreter() -> None:
    assert program_name([]) == "python"
    assert program_name(["."]) == "."
