"""What became of all files, by format: the record of a run, and what it prints."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from tests.conformance.formats import ARRAYS, IMAGES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.conformance.finding import Finding
    from tests.conformance.known import Match

COLUMNS = ("files", "equal", "near", "refused by both", "refused by us", "read by us alone", "deliberate", "wrong")
"""How files are counted. Those of the last column are mistakes of ours."""

_COLUMN = {"near": "near", "refused": "refused by us", "read": "read by us alone", "deliberate": "deliberate"}
_SHOWN = 300


def rows(findings: Sequence[Finding], matched: Match) -> dict[str, dict[str, int]]:
    """Return the counts of the files of each format."""
    columns = {finding.label: _COLUMN.get(entry.kind, "wrong") for finding, entry in matched.listed}
    plain = {"equal": "equal", "both refuse": "refused by both", "refused": "refused by us", "read": "read by us alone"}
    counts = {name: Counter({"files": 0}) for name in (*IMAGES, *ARRAYS)}
    for finding in findings:
        column = columns.get(finding.label) or plain.get(finding.outcome, "wrong")
        counts[finding.format].update(["files", column])
    return {name: {column: found[column] for column in COLUMNS} for name, found in counts.items() if found["files"]}


def differences(matched: Match) -> list[dict[str, Any]]:
    """Return the listed differences that occur, by reason, with the number of files and the largest of each."""
    groups: dict[tuple[str, str, str], dict[str, Any]] = {}
    for finding, entry in matched.listed:
        key = entry.format, entry.kind, entry.reason
        group = groups.setdefault(key, dict(zip(("format", "kind", "reason"), key, strict=True)) | {"files": 0})
        group["files"] += 1
        if entry.kind == "near":
            group["largest"] = max(group.get("largest", 0), finding.largest)
            group["mean"] = max(group.get("mean", 0), round(finding.mean or 0, 3))
    order = (*IMAGES, *ARRAYS)
    return sorted(groups.values(), key=lambda each: (order.index(each["format"]), each["kind"], -each["files"]))


def table(counted: dict[str, dict[str, int]]) -> str:
    """Return the counts as lines of text."""
    width = max(map(len, ("format", *counted)))
    lines = [" | ".join(["format".ljust(width), *COLUMNS])]
    for name, counts in counted.items():
        lines.append(" | ".join([name.ljust(width), *(str(counts[each]).rjust(len(each)) for each in COLUMNS)]))
    return "\n".join(lines)


def complaints(matched: Match) -> list[str]:
    """Return what is wrong with a run: differences that are not listed, and listed ones that do not occur."""
    return [*map(_complaint, matched.unlisted), *(f"known.toml is out of date: {each}" for each in matched.stale)]


def _complaint(finding: Finding) -> str:
    levels = "" if finding.largest is None else f" (at most {finding.largest:g}, on average {finding.mean:.3f})"
    return (
        f"{finding.label}: {finding.format}, {finding.outcome}{levels}\n"
        f"  {finding.way}: {_short(finding.ours)}\n"
        f"  oracle: {_short(finding.theirs)}"
    )


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def summary(findings: Iterable[Finding]) -> str:
    """Return how many files have which outcome, in a line."""
    counts = Counter(finding.outcome for finding in findings)
    return ", ".join(f"{count} {outcome}" for outcome, count in counts.most_common())
