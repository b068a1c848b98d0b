"""What the loaders of images, clips and sounds do not share: how media are read."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING, Any, ClassVar

from spdl import _guard  # noqa: F401 - says so where the reference has overwritten modules around this one.

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from spdl.dataloader._media.batch import LabelledBatch

__all__ = ["MediaReader"]


class MediaReader(abc.ABC):
    """Reads the media of the samples of a batch. Several threads call it at once."""

    media: ClassVar[str]
    """What messages call the media."""
    batch_type: ClassVar[type[LabelledBatch]]
    """The class of batches."""
    column: ClassVar[str] = "media"
    """The field of samples that holds what is read."""

    @abc.abstractmethod
    def read(
        self, columns: Mapping[str, list[Any]], epoch: int, num_threads: int
    ) -> tuple[dict[str, Any], Sequence[tuple[int, str]]]:
        """Load the media of some samples.

        Args:
            columns: The fields of the samples by their names.
            epoch: The number of the epoch.
            num_threads: How many threads may share the work.

        Returns:
            New numpy arrays by the names of their fields, with a place for each sample; and the places and reasons of
            failures, which hold zeros.

        Raises:
            LoadError: If all fail, and the shapes of their arrays are not known.
        """

    def find_fault(self, columns: Mapping[str, list[Any]], place: int) -> str | None:  # noqa: ARG002 - for those that do.
        """Return why a sample makes no sense, so that `read` cannot be asked for it; None if it does.

        Args:
            columns: The fields of the samples by their names.
            place: The sample's place in them.
        """
        return None

    def convert(
        self,
        results: list[Any],
        fields: dict[str, Any],  # noqa: ARG002 - for those that do.
        names: Sequence[str],  # noqa: ARG002
        num_threads: int,  # noqa: ARG002
    ) -> Any:
        """Return what a `transform` returned in the format of batches.

        Args:
            results: What it returned for each sample.
            fields: The other fields of the batch.
            names: What messages call the samples.
            num_threads: How many threads may share the work.

        Raises:
            TypeError, ValueError: If a result cannot get that format.
        """
        return results

    def finish(self, fields: dict[str, Any], epoch: int) -> dict[str, Any]:  # noqa: ARG002 - for those that do.
        """Change the fields of a whole batch, which are numpy arrays and lists."""
        return fields
