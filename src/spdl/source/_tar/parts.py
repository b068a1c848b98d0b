"""The parts of a sample, by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from spdl._check import show
from spdl.io._archive.tar_samples import KEY

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["TarParts"]

_SHOWN = 20


class TarParts(dict[str, Any]):
    """The contents of a sample's parts by their names, and its key.

    A name with semicolons is the first of several that the sample has, as in WebDataset: ``parts["jpg;jpeg;png"]``.

    Args:
        archive: What messages call the archive.
        parts: The parts, and the key; or none, to be filled.
    """

    __slots__ = ("archive",)

    def __init__(self, archive: str, parts: Mapping[str, Any] | None = None) -> None:
        if parts is not None:
            self.update(parts)
        self.archive = archive

    def __missing__(self, name: Any) -> Any:
        found = self._first_of(name)
        if found is None:
            raise KeyError(self._explain(name))
        return self[found]

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or self._first_of(name) is not None

    def get(self, name: Any, default: Any = None, /) -> Any:
        """Return a part, or something else if the sample has none of that name."""
        return self[name] if name in self else default  # noqa: SIM401 - this is it.

    def _first_of(self, names: object) -> str | None:
        if not isinstance(names, str) or ";" not in names:
            return None
        return next((name for name in names.split(";") if super(TarParts, self).__contains__(name)), None)

    def _explain(self, name: Any) -> str:
        own = [repr(part) for part in self if part != KEY]
        more = f" and {len(own) - _SHOWN} more" if len(own) > _SHOWN else ""
        has = f"the sample {super().get(KEY)!r} of {self.archive} has {', '.join(own[:_SHOWN]) or 'no part'}{more}"
        if isinstance(name, str) and ";" in name:
            return f"{has}, and none of {name!r}"
        return (
            f"{has}, and no part {show(name)}. Where names differ among samples, a name such as 'jpg;jpeg;png' is the "
            "first of these that there is"
        )
