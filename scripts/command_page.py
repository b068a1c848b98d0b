"""Write the reference of the `spdl` command into docs/reference/command_line.md, from the parser itself.

Run it as `.venv/bin/python scripts/command_page.py` after a change of the command's options, and commit what it writes.
A test compares the page with the parser.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import TYPE_CHECKING

from sections import replace_section

from spdl.cli._main import make_parser

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "command_line.md"
LABEL = "scripts/command_page.py"


def content() -> str:
    """Return the page's part about the commands."""
    return "\n".join(part for name, parser in commands(make_parser()) for part in _section(name, parser))


def commands(parser: argparse.ArgumentParser, prefix: str = "spdl") -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Yield each command that does something with its words, such as `spdl bench images`."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]  # noqa: SLF001
    if not below:
        yield prefix, parser
    for action in below:
        for word, other in action.choices.items():
            yield from commands(other, f"{prefix} {word}")


def _section(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    actions = [it for it in parser._actions if not isinstance(it, argparse._HelpAction)]  # noqa: SLF001
    positional = [_metavar(it) for it in actions if not it.option_strings]
    yield f"## {name}\n"
    yield f"```text\n{' '.join([name, *(['[OPTIONS]'] if len(positional) < len(actions) else []), *positional])}\n```\n"
    yield f"{_text(parser.description)}\n"
    if parser.epilog:
        yield f"{_text(parser.epilog)}\n"
    if actions:
        yield "| option | meaning |\n| --- | --- |"
    for action in actions:
        shown = ", ".join(action.option_strings)
        metavar = "" if action.option_strings and action.nargs == 0 else _metavar(action)
        yield f"| `{' '.join(filter(None, (shown, metavar)))}` | {_text(_help(action)).replace('|', '/')} |"
    yield ""


def _metavar(action: argparse.Action) -> str:
    name = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    return f"[{name}]" if action.nargs == "?" else name


def _help(action: argparse.Action) -> str:
    return (action.help or "") % {"default": action.default, "const": action.const}


def _text(text: str | None) -> str:
    # An example of the command ends the text.
    prose, *command = re.split(r"(?<=: )(?=spdl [a-z])", text or "", maxsplit=1)
    # In Markdown an asterisk or an angle bracket would mean something else, and two hyphens would become a dash.
    prose = prose.replace("<", r"\<").replace("*", r"\*")
    prose = re.sub(r"(?<![\w`-])--?[a-z][a-z-]*\b", r"`\g<0>`", prose)
    return "".join((prose, *(f"`{each}`" for each in command)))


def with_commands(text: str) -> str:
    """Return a page with the part about the commands."""
    return replace_section(text, LABEL, content())


def main() -> None:
    """Write the page."""
    PAGE.write_text(with_commands(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
