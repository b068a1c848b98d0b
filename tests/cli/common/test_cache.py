from pathlib import Path

import pytest

from spdl.cli import main
from spdl.cli._common.cache import abbreviated, replacing


def test_replacing_is_all_or_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    with replacing(folder) as making:
        (making / "one").touch()
        assert not folder.exists()
    assert [path.name for path in folder.iterdir()] == ["one"]

    def fail_half_way() -> None:
        with replacing(folder) as making:
            (making / "two").touch()
            raise KeyError

    with pytest.raises(KeyError):
        fail_half_way()
    assert [path.name for path in folder.iterdir()] == ["one"]

    with replacing(folder) as making:
        (making / "three").touch()
    assert [path.name for path in folder.iterdir()] == ["three"]
    assert list(tmp_path.iterdir()) == [folder]


def test_cache_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert main(["demo", "--no-peers"]) == 1
    expected = f"spdl: the demo's photos cannot be kept in {tmp_path}/file/spdl (Not a directory): set XDG_CACHE_HOME"
    assert capsys.readouterr().err.startswith(expected)


def test_abbreviated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.chdir("/")
    assert abbreviated("/home/someone/pictures") == "~/pictures"
    assert abbreviated("/home/someone") == "/home/someone"
    assert abbreviated("/home/someones") == "/home/someones"
    assert abbreviated("tmp") == "/tmp"  # noqa: S108
