"""Patterns with braces are written out as bash does it."""

from __future__ import annotations

import json
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from spdl.source import JsonLines, TarShards
from spdl.store import Entry

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Named:
    """A store of all objects, each of which has its path in it."""

    def get(self, path: str) -> bytes:
        return json.dumps({"path": path}).encode()

    def size(self, path: str) -> int:
        return len(self.get(path))

    def list(self, prefix: str) -> Iterator[Entry]:
        yield Entry(prefix, self.size(prefix), None)

    def get_ranges(self, path: str, starts: Sequence[int], lengths: Sequence[int]) -> Any:
        whole = self.get(path)
        return [whole[start : start + length] for start, length in zip(starts, lengths, strict=True)]


def names_of(pattern: str) -> list[str]:
    return [record["path"] for record in JsonLines(pattern, store=Named())]


def bash(pattern: str) -> list[str]:
    command = ["bash", "-c", "set -f; shopt -u nullglob; printf '%s\\n' " + pattern]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


PARTS: st.SearchStrategy[str] = st.deferred(
    lambda: st.one_of(
        st.sampled_from(["a", "b0", "-", "..", "{}", "{x}"]),
        st.builds("{{{}..{}}}".format, st.integers(-12, 12), st.integers(-12, 12)),
        st.builds("{{{:03}..{}}}".format, st.integers(-9, 12), st.integers(-12, 12)),
        st.builds("{{{}..{}..{}}}".format, st.integers(0, 12), st.integers(-12, 12), st.integers(-4, 4)),
        st.builds("{{{}..{}}}".format, st.sampled_from("acz"), st.sampled_from("acz")),
        st.lists(PARTS, min_size=2, max_size=3).map(lambda parts: "{" + ",".join(parts) + "}"),
    )
)


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@settings(max_examples=80, deadline=None)
@given(st.lists(PARTS, min_size=1, max_size=4).map(lambda parts: "p" + "".join(parts)))
def test_as_bash_does_it(pattern: str) -> None:
    # Each further pair multiplies the names.
    assume(pattern.count("{") <= 4)
    expected = bash(pattern)
    assume(len(expected) <= 500)
    assert names_of(pattern) == expected


@pytest.mark.parametrize(
    ("pattern", "first", "last", "count"),
    [
        ("train-{0000..0099}.tar", "train-0000.tar", "train-0099.tar", 100),
        ("{a,b}/{1..2}.tar", "a/1.tar", "b/2.tar", 4),
        ("s3://bucket/{train,val}-{8..10}.tar", "s3://bucket/train-8.tar", "s3://bucket/val-10.tar", 6),
        ("plain.tar", "plain.tar", "plain.tar", 1),
        ("{plain}.tar", "{plain}.tar", "{plain}.tar", 1),
    ],
)
def test_the_names_of_shards(pattern: str, first: str, last: str, count: int) -> None:
    names = names_of(pattern)
    assert (names[0], names[-1], len(names)) == (first, last, count)


def test_a_pattern_of_too_many_names() -> None:
    with pytest.raises(ValueError, match="`shards` must be a pattern of at most 1000000 names"):
        TarShards("{1..2000}{1..2000}.tar")


@pytest.mark.parametrize(
    "pattern",
    [
        "{a,b}" * 40,
        "{0..9}" * 18 + ".tar",
        "{1..999999999999999999}.tar",
        "{{1..9999},{1..999999999}}{a,b}.tar",
        "{" * 99 + "{0..9999999}" + ",x}" * 99,
    ],
)
def test_what_stands_for_too_many_is_not_written_out(pattern: str) -> None:
    with pytest.raises(ValueError, match="at most 1000000 names"):
        TarShards(pattern)


def test_braces_that_are_too_deep_and_those_that_are_none() -> None:
    with pytest.raises(ValueError, match="at most 100 braces within each other"):
        TarShards("{a," * 5000 + "b" + "}" * 5000)
    with pytest.raises(ValueError, match="at most 100 braces within each other"):
        TarShards("{a," * 5000 + "b" + "}" * 5000 + "{" * 9000)
    assert names_of("{" * 50_000 + "{a,b}") == ["{" * 50_000 + each for each in "ab"]
    long = "{1.." + "9" * 5000 + "}"
    assert names_of(long) == [long]


def test_of_a_store_the_names_are_paths_whatever_they_look_like() -> None:
    assert names_of("s3://x") == ["s3://x"]
