"""Let a name in code, as in `load_image_batch` or `Pipeline.stop()`, lead to its page of the reference."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util.nodes import make_refnode

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.environment import BuildEnvironment

NAME = re.compile(r"\.?((?:\w+\.)*\w+)(\(.*\))?", re.DOTALL)
VERBS = ("function", "method", "classmethod", "staticmethod")
KINDS = ("class", "exception", "data", "property", *VERBS)
OF_OTHERS = {
    "DataLoader",
    "Entry",
    "Merge",
    "Part",
    "Pipe",
    "RandomResizedCrop",
    "Sample",
    "Store",
    "decode",
    "pin_memory",
}
"""Names that mean something else in the guide, unless they are given with their module."""
THEIRS = re.compile(r"\b(?:torchvision|torchdata|PyTorch|WebDataset|Streaming|FFCV|DALI)['\u2019]s\s$")
"""What stands before a name of somebody else's, as in "torchvision's `ImageFolder`"."""


class Names:
    """The names of the reference, by their last parts."""

    def __init__(self, env: BuildEnvironment) -> None:
        self._found: dict[str, list[str]] = defaultdict(list)
        self.objects = env.domains.python_domain.objects
        for path, entry in self.objects.items():
            if entry.objtype in KINDS and not entry.aliased:
                parts = path.split(".")
                for first in range(len(parts)):
                    self._found[".".join(parts[first:])].append(path)

    def resolve(self, text: str) -> str | None:
        """Return the whole name that a text in code means, or None if it means none or may mean several."""
        match = NAME.fullmatch(text)
        if not match or match[1] in OF_OTHERS:
            return None
        name, called = match[1], bool(match[2])
        found = self._found.get(name, [])
        if len(found) != 1:
            return None
        kind = self.objects[found[0]].objtype
        # A single word may be anything, a word with a line in it may be an argument.
        if "." not in name and kind not in ("class", "exception", "data") and not called:
            return found[0] if kind in VERBS and "_" in name else None
        return found[0] if not called or kind in ("class", "exception", *VERBS) else None


class LinkNames(SphinxPostTransform):
    """Turns names in code into links, except in headings and in links."""

    default_priority = 5

    def run(self, **_: Any) -> None:
        """Do it for one page."""
        names = Names(self.env)
        for literal in list(self.document.findall(nodes.literal)):
            if any(isinstance(it, nodes.reference | nodes.title) for it in ancestors(literal)):
                continue
            if is_theirs(literal):
                continue
            path = names.resolve(literal.astext())
            entry = path and names.objects[path]
            if not entry or (entry.docname == self.env.docname and not entry.node_id):
                continue
            link = make_refnode(
                self.app.builder,
                self.env.docname,
                entry.docname,
                entry.node_id,
                literal.deepcopy(),
            )
            literal.replace_self(link)


def is_theirs(literal: nodes.literal) -> bool:
    """Return whether the words before a name say that it belongs to another package."""
    before = literal.parent.index(literal) - 1
    return before >= 0 and bool(THEIRS.search(literal.parent[before].astext()))


def ancestors(node: nodes.Node) -> list[nodes.Node]:
    """Return what a node is in, from the inside out."""
    found = []
    while (node := node.parent) is not None:
        found.append(node)
    return found


def setup(app: Sphinx) -> dict[str, Any]:
    """Add the step."""
    app.add_post_transform(LinkNames)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
