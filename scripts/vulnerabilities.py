"""Compare the libraries in a wheel with what is publicly known against them (CVEs).

`vulnerabilities.toml` has what is known, and how old that is; nothing is asked over a network. A library that was never
looked up is an error. So is a version that is affected, unless the list says why what we build of it is not.

`scripts/release.sh` runs it: python3 scripts/bundle/sbom.py | python3 scripts/vulnerabilities.py --max-age 60
The list of what is inside (SBOM) may also be that of a wheel or of an earlier release. Without --max-age, what is known
may be of any age; --list names another file. A candidate for a release is not held up: --notes writes what is open to a
file for its notes.
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import sys
import tomllib
from pathlib import Path
from typing import Any

LIST = Path(__file__).with_suffix(".toml")
FIELDS = {"since", "until", "fixed", "part", "not_built", "not_reached", "source"}


def numbers(version: str) -> tuple[int, ...]:
    """Return the numbers of a version, by which versions have an order."""
    return tuple(int(part) for part in version.split("."))


def is_affected(version: str, entry: dict[str, Any]) -> bool:
    """Return whether a version has what the entry describes.

    `fixed` lists the first version of each branch that is no longer affected. With 7.1.4 and 8.0.2, versions 7.1.3 and
    8.0.1 are affected, and 7.1.5 and 8.0.2 are not.
    """
    it = numbers(version)
    if "since" in entry and it < numbers(entry["since"]):
        return False
    if "until" in entry and it > numbers(entry["until"]):
        return False
    fixed = sorted(numbers(each) for each in entry.get("fixed", []))
    return not fixed or (it < fixed[-1] and not any(each[:2] == it[:2] and it >= each for each in fixed))


def unexplained(components: list[dict[str, Any]], known: dict[str, Any]) -> list[str]:
    """Return a line for each library and vulnerability for which the list has no good answer."""
    lines = []
    for component in components:
        name, version = component["name"], component.get("version")
        if version is None:
            continue  # What a wheel needs and has not inside.
        if name not in known:
            lines.append(f"{name} {version}: nobody has looked up what is known against it")
            continue
        if "to_look_up" in known[name]:
            lines.append(f"{name} {version}: still to look up: {known[name]['to_look_up']}")
        for identifier, entry in known[name].get("known", {}).items():
            if unknown := set(entry) - FIELDS:
                raise SystemExit(f"{identifier} has a field {unknown.pop()}; there are {', '.join(sorted(FIELDS))}")
            if is_affected(version, entry) and not entry.keys() & {"not_built", "not_reached"}:
                fixed = ", ".join(entry.get("fixed", [])) or "no version that is listed"
                lines.append(f"{name} {version}: {identifier}, {entry['part']}; fixed in {fixed}")
    return lines


def main() -> None:
    """Print what is not explained, and exit with 1 if that is anything."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--list", type=Path, default=LIST, help="what is known (default: %(default)s)")
    parser.add_argument("--max-age", type=int, metavar="DAYS", help="refuse a list that is older")
    parser.add_argument("--notes", type=Path, metavar="FILE", help="write what is open there, and exit with 0")
    arguments = parser.parse_args()
    known = tomllib.loads(arguments.list.read_text(encoding="utf-8"))
    looked_up: dt.date = known.pop("looked_up")
    components = json.load(sys.stdin)["components"]
    lines = unexplained(components, known)
    age = (dt.datetime.now(tz=dt.UTC).date() - looked_up).days
    if arguments.max_age is not None and age > arguments.max_age:
        lines.append(
            f"{arguments.list} is of {looked_up}, {age} days ago, and a release needs one of {arguments.max_age} days"
            f" at most: look up what has become known since, and change its date"
        )
    if arguments.notes is not None:
        heading = "### Open in the bundled libraries\n\n"
        arguments.notes.write_text(
            heading + "".join(f"- {line}\n" for line in lines) if lines else "", encoding="utf-8"
        )
        sys.stdout.write(f"{len(lines)} open points go into the notes: {arguments.notes}\n")
        return
    if lines:
        count = f"{len(lines)} of these are" if len(lines) > 1 else "This is"
        lines.append(
            f"{count} in the way of a release. Take a version that is not affected (scripts/bundle/sources.txt), or say"
            f" in {arguments.list.name} why what we build of it is not."
        )
        sys.exit("\n".join(lines))
    total = sum(len(each.get("known", {})) for each in known.values())
    sys.stdout.write(f"{total} known vulnerabilities, and none in what is bundled ({looked_up})\n")


if __name__ == "__main__":
    main()
