import threading
import time
from pathlib import Path

import pytest

from spdl._cache_folder import cache_folder, only_one


def test_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for ignored in ("", "relative/place"):
        monkeypatch.setenv("XDG_CACHE_HOME", ignored)
        assert cache_folder() == tmp_path / ".cache" / "spdl"
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/spdl")


def test_only_one_at_a_time(tmp_path: Path) -> None:
    held: list[int] = []

    def hold(number: int) -> None:
        with only_one(tmp_path / "folder"):
            held.append(number)
            time.sleep(0.02)
            held.append(number)

    threads = [threading.Thread(target=hold, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert held[::2] == held[1::2]
    assert sorted(held[::2]) == [0, 1, 2, 3]
