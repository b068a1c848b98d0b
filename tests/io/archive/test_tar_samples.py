"""Samples out of archives, by the rule that WebDataset documents."""

from __future__ import annotations

import re
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.io.tars import make_tar

from spdl.io import FormatError, group_samples, iter_tarfile

# The rule as an expression.
NAME = re.compile(r"((?:.*/|)[^./]+)[.]([^/]*)", re.DOTALL)


@given(st.lists(st.text("ab./A", min_size=1, max_size=6), max_size=8))
def test_groups_by_the_name_up_to_the_first_dot(names: list[str]) -> None:
    members = [(name, index) for index, name in enumerate(names)]
    parsed = [(match[1], match[2].lower(), index) for name, index in members if (match := NAME.fullmatch(name))]
    expected = []
    for key, group in groupby(parsed, key=lambda it: it[0]):
        parts = [(part, index) for _, part, index in group]
        if len({part for part, _ in parts}) < len(parts):
            with pytest.raises(FormatError, match="twice"):
                list(group_samples(members))
            return
        expected.append({"__key__": key, **dict(parts)})
    assert list(group_samples(members)) == expected


def test_samples_of_an_archive() -> None:
    data = make_tar([("d/1.jpg", b"j"), ("d/1.seg.PNG", b"p"), ("README", b""), ("d/.hidden", b""), ("d/2.jpg", b"k")])
    samples = list(group_samples(iter_tarfile(data)))
    assert samples == [{"__key__": "d/1", "jpg": b"j", "seg.png": b"p"}, {"__key__": "d/2", "jpg": b"k"}]


def test_a_part_that_is_there_twice() -> None:
    with pytest.raises(FormatError, match=r"the sample 'a' has the part 'txt' twice, the second time as 'a\.TXT'"):
        list(group_samples([("a.txt", 1), ("a.TXT", 2)]))
    assert len(list(group_samples([("a.txt", 1), ("b.txt", 2), ("a.txt", 3)]))) == 3


def test_the_key_cannot_be_a_part() -> None:
    with pytest.raises(FormatError, match="twice"):
        list(group_samples([("a.__key__", 1)]))
