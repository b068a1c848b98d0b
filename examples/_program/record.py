"""The output of a program: a JSON file with the figures and their origin, and a picture."""

from __future__ import annotations

import json
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from _program.plots import draw
from spdl.cli._common.machine import provenance

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from _program.plots import Panel

Record = dict[str, Any]


def finish(
    options: argparse.Namespace, measured: Record, title: str, panels: Callable[[Record], Sequence[Panel]]
) -> None:
    """Write the files that the command line asks for.

    Args:
        options: The parsed command line; see `_program.options.make_parser`.
        measured: The results, in a form that JSON can hold.
        title: The title above the picture.
        panels: Turns `measured` into the panels to draw.
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
