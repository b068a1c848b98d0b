"""A difference that is not listed is found, and so is a listed one that does not occur."""

from pathlib import Path
from typing import Any

import pytest

from tests.conformance.finding import Finding
from tests.conformance.known import Known, known, match

ENTRY = {"format": "PNG", "kind": "refused", "reason": "some reason", "files": ("p/a.png",)}


def entry(**changes: Any) -> Known:
    return Known(**(ENTRY | changes))


def finding(label: str = "p/a.png", outcome: str = "refused", **changes: Any) -> Finding:
    given = {"way": "load_image", "ours": "RuntimeError: in tiles", "theirs": "OSError: no"}
    return Finding(label=label, outcome=outcome, **({"format": "PNG"} | given | changes))


def covered(listed: Known, found: Finding) -> bool:
    matched = match([found], [listed])
    assert bool(matched.unlisted) == bool(matched.stale) != bool(matched.listed)
    return bool(matched.listed)


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        (entry(), finding()),
        (entry(message="tiles"), finding()),
        (entry(files=("p/*.png",), count=1), finding()),
        (entry(kind="read", message="no$"), finding(outcome="read")),
        (entry(kind="near", largest=2, mean=0.5), finding(outcome="different", largest=2.0, mean=0.5)),
        (entry(kind="deliberate"), finding(outcome="different")),
        (entry(kind="wrong"), finding(outcome="different")),
        (entry(kind="wrong"), finding(outcome="read")),
    ],
)
def test_a_listed_difference_passes(listed: Known, found: Finding) -> None:
    assert covered(listed, found)


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        (entry(), finding("p/b.png")),
        (entry(), finding(format="GIF")),
        (entry(), finding(outcome="read")),
        (entry(), finding(outcome="different")),
        (entry(), finding(outcome="failed")),
        (entry(message="strips"), finding()),
        (entry(kind="read", message="tiles"), finding(outcome="read")),
        (entry(kind="near", largest=2, mean=0.5), finding(outcome="different", largest=2.0, mean=0.51)),
        (entry(kind="near", largest=2, mean=0.5), finding(outcome="different", largest=3.0, mean=0.1)),
        (entry(kind="near", largest=2, mean=0.5), finding(outcome="different")),  # Another shape.
        (entry(kind="deliberate"), finding(outcome="failed")),
        (entry(kind="wrong"), finding()),
        (entry(files=("p/?.gif",), count=1), finding()),
    ],
)
def test_another_difference_fails(listed: Known, found: Finding) -> None:
    assert not covered(listed, found)


@pytest.mark.parametrize("outcome", ["equal", "both refuse"])
def test_what_is_no_difference_needs_no_entry(outcome: str) -> None:
    matched = match([finding(outcome=outcome)], [])
    assert (matched.listed, matched.unlisted, matched.stale) == ([], [], [])


def test_an_entry_that_occurs_no_more_is_named() -> None:
    listed = [entry(files=("p/a.png", "p/b.png")), entry(files=("q/*",), count=2)]
    matched = match([finding(), finding("q/a.png")], listed)
    assert matched.stale == [
        "PNG, refused (some reason): no such difference in p/b.png",
        "PNG, refused (some reason): 2 files are listed, 1 found",
    ]
    assert match([finding(), finding("p/b.png"), finding("q/a.png"), finding("q/b.png")], listed).stale == []
    too_many = match([*map(finding, ("p/a.png", "p/b.png", "q/a.png", "q/b.png", "q/c.png"))], listed)
    assert too_many.stale == ["PNG, refused (some reason): 2 files are listed, 3 found"]


def test_the_first_entry_that_fits_has_a_file() -> None:
    first, second = entry(), entry(files=("p/*",), count=1)
    found = [finding(), finding("p/b.png")]
    matched = match(found, [first, second])
    assert matched.listed == [(found[0], first), (found[1], second)]
    assert matched.stale == []


TEXT = """
[[difference]]
format = "PNG"
kind = "refused"
reason = "some reason"
files = ["p/a.png"]
"""


def test_entries_of_another_build_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "known.toml"
    path.write_text(TEXT + 'build = "wheel"\n' + TEXT)
    assert [each.build for each in known("wheel", path)] == ["wheel", None]
    assert [each.build for each in known("system", path)] == [None]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kind": "refuse"}, "`kind` must be one of near, deliberate, refused, read, wrong, not 'refuse'"),
        ({"build": "debian"}, "`build` must be one of system, wheel, not 'debian'"),
        ({"reason": ""}, "`reason` and `files` must not be empty"),
        ({"files": ()}, "`reason` and `files` must not be empty"),
        ({"reason": "a; b"}, "`reason` must hold no semicolon"),
        ({"kind": "near"}, "these need both"),
        ({"kind": "near", "largest": 1}, "these need both"),
        ({"largest": 1, "mean": 1}, "belong to near differences"),
        ({"kind": "wrong", "message": "tiles"}, "`message` belongs to files that one side refuses"),
        ({"files": ("p/*",)}, "patterns of files need a `count`"),
        ({"file": "p/a.png"}, "unexpected keyword argument 'file'"),
    ],
)
def test_a_mistake_in_an_entry_is_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        entry(**change)


@pytest.mark.parametrize("build", ["system", "wheel"])
def test_the_list_can_be_read(build: Any) -> None:
    assert len(known(build)) > 30
