"""The differences that are known, as known.toml lists them, and whether they are those that occur."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.conformance.finding import Finding

KNOWN = Path(__file__).with_name("known.toml")

Kind = Literal["near", "deliberate", "refused", "read", "wrong"]
Build = Literal["system", "wheel"]

_OUTCOMES: dict[Kind, tuple[str, ...]] = {
    "near": ("different",),
    "deliberate": ("different",),
    "wrong": ("different", "read"),
    "refused": ("refused",),
    "read": ("read",),
}


@dataclass(frozen=True)
class Known:
    """A difference to the oracle that is known, with its reason."""

    format: str
    kind: Kind
    reason: str
    files: tuple[str, ...]
    """Patterns of labels."""
    count: int | None = None
    """How many files have this difference; needed if it does not follow from `files`."""
    message: str = ""
    """A pattern in our error, or in the oracle's if only we read the file."""
    largest: float = 0
    """For near ones, the largest difference that is near."""
    mean: float = 0
    build: Build | None = None
    """The build that has it, if not all do."""

    def __post_init__(self) -> None:
        """Check what a typing mistake in the file could spoil."""
        name = f"{self.format} {list(self.files)}"
        if self.kind not in get_args(Kind):
            raise ValueError(f"{name}: `kind` must be one of {', '.join(get_args(Kind))}, not {self.kind!r}")
        if self.build not in (*get_args(Build), None):
            raise ValueError(f"{name}: `build` must be one of {', '.join(get_args(Build))}, not {self.build!r}")
        if not self.reason or not self.files:
            raise ValueError(f"{name}: `reason` and `files` must not be empty")
        if ";" in self.reason:
            raise ValueError(f"{name}: `reason` must hold no semicolon, which separates reasons in the docs")
        if (self.kind == "near") != bool(self.largest and self.mean):
            raise ValueError(f"{name}: `largest` and `mean` belong to near differences, and these need both")
        if self.message and self.kind not in ("refused", "read"):
            raise ValueError(f"{name}: `message` belongs to files that one side refuses")
        if self.count is None and any(set(pattern) & set("*?[") for pattern in self.files):
            raise ValueError(f"{name}: patterns of files need a `count`")

    @property
    def expected(self) -> int:
        """How many files have this difference."""
        return len(self.files) if self.count is None else self.count

    def covers(self, finding: Finding) -> bool:
        """Return whether this is what became of a file."""
        return (
            finding.format == self.format
            and finding.outcome in _OUTCOMES[self.kind]
            and any(fnmatchcase(finding.label, pattern) for pattern in self.files)
            and re.search(self.message, finding.theirs if self.kind == "read" else finding.ours) is not None
            and (self.kind != "near" or self._near(finding))
        )

    def _near(self, finding: Finding) -> bool:
        if finding.largest is None or finding.mean is None:
            return False
        return finding.largest <= self.largest and finding.mean <= self.mean


@dataclass(frozen=True)
class Match:
    """The findings that are differences, with what is known of them."""

    listed: list[tuple[Finding, Known]]
    unlisted: list[Finding]
    stale: list[str]
    """What the list says and does not occur."""


def known(build: Build, path: Path = KNOWN) -> list[Known]:
    """Return the differences of this build that a file lists.

    Raises:
        TypeError: If an entry lacks a field, or has an unknown one.
        ValueError: If a field has a wrong value.
    """
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("difference", [])
    listed = [Known(**{**entry, "files": tuple(entry["files"])}) for entry in entries]
    return [each for each in listed if each.build in (build, None)]


def match(findings: Sequence[Finding], listed: Sequence[Known]) -> Match:
    """Compare the differences that occur with those that are listed. The first entry that covers one has it."""
    counts = dict.fromkeys(range(len(listed)), 0)
    unused = {(index, pattern) for index, each in enumerate(listed) for pattern in each.files}
    matched, unlisted = [], []
    for finding in findings:
        if finding.outcome in ("equal", "both refuse"):
            continue
        index = next((index for index, each in enumerate(listed) if each.covers(finding)), None)
        if index is None:
            unlisted.append(finding)
            continue
        counts[index] += 1
        unused -= {(index, pattern) for pattern in listed[index].files if fnmatchcase(finding.label, pattern)}
        matched.append((finding, listed[index]))
    stale = [_stale(each, counts[index], unused, index) for index, each in enumerate(listed)]
    return Match(matched, unlisted, [each for each in stale if each])


def _stale(entry: Known, count: int, unused: set[tuple[int, str]], index: int) -> str:
    gone = [pattern for pattern in entry.files if (index, pattern) in unused]
    if gone:
        return f"{entry.format}, {entry.kind} ({entry.reason}): no such difference in {', '.join(gone)}"
    if count != entry.expected:
        return f"{entry.format}, {entry.kind} ({entry.reason}): {entry.expected} files are listed, {count} found"
    return ""
