"""A bad record is an error in its place: whoever iterates gets those before it first."""

from __future__ import annotations

import io
import json
import tarfile
from typing import TYPE_CHECKING, Any

import pytest

from spdl.io import FormatError
from spdl.source import JsonLines, TarShards

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def write_lines(path: Path, count: int, bad: int) -> None:
    """Write lines, one of which is not JSON."""
    path.write_text("".join("{broken\n" if n == bad else json.dumps({"n": n}) + "\n" for n in range(count)))


def write_samples(path: Path, count: int, bad: int) -> None:
    """Write samples, of which one has a part twice."""
    with tarfile.open(path, "w") as archive:
        for number in range(count):
            for part in ("n", "n") if number == bad else ("n",):
                member = tarfile.TarInfo(f"{number:04}.{part}")
                member.size = len(content := b"%d" % number)
                archive.addfile(member, io.BytesIO(content))


def numbers(records: Iterator[Any]) -> Iterator[int]:
    """Yield the numbers of records."""
    return (int(bytes(each["n"])) if isinstance(each["n"], memoryview | bytes) else each["n"] for each in records)


@pytest.mark.parametrize("bad", [0, 1, 63, 64, 100, 199])
@pytest.mark.parametrize("begin", [0, 1, 60])
@pytest.mark.parametrize("kind", ["lines", "tar"])
def test_it_raises_after_the_good_ones(kind: str, begin: int, bad: int, tmp_path: Path) -> None:
    path = tmp_path / f"records.{kind}"
    records: JsonLines | TarShards
    if kind == "lines":
        write_lines(path, 200, bad)
        records = JsonLines(path, cache=tmp_path / "index")
    else:
        write_samples(path, 200, bad)
        records = TarShards(path, cache=tmp_path / "index")
    received = []
    try:
        for number in numbers(records.iterate_from(begin)):
            received.append(number)  # noqa: PERF402 - what came before the error counts.
    except FormatError:
        assert received == list(range(begin, bad))
    else:
        assert bad < begin
        assert received == list(range(begin, 200))
