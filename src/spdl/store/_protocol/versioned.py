"""What a store can do that knows which version of an object it has read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from typing_extensions import Buffer

    from spdl.store._protocol.entry import Entry

__all__ = ["VersionedStore"]


@runtime_checkable
class VersionedStore(Protocol):
    """A store whose answers say of which version they are, so that nobody has to ask again whether it has changed."""

    def read_version(
        self, path: str, ranges: tuple[Sequence[int], Sequence[int]] | None = None
    ) -> tuple[Entry, list[Buffer]]:
        """Return the version that was read, and its content, whole or in parts.

        Args:
            path: Which object.
            ranges: Where each part begins, and how many bytes each has; None for the whole content, as one part.

        Raises:
            FileNotFoundError: If there is no such object.
            StoreError: If it cannot be read.
        """
        ...
