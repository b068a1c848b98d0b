"""The structure of a sample, as PyTorch writes that of nested dicts, lists and tuples."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from spdl.io import FormatError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Tree"]

_VERSION = 1


class Tree:
    """The structure of a sample.

    Args:
        text: What PyTorch has written of it.

    Attributes:
        count: How many leaves there are.

    Raises:
        FormatError: If it has other parts than dicts, lists and tuples, or is damaged.
    """

    def __init__(self, text: str) -> None:
        try:
            version, root = json.loads(text)
        except (ValueError, TypeError, RecursionError) as error:
            raise FormatError(f"its 'data_spec' is no structure of samples: {error}") from error
        if version != _VERSION:
            raise FormatError(f"its 'data_spec' has version {version!r}, and {_VERSION} is read")
        self._text = text
        try:
            self._make, self.count = _read(root)
        except RecursionError as error:
            raise FormatError("its 'data_spec' has too many levels") from error

    def build(self, leaves: list[Any]) -> Any:
        """Return leaves in their structure."""
        return self._make(iter(leaves))

    def __reduce__(self) -> tuple[type[Tree], tuple[str]]:
        return Tree, (self._text,)


def _read(node: Any) -> tuple[Callable[[Iterator[Any]], Any], int]:
    if not isinstance(node, dict) or not isinstance(node.get("children_spec"), list):
        raise FormatError(f"its 'data_spec' is damaged: {str(node)[:80]}")
    kind, inner = node.get("type"), [_read(child) for child in node["children_spec"]]
    count = sum(leaves for _, leaves in inner)
    makers = [maker for maker, _ in inner]
    if kind is None:
        return next, 1
    if kind == "builtins.dict":
        names = _names(node.get("context"), len(makers))
        return lambda leaves: {name: make(leaves) for name, make in zip(names, makers, strict=True)}, count
    if kind == "builtins.list":
        return lambda leaves: [make(leaves) for make in makers], count
    if kind == "builtins.tuple":
        return lambda leaves: tuple([make(leaves) for make in makers]), count
    raise FormatError(f"its samples have parts of the type {kind!r}: only dicts, lists and tuples are read")


def _names(context: Any, count: int) -> list[Any]:
    try:
        names = json.loads(context)
    except (ValueError, TypeError) as error:
        raise FormatError(f"its 'data_spec' is damaged: {str(context)[:80]}") from error
    if not isinstance(names, list) or len(names) != count or not all(isinstance(each, str | int) for each in names):
        raise FormatError(f"its 'data_spec' is damaged: {str(context)[:80]}")
    return names
