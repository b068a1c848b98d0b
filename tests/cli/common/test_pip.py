import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from spdl.cli._common import pip as pip_module
from spdl.cli._common.pip import PipError, pip


def test_output() -> None:
    assert pip("--version").startswith("pip ")


def test_complaint_is_one_line() -> None:
    with pytest.raises(PipError, match=r"^No matching distribution found for no-such-thing$"):
        pip("download", "no-such-thing")


def test_an_index_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(PipError, match=r"^No matching distribution found for numpy"):
        pip("download", "--no-deps", "numpy")


def test_no_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pip_module, "find_spec", lambda _name: None)
    with pytest.raises(PipError, match=r"this Python has no pip \(add it with: .* -m ensurepip\)"):
        pip("--version")


def test_too_slow() -> None:
    with pytest.raises(PipError, match=r"^pip took longer than 0 s$"):
        pip("--version", timeout=0.01)


def has_ended(process: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        # The process that has to collect it may take its time.
        return psutil.Process(process).status() == psutil.STATUS_ZOMBIE
    return True


def test_what_is_too_slow_ends_with_all_its_processes(tmp_path: Path) -> None:
    # `pip --python` runs itself once more, with the named interpreter.
    interpreter, number = tmp_path / "python", tmp_path / "number"
    interpreter.write_text(f"#!/bin/sh\necho $$ >{number}\nexec sleep 50\n")
    interpreter.chmod(0o700)
    for timeout in (2, 5, 10, 20):
        with pytest.raises(PipError, match="pip took longer than"):
            pip("--python", str(interpreter), "install", "numpy", timeout=timeout)
        if number.exists() and number.read_text():
            break
    process = int(number.read_text())
    for _ in range(100):
        if has_ended(process):
            break
        time.sleep(0.1)
    assert has_ended(process)
