from pathlib import Path

import pytest

from spdl.cli import main


def test_cache_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert main(["demo", "--no-peers"]) == 1
    expected = f"spdl: the demo's photos cannot be kept in {tmp_path}/file/spdl (Not a directory): set XDG_CACHE_HOME"
    assert capsys.readouterr().err.startswith(expected)
