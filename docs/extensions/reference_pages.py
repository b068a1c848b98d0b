"""Keep the pages of the reference, one for each class and verb, and their signatures fit for people.

Sphinx's autosummary makes the pages in `docs/api/` from the lists in `docs/reference/`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx import addnodes
from sphinx.ext.autosummary.generate import find_autosummary_in_files
from sphinx.pycode import ModuleAnalyzer
from sphinx.util import logging

if TYPE_CHECKING:
    from sphinx.application import Sphinx

PAGES = "api"
UNSET = re.compile(r"\b_UNSET\b|\bEllipsis\b")
UNFIT = re.compile(r"Unpack\[|<[\w.]+ object|0x[0-9a-f]{6}|\b_UNSET\b")
"""What tells a reader nothing: options without names, objects without a text of their own."""

PRIVATE = re.compile(r"\bspdl(?:\.\w+)*\._\w+(?:\.\w+)*\.(?=\w)")
"""The module in which a class is written, which is not the one that users import it from."""

logger = logging.getLogger(__name__)


def remove_old_pages(app: Sphinx) -> None:
    """Remove the pages of names that the reference lists no more."""
    lists = [str(path) for path in Path(app.srcdir, "reference").glob("*.md")]
    wanted = {f"{entry.name}.rst" for entry in find_autosummary_in_files(lists)}
    for page in Path(app.srcdir, PAGES).glob("*.rst"):
        if page.name not in wanted:
            page.unlink()


def show_defaults(*event: Any) -> tuple[str, str | None] | None:
    """Write three dots for an argument that has to be given in some calls only."""
    *_, signature, result = event
    return None if signature is None else (UNSET.sub("...", signature), result)


def skip_helpers_of_pickle(*event: Any) -> bool | None:
    """Leave out native functions without a signature, which objects use when they are pickled."""
    *_, member, _, _ = event
    return True if type(member).__name__ == "nb_func" else None


def check_signatures(app: Sphinx, tree: nodes.document) -> None:  # noqa: ARG001 - Sphinx's event.
    """Warn of a signature that hides its keywords or its defaults."""
    for signature in tree.findall(addnodes.desc_signature):
        if UNFIT.search(signature.astext()):
            logger.warning(
                "a signature that tells nothing: %s",
                signature.astext(),
                location=signature,
            )


def shorten_types(app: Sphinx, tree: nodes.document) -> None:  # noqa: ARG001 - Sphinx's event.
    """Show a type by its name, without the private module that it is written in; its link stays."""
    for body in tree.findall(nodes.field_body):
        for text in list(body.findall(nodes.Text)):
            if PRIVATE.search(text):
                text.parent.replace(text, nodes.Text(PRIVATE.sub("", text)))


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect everything."""
    # Overloads are for type checkers. Readers get the one signature that has all keywords and their defaults.
    ModuleAnalyzer.overloads = property(lambda _: {}, lambda *_: None)
    app.connect("builder-inited", remove_old_pages, priority=900)
    app.connect("autodoc-process-signature", show_defaults)
    app.connect("autodoc-skip-member", skip_helpers_of_pickle)
    app.connect("doctree-read", check_signatures)
    app.connect("doctree-read", shorten_types)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
