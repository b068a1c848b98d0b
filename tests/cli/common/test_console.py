import pytest
from tests.cli.terminal import run_on_terminal


def test_a_message_on_a_terminal_is_broken_between_words() -> None:
    pytest.importorskip("rich")
    shown, status = run_on_terminal(["profile", "no_such_module:builder"], columns=60)
    lines = shown.replace("\r", "").splitlines()
    assert status == 2
    assert lines[0].startswith("spdl: ")
    assert len(lines) >= 3
    assert max(map(len, lines)) <= 60


def test_what_looks_like_the_name_of_an_emoji_stays() -> None:
    pytest.importorskip("rich")
    shown, _ = run_on_terminal(["bench", "images", "/no/:bug:/folder"])
    assert "/no/:bug:/folder" in shown
