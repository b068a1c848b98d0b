"""The command: what it prints, its exit status, what it records."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import PIL
import pytest

from tests.conformance import __main__ as command
from tests.conformance.corpus import files
from tests.conformance.fetch import FetchError
from tests.conformance.known import Known
from tests.io.images import encode, make_image

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "some"
    folder.mkdir()
    for name in ("a", "b", "c"):
        (folder / f"{name}.png").write_bytes(encode(make_image(9, 7, ord(name)), "PNG"))
    return folder


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    # Any Pillow will do for what is tested here.
    monkeypatch.setattr(command, "ORACLE", PIL.__version__)

    def main(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["conformance", *map(str, arguments)])
        return command.main(), capsys.readouterr().out

    return main


def outcome(way: str, **more: Any) -> dict[str, Any]:
    return {"outcome": way, "ours": "", "theirs": "", "largest": None, "mean": None} | more


PLANTED: dict[str, dict[str, Any]] = {
    "a": {"ways": {"load_image": outcome("equal")}},
    "b": {"ways": {"load_image": outcome("different", ours="pixel 1", theirs="pixel 9", largest=8.0, mean=0.25)}},
    "c": {"failure": "ended with SIGSEGV", "reader": "load_image"},
}


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Any]]:
    """What becomes of each file, to be changed by the test."""
    planted = dict(PLANTED)

    def examine_all(files: Iterable[tuple[str, Path]], jobs: int) -> Iterator[tuple[Path, dict[str, Any]]]:
        return ((path, planted[path.stem]) for _, path in files)

    monkeypatch.setattr(command, "examine_all", examine_all)
    return planted


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[Known]:
    """What is known, to be changed by the test; the folder stands for the packages."""
    entries: list[Known] = []
    monkeypatch.setattr(command, "known", lambda build: entries)
    monkeypatch.setattr(command, "corpus", lambda *_: files({"some": folder}))
    return entries


def test_files_that_are_equal_pass(folder: Path, run: Run) -> None:
    status, said = run("--folder", folder, "--jobs", 2)
    assert status == 0
    assert "PNG    |     3 |     3 |    0 |" in said
    assert "3 equal" in said


def test_differences_fail_and_are_told(folder: Path, run: Run, results: Any) -> None:
    status, said = run("--folder", folder)
    assert status == 1
    assert (
        "some/b.png: PNG, different (at most 8, on average 0.250)\n  load_image: pixel 1\n  oracle: pixel 9\n"
        "some/c.png: PNG, failed\n  load_image: ended with SIGSEGV\n"
    ) in said
    assert "2 complaints" in said
    (row,) = (line for line in said.splitlines() if line.startswith("PNG"))
    assert [int(cell) for cell in row.split("|")[1:]] == [3, 1, 0, 0, 0, 0, 0, 2]


def test_listed_differences_pass_and_are_recorded(run: Run, results: Any, listed: list[Known], tmp_path: Path) -> None:
    results["c"] = PLANTED["a"]
    listed.append(Known("PNG", "near", "rounding", ("some/b.png",), largest=8, mean=0.3))
    record = tmp_path / "record.json"
    record.write_text('{"wheel": "what was there"}')
    status, said = run("--record", record)
    assert (status, "complaints" in said) == (0, False)
    recorded = json.loads(record.read_text())
    assert recorded["wheel"] == "what was there"
    system = recorded["system"]
    assert system["rows"]["PNG"] == {
        "files": 3,
        "equal": 2,
        "near": 1,
        "refused by both": 0,
        "refused by us": 0,
        "read by us alone": 0,
        "deliberate": 0,
        "wrong": 0,
    }
    assert system["differences"] == [
        {"format": "PNG", "kind": "near", "reason": "rounding", "files": 1, "largest": 8.0, "mean": 0.25}
    ]
    assert system["packages"]["pillow"] == "13.0.0"


def test_a_listed_difference_that_is_gone_fails(run: Run, results: Any, listed: list[Known], tmp_path: Path) -> None:
    results["b"] = results["c"] = PLANTED["a"]
    listed.append(Known("PNG", "near", "rounding", ("some/b.png",), largest=8, mean=0.3))
    status, said = run("--record", tmp_path / "record.json")
    assert status == 1
    assert "known.toml is out of date: PNG, near (rounding): no such difference in some/b.png" in said
    assert not (tmp_path / "record.json").exists()
    # A part of the files cannot show that.
    assert run("a.png")[0] == run("--format", "PNG")[0] == 0


def test_a_crash_cannot_be_listed(run: Run, results: Any, listed: list[Known]) -> None:
    listed += [Known("PNG", kind, "reason", ("*",), count=1) for kind in ("deliberate", "wrong", "refused", "read")]
    status, said = run("c.png")
    assert (status, "some/c.png: PNG, failed" in said) == (1, True)


def test_words_and_formats_choose_files(run: Run, results: Any, listed: list[Known]) -> None:
    assert "1 equal" in run("a.png", "no such")[1]
    status, said = run("--format", "GIF")
    assert (status, "No file is of a chosen format" in said) == (2, True)


def test_another_pillow_is_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "ORACLE", "1.0")
    status, said = run()
    assert (status, f"this is Pillow {PIL.__version__}: use `make conformance`" in said) == (2, True)


def test_what_cannot_be_fetched_is_told(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def corpus(*_: object) -> None:
        raise FetchError("cannot fetch some 1.0")

    monkeypatch.setattr(command, "corpus", corpus)
    assert run() == (2, "spdl conformance: cannot fetch some 1.0\n")
