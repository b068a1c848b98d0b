import pytest

from spdl.cli import _pip
from spdl.cli._pip import PipError, pip


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
    monkeypatch.setattr(_pip, "find_spec", lambda _name: None)
    with pytest.raises(PipError, match=r"this Python has no pip \(add it with: .* -m ensurepip\)"):
        pip("--version")


def test_too_slow() -> None:
    with pytest.raises(PipError, match=r"^pip took longer than 0 s$"):
        pip("--version", timeout=0.01)
