"""What is found out of a file once is kept in the user's cache folder, which the environment may name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from spdl.source import JsonLines

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("named", "place"), [("", "home/.cache/spdl"), ("relative/place", "home/.cache/spdl"), ("{0}/own", "own/spdl")]
)
def test_the_cache_folder_is_that_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, named: str, place: str
) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", named.format(tmp_path))
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n')
    assert list(JsonLines(tmp_path / "a.jsonl")) == [{"a": 1}]
    assert [path for path in (tmp_path / place).rglob("*") if path.is_file()]
    made = {path.name for path in tmp_path.iterdir()} - {"work", "a.jsonl"}
    assert made == {place.partition("/")[0]}
    assert not list((tmp_path / "work").iterdir())
