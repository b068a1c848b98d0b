"""What a program leaves: a JSON file with where its figures come from, and a picture."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from _program.plots import draw
from spdl.cli._common.provenance import provenance

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from _program.plots import Panel

Record = dict[str, Any]


def finish(
    options: argparse.Namespace, measured: Record, title: str, panels: Callable[[Record], Sequence[Panel]]
) -> None:
    """Write what the command line asks for.

    Args:
        options: The parsed command line; see `_program.options.make_parser`.
        measured: What was measured, as JSON holds it.
        title: What stands above the picture.
        panels: Makes of `measured` what is to be drawn.
    """
    if options.json:
        origin = provenance()
        origin["versions"] = {**_versions("torchvision", "torchdata", "matplotlib"), **_as_dict(origin["versions"])}
        record = {"title": title, "quick": options.quick, "rounds": options.rounds, "provenance": origin, **measured}
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
        print(f"written: {options.json}")
    if options.plot:
        draw(panels(measured), title, options.plot)
        print(f"drawn: {options.plot}")


def _as_dict(value: object) -> dict[str, str]:
    return value if isinstance(value, dict) else {}


def _versions(*names: str) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
