"""Programs written for the released spdl 0.8.0 print with this package what they print there, or what is better."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest
from tests.compat.av.comparison import (
    EXPECTED,
    NAMES,
    agrees,
    better_lines,
    differences,
    expected_lines,
    prepare,
    read_lines,
    run_program,
)

import spdl.io

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def clips() -> Path:
    return prepare()


@pytest.mark.skipif(not hasattr(spdl.io, "Demuxer"), reason="this version reads no audio and no video")
@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", NAMES)
def test_a_program_prints_what_it_should(name: str, clips: Path) -> None:
    if name == "arrays":
        pytest.importorskip("torch")
    found, why = run_program((sys.executable, "-P"), name, clips)
    told = differences(name, found)
    assert not why, "\n".join([why, *told])
    assert not told, "\n".join(told)


def test_there_is_a_record_of_each_program() -> None:
    assert {path.stem for path in EXPECTED.iterdir()} == set(NAMES)
    assert all(len(expected_lines(name)) > 5 for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_better_is_something_else(name: str) -> None:
    expected = expected_lines(name)
    for label, better in better_lines(name).items():
        assert label in expected
        assert better.why
        assert not any(agrees(it, expected[label]) and len(better.wanted) == 1 for it in better.wanted)


def test_differences_are_told() -> None:
    expected = expected_lines("demuxing") | {label: it.wanted[0] for label, it in better_lines("demuxing").items()}
    assert differences("demuxing", expected | {"video packets": "49"}) == ["video packets: 49, not 50"]
    assert differences("demuxing", {it: value for it, value in expected.items() if it != "noise"}) == [
        "noise: nothing, not raises RuntimeError"
    ]
    assert differences("demuxing", expected | {"new": "1"}) == ["new: 1, which the release did not print"]


def test_an_exception_may_have_more_types() -> None:
    assert agrees("raises FormatError/RuntimeError/ValueError", "raises RuntimeError")
    assert not agrees("raises ValueError", "raises RuntimeError")
    assert not agrees("raises RuntimeError", "7")


def test_two_lines_of_one_label_are_refused() -> None:
    with pytest.raises(ValueError, match="two lines"):
        read_lines("a: 1\na: 2\n")
