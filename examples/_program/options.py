"""The command-line options that all programs have."""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path


def make_parser(doc: str | None, *, rounds: int = 3) -> argparse.ArgumentParser:
    """Return a parser with the options that all programs have.

    Args:
        doc: The program's docstring. ``--help`` shows its first paragraph.
        rounds: How often each row is measured by default.
    """
    parser = argparse.ArgumentParser(description=(doc or "").partition("\n\n")[0])
    parser.add_argument("--json", type=_writable, metavar="FILE", help="write the results and their origin to FILE")
    parser.add_argument("--plot", type=_picture, metavar="FILE.png", help="draw the results")
    parser.add_argument(
        "--quick", action="store_true", help="little data, few rows, one round: shows that it works, measures nothing"
    )
    parser.add_argument(
        "--rounds",
        type=positive,
        default=rounds,
        metavar="N",
        help="how often each row is measured, in turns; the median counts (default: %(default)s)",
    )
    return parser


def positive(text: str) -> int:
    """Parse a number of at least 1."""
    return _at_least(1, text)


def natural(text: str) -> int:
    """Parse a number of at least 0."""
    return _at_least(0, text)


def _at_least(least: int, text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else -1
    if number < least:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least {least}, got {text!r}")
    return number


def folder(text: str) -> Path:
    """Parse the path of an existing folder."""
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"there is no folder {text!r}")
    return path


def _writable(text: str) -> Path:
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir():
        raise argparse.ArgumentTypeError(f"must name a file in an existing folder, got {text!r}")
    return path


def _picture(text: str) -> Path:
    # Checked now rather than at the end of a long measurement.
    if find_spec("matplotlib") is None:
        raise argparse.ArgumentTypeError("drawing needs matplotlib: pip install 'spdl-turbo[demo]'")
    path = _writable(text)
    if path.suffix not in (".png", ".svg"):
        raise argparse.ArgumentTypeError(f"must end in .png or .svg, got {text!r}")
    return path
