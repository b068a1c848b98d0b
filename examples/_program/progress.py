"""Progress of a program: one moving line on a terminal, plain lines elsewhere.

The lines go to standard error, so that a table on standard output is not disturbed.
"""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence


_through: list[Callable[[str], object]] = []


def tell_through(send: Callable[[str], object]) -> None:
    """Let another process show the lines of this one: give each to a function."""
    _through[:] = [send]


def tell(line: str) -> None:
    """Show a line of progress in place of the one before."""
    if _through:
        _through[0](line)
    elif sys.stderr.isatty():
        width = shutil.get_terminal_size().columns
        print(f"\r\x1b[K{line[: width - 1]}", end="", file=sys.stderr, flush=True)
    else:
        print(line, file=sys.stderr, flush=True)


def end() -> None:
    """Remove the line of progress from a terminal."""
    if not _through and sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def epochs(count: int) -> Iterator[int]:
    """Yield the numbers from 0 to count - 1, and say which epoch begins."""
    for index in range(count):
        tell(f"epoch {index + 1} of {count}")
        yield index
    end()


def distinguished(cases: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a label for each case: the arguments that are not the same in all of them."""
    varying = [key for key in (cases[0] if cases else ()) if len(set(map(str, _values(cases, key)))) > 1]
    return [", ".join(f"{key}={case[key]}" for key in varying) for case in cases]


def _values(cases: Iterable[Mapping[str, Any]], key: str) -> Iterator[Any]:
    for case in cases:
        yield case[key]
