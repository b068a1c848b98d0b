"""Let a long name in a title, a signature or a table end its line after a word of it: `get_default_` `hook_class`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from docutils import nodes
from linked_names import ancestors
from sphinx import addnodes
from sphinx.writers.html5 import HTML5Translator

if TYPE_CHECKING:
    from sphinx.application import Sphinx

LONG = 12
"""Shorter names fit into a column of a table."""
COLUMN = 24
"""Longer ones than this leave too little to other columns, also on a screen."""
LINE = 36
"""Longer ones than this do not fit into a line of a phone."""
WORDS = re.compile(
    r"(?<=[a-z0-9]_)(?=\w)|(?<=[A-Z]_)(?=[A-Z])|(?<=[a-z]{2})(?=[A-Z][a-z])"  # The words of a name.
    r"|(?<=[\w)][.=/])(?=[A-Za-z(])(?!(?:py|md|json|toml|tar|sh)\b)|(?<=\()(?=\w)"  # Modules, files, arguments.
)


class Translator(HTML5Translator):
    """Writes the marks into the pages alone: menus, the search and window titles keep the name unchanged."""

    def visit_Text(self, node: nodes.Text) -> None:  # noqa: N802 - docutils' name.
        """Write a text."""
        begin = len(self.body)
        super().visit_Text(node)
        if may_be_too_long(node):
            mark = '<wbr class="long">' if len(node.astext()) > COLUMN else "<wbr>"
            self.body[begin:] = [WORDS.sub(mark, part) for part in self.body[begin:]]


def may_be_too_long(text: nodes.Text) -> bool:
    """Return whether a text is a name, and may be longer than the line or the column that it stands in."""
    length = len(text.astext())
    if length < LONG:
        return False
    within = ancestors(text)
    if any(isinstance(it, addnodes.desc_signature) for it in within):
        return True
    if isinstance(text.parent, nodes.literal):
        return length > LINE or any(isinstance(it, nodes.entry | nodes.title) for it in within)
    return " " not in text and any(isinstance(it, nodes.entry | nodes.title) for it in within)


def setup(app: Sphinx) -> dict[str, Any]:
    """Write pages by this translator."""
    app.set_translator("html", Translator)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
